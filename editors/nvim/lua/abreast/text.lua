--- The text of a buffer as the sidecar has it.
---
--- Invariant: a document's text is the buffer's lines with the line end of 'fileformat' between
--- them, and one more at the end if 'endofline' is set. Everything else here follows from that.

local api = vim.api

local M = {}

--- @param bufnr integer
--- @return string?  nil for 'fileformat' "mac", which no LSP server reads as Neovim does.
function M.line_end(bufnr)
  return ({ unix = '\n', dos = '\r\n' })[vim.bo[bufnr].fileformat]
end

--- @param bufnr integer
--- @return string
function M.full(bufnr)
  local line_end = M.line_end(bufnr) or '\r'
  local lines = api.nvim_buf_get_lines(bufnr, 0, -1, true)
  return table.concat(lines, line_end) .. (vim.bo[bufnr].endofline and line_end or '')
end

--- Returns true if `text` is UTF-8 as others understand it: no surrogates, nothing overlong.
--- Neovim keeps any bytes; one that is sent makes the whole message unreadable.
--- @param text string
--- @return boolean
function M.is_utf8(text)
  -- A loop that LuaJIT compiles: ten times as fast as a pattern.
  local byte, n_bytes, at = string.byte, #text, 1
  local function is_between(index, low, high)
    local it = byte(text, index)
    return it and it >= low and it <= high
  end
  while at <= n_bytes do
    local lead = byte(text, at)
    if lead < 0x80 then
      at = at + 1
    elseif lead < 0xC2 or lead > 0xF4 then
      return false
    else
      local low = lead == 0xE0 and 0xA0 or lead == 0xF0 and 0x90 or 0x80
      local high = lead == 0xED and 0x9F or lead == 0xF4 and 0x8F or 0xBF
      local n_more = lead >= 0xF0 and 3 or lead >= 0xE0 and 2 or 1
      if not is_between(at + 1, low, high) then
        return false
      end
      for index = at + 2, at + n_more do
        if not is_between(index, 0x80, 0xBF) then
          return false
        end
      end
      at = at + n_more + 1
    end
  end
  return true
end

--- The first string anywhere in `value` that is not UTF-8 is at the returned path.
--- @param value any
--- @param path? string
--- @return string?
function M.not_utf8_at(value, path)
  if type(value) == 'string' then
    return not M.is_utf8(value) and (path or 'the value') or nil
  end
  if type(value) ~= 'table' then
    return nil
  end
  for key, member in pairs(value) do
    local at = M.not_utf8_at(member, path and (path .. '.' .. tostring(key)) or tostring(key))
    if at then
      return at
    end
  end
end

--- The byte column of a position, if there is such a place in the line.
--- @param line string
--- @param character integer
--- @param encoding string
--- @return integer?
function M.byte_column(line, character, encoding)
  if encoding == 'utf-8' then
    local is_inside = character < #line
    if character > #line or is_inside and vim.str_utf_start(line, character + 1) ~= 0 then
      return nil
    end
    return character
  end
  local ok, column
  if vim.fn.has('nvim-0.11') == 1 then
    ok, column = pcall(vim.str_byteindex, line, encoding, character, true)
  else
    ok, column = pcall(vim.str_byteindex, line, character, encoding == 'utf-16')
  end
  return ok and column or nil
end

--- Splits a text at the line ends that the buffer has.
--- @param text string
--- @param line_end string
--- @return string[]?  nil if the text has a line end that the buffer cannot hold.
function M.split(text, line_end)
  local lines = vim.split(text, line_end, { plain = true })
  if line_end == '\r\n' and text:gsub('\r\n', ''):find('\n', 1, true) then
    return nil
  end
  return lines
end

return M
