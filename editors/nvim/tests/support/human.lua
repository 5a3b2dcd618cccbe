--- A person at the keyboard: keys in pieces, so that anything can happen in between.

local M = {}

--- What a person does, as pieces of keys. `%d` is a line number, `%s` a word.
local habits = {
  { '%dG', 'i', '%s', ' ', '%s', '<Esc>' },
  { '%dG', 'o', '%s', '<CR>', '%s', '<Esc>' },
  { '%dG', 'O', '%s', '<Esc>' },
  { '%dG', 'A', ' ', '%s', '<BS>', '<Esc>' },
  { '%dG', 'I', '%s', '<C-w>', '%s', ' ', '<Esc>' },
  { '%dG', 'cc', '%s', '<Esc>' },
  { '%dG', 'c', 'i', 'w', '%s', '<Esc>' },
  { '%dG', 'd', 'd' },
  { '%dG', 'd', 'j' },
  { '%dG', 'x', '.', '.' },
  { '%dG', 'yy', 'p' },
  { '%dG', 'V', 'j', 'd' },
  { '%dG', 'V', 'j', '>' },
  { '%dG', 'v', 'l', 'l', 'd' },
  { '%dG', '<C-v>', 'jj', 'I', 'ab', '<Esc>' },
  { '%dG', '<C-v>', 'j', '$', 'A', 'z', '<Esc>' },
  { '%dG', 'R', '%s', '<Esc>' },
  { '%dG', 'r', 'y' },
  { '%dG', 'J' },
  { '%dG', 'o', 'ag', '<C-n>', '<C-n>', '<C-y>', ' ', '<Esc>' },
  { 'ggO', '%s', '<Esc>' },
  { 'Go', '%s', '<Esc>' },
  { 'u' },
  { 'u', 'u' },
  { '<C-r>' },
  { '%dG', 'qq', 'A', '!', '<Esc>', 'j', 'q', '3@q' },
  { '%dG', ':s/t/T/e<CR>' },
  { '%dG', '3o', '%s', '<Esc>' },
  { '%dG', '"ayy', 'G', '"ap' },
  { '/agent<CR>', 'dd' },
}

--- Command lines that are open for a moment, with a preview.
local previews = {
  { '%dG', ':s/', 't', '/', 'T', '<Esc>' },
  { ':1,$s/agent', '/h', 'x', '<Esc>' },
  { '%dG', ':s/t', '/T', '/e<CR>' },
}

--- @param random fun(from: integer, to: integer): integer
--- @param options { n_lines: integer, buffers: boolean, reload: boolean, previews: boolean }
--- @return string[] pieces
function M.act(random, options)
  local kind = random(1, 40)
  if options.buffers and kind <= 3 then
    return { ('<Cmd>buffer %s.txt<CR>'):format(random(1, 2) == 1 and 'a' or 'b') }
  elseif options.reload and kind == 4 then
    return { '<Cmd>silent! edit!<CR>' }
  elseif options.reload and kind == 5 then
    return { '<Cmd>silent! write<CR>' }
  end
  local list = options.previews and kind >= 38 and previews or habits
  local pieces = {}
  for _, piece in ipairs(list[random(1, #list)]) do
    piece = piece:gsub('%%d', random(1, options.n_lines))
    piece = piece:gsub('%%s', ('h%d'):format(random(100, 999)))
    table.insert(pieces, piece)
  end
  return pieces
end

return M
