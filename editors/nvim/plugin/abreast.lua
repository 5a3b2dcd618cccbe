-- What is there before anything of the plugin is needed: the command, the highlight groups, and
-- the start on the first file. Nothing here may fail to parse in an old Neovim.

if vim.g.loaded_abreast then
  return
end
vim.g.loaded_abreast = 1

if vim.fn.has('nvim-0.10') == 0 then
  local version = vim.version()
  local message = 'abreast needs Neovim 0.10 or newer, and this is %d.%d.%d; it stays off. '
    .. 'Update Neovim, or remove the plugin.'
  message = message:format(version.major, version.minor, version.patch)
  vim.api.nvim_echo({ { message, 'WarningMsg' } }, true, {})
  return
end

vim.cmd('highlight default link AbreastSign DiagnosticSignInfo')
vim.cmd('highlight default link AbreastText DiagnosticVirtualTextInfo')

vim.api.nvim_create_user_command('Abreast', function(args)
  require('abreast.command').run(args)
end, {
  nargs = '*',
  desc = 'Agents editing beside you: status, log, restart, stop, clear',
  complete = function(lead, line)
    return require('abreast.command').complete(lead, line)
  end,
})

local group = vim.api.nvim_create_augroup('abreast.start', {})

vim.api.nvim_create_autocmd({ 'BufReadPost', 'BufNewFile', 'BufFilePost', 'BufWritePost' }, {
  group = group,
  desc = 'abreast: share this file with the agents',
  callback = function(args)
    require('abreast.buffers').on_buffer(args.buf)
  end,
})

-- Files may be there already: a plugin manager may come late, and `:packadd` on the command line.
local function share_all()
  require('abreast.buffers').on_buffers()
end
if vim.v.vim_did_enter == 1 then
  vim.schedule(share_all)
else
  vim.api.nvim_create_autocmd('VimEnter', { group = group, once = true, callback = share_all })
end
