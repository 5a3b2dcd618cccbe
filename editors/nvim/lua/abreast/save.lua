--- Writing buffers for the sidecar, with whatever the human's configuration does on writing.
---
--- Invariant: a write that would ask the human something is not begun.

local calm = require('abreast.calm')
local disk = require('abreast.disk')

local api = vim.api

local M = {}

--- @param bufnr integer
--- @return string? reason
local function why_not(bufnr)
  local bo = vim.bo[bufnr]
  if bo.readonly then
    return 'the buffer is read-only'
  elseif bo.buftype ~= '' then
    return 'the buffer is not a file'
  elseif disk.is_newer(bufnr) then
    return 'the file on disk is newer than the buffer'
  end
end

--- A formatter may change any line.
--- @param bufnr integer
--- @return string? reason
local function why_not_now(bufnr)
  local last = api.nvim_buf_line_count(bufnr)
  return calm.reason(bufnr, { { first = 0, last = last, n_more = 1 } })
end

--- @param wire Abreast.Wire
--- @param uri string
--- @return table? saved
--- @return string? reason
local function save(wire, uri)
  local document = wire:find(uri)
  local bufnr = document and wire:buffer(document)
  if not document or not bufnr then
    return nil, 'not open'
  end
  wire:settle(document)
  if not vim.bo[bufnr].modified then
    return { uri = uri }
  end
  local reason = why_not(bufnr)
    or calm.wait(function()
      return why_not_now(bufnr)
    end)
    or why_not(bufnr)
  if reason then
    return nil, reason
  end
  local before = document.version
  local ok, err = pcall(api.nvim_buf_call, bufnr, function()
    vim.cmd('silent keepalt update')
  end)
  wire:flush()
  wire:settle(document)
  if not ok then
    return nil, (tostring(err):gsub('^Vim%([^)]*%):', ''))
  elseif vim.bo[bufnr].modified then
    return nil, 'the buffer is still modified after writing it'
  end
  local after = document.version
  return { uri = uri, formatted = after ~= before and { from = before, to = after } or nil }
end

--- Carries out `abreast/save`.
--- @param wire Abreast.Wire
--- @param params table
--- @return table
function M.save(wire, params)
  wire:flush()
  local saved, failed = {}, {}
  for _, uri in ipairs(params.uris or {}) do
    local row, reason = save(wire, uri)
    if row then
      table.insert(saved, row)
    else
      table.insert(failed, { uri = uri, reason = reason })
    end
  end
  return { saved = saved, failed = failed }
end

return M
