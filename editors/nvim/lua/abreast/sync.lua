--- The barrier: when it is answered, the sidecar has what the human has typed.
---
--- Invariant: each change made before the answer is on the wire before the answer.

local calm = require('abreast.calm')
local disk = require('abreast.disk')

local api = vim.api

local M = {}

--- Reloads the buffer if its file is newer, but not under the human's hands.
--- @param bufnr integer
local function catch_up(bufnr)
  local whole = { { first = 0, last = api.nvim_buf_line_count(bufnr), n_more = 1 } }
  if not calm.reason(bufnr, whole) then
    disk.catch_up(bufnr)
  end
end

--- Carries out `abreast/sync`.
--- @param wire Abreast.Wire
--- @param params table
--- @return table
function M.sync(wire, params)
  local function open_ones(uris)
    local found = {} --- @type { uri: string, document: Abreast.Document, bufnr: integer }[]
    for _, uri in ipairs(uris or {}) do
      local document = wire:find(uri)
      local bufnr = document and wire:buffer(document)
      if document and bufnr and vim.lsp.buf_is_attached(bufnr, wire.client_id) then
        table.insert(found, { uri = uri, document = document, bufnr = bufnr })
      end
    end
    return found
  end
  for _, it in ipairs(open_ones(params.uris)) do
    catch_up(it.bufnr)
  end
  wire:flush()
  for _, it in ipairs(open_ones(params.full)) do
    wire:send_full(it.document, it.bufnr)
  end
  local documents = vim.empty_dict()
  for _, it in ipairs(open_ones(params.uris)) do
    wire:settle(it.document)
    wire:tell_state(it.document)
    if it.document.is_open then
      documents[it.uri] = {
        instance = it.document.instance,
        version = it.document.version,
        dirty = vim.bo[it.bufnr].modified,
      }
    end
  end
  return { documents = documents }
end

return M
