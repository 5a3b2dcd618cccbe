--- Whether the file under a buffer is still the one that the buffer was read from or written to.
---
--- Invariant: nobody is ever asked anything here; what would need an answer is a conflict, and
--- stays one until the human reloads or writes the buffer.

local api = vim.api

local M = {}

--- What the disk had when the buffer was last read or written; `false`: no such file.
--- @type table<integer, table|false>
local noted = {}

--- @param bufnr integer
--- @return table|false
local function stat(bufnr)
  return vim.uv.fs_stat(api.nvim_buf_get_name(bufnr)) or false
end

--- Notes what is on disk now as what the buffer has.
--- @param bufnr integer
function M.note(bufnr)
  noted[bufnr] = stat(bufnr)
end

--- @param bufnr integer
--- @return boolean
local function reloads_by_itself(bufnr)
  local autoread = vim.bo[bufnr].autoread
  if autoread == nil then
    autoread = vim.o.autoread
  end
  return autoread and not vim.bo[bufnr].modified and noted[bufnr] ~= false
end

--- Notes it for a buffer that was read before anybody took notes. Neovim did: it reloads the buffer
--- if the file is newer.
--- @param bufnr integer
function M.note_late(bufnr)
  if noted[bufnr] == nil then
    M.note(bufnr)
    if reloads_by_itself(bufnr) then
      pcall(vim.cmd, ('silent! checktime %d'):format(bufnr))
    end
  end
end

--- @param bufnr integer
function M.forget(bufnr)
  noted[bufnr] = nil
end

--- Returns true if somebody else has written the file. A file that is gone is no news: it holds
--- nothing that could be lost.
--- @param bufnr integer
--- @return boolean
function M.is_newer(bufnr)
  local before, now = noted[bufnr], stat(bufnr)
  if before == nil or not now then
    return false
  end
  return not before
    or before.mtime.sec ~= now.mtime.sec
    or before.mtime.nsec ~= now.mtime.nsec
    or before.size ~= now.size
end

--- Returns true if the file is newer than the buffer and the buffer cannot just be reloaded.
--- @param bufnr integer
--- @return boolean
function M.is_conflict(bufnr)
  return M.is_newer(bufnr) and not reloads_by_itself(bufnr)
end

--- Reloads a buffer without changes of its own whose file is newer, as 'autoread' does sooner or
--- later anyway.
--- @param bufnr integer
function M.catch_up(bufnr)
  if M.is_newer(bufnr) and reloads_by_itself(bufnr) then
    pcall(vim.cmd, ('silent! checktime %d'):format(bufnr))
  end
end

return M
