--- What the sidecar asks of the editor, and tells it.
---
--- Invariant: these are the handlers of our client only; no other server comes here.

local event = require('abreast.event')
local guard = require('abreast.guard')
local highlight = require('abreast.highlight')
local log = require('abreast.log')
local save = require('abreast.save')
local sync = require('abreast.sync')

local M = {}

local function client()
  return require('abreast.client')
end

--- @param params table
local function on_ledger(params)
  local entries = params.entries or {}
  local listener = client().ledger_listeners[params.sessionId]
  if listener then
    listener(entries)
  end
  local stale = vim.tbl_filter(function(entry)
    return entry.status == 'stale'
  end, entries)
  if #stale > 0 then
    event.tell('AbreastStale', { sessionId = params.sessionId, entries = stale })
  end
  client().refresh_sessions()
end

--- What the human knows an agent by, if it has a name.
--- @param detail table
--- @return string?
local function label_of(detail)
  if detail.label then
    return detail.label
  end
  local ours = require('abreast.session').all()[detail.sessionId or '']
  if ours and ours.label then
    return ours.label
  end
  for _, session in ipairs(client().get().sessions) do
    if session.sessionId == detail.sessionId and session.label then
      return session.label
    end
  end
end

--- @param plans Abreast.BufferPlan[]
--- @param detail table
local function on_applied(plans, detail)
  local label = label_of(detail)
  for _, plan in ipairs(plans) do
    local hunks = event.hunks(plan)
    highlight.show(plan.bufnr, hunks, label or detail.sessionId or 'agent')
    event.tell('AbreastEdit', {
      uri = plan.document.uri,
      path = vim.uri_to_fname(plan.document.uri),
      via = 'editor',
      bufnr = plan.bufnr,
      sessionId = detail.sessionId,
      callId = detail.callId,
      label = label,
      hunks = hunks,
    })
  end
end

--- The handlers of one client.
--- @param wire Abreast.Wire
--- @return table<string, function>
function M.of(wire)
  return {
    ['workspace/applyEdit'] = function(_, params, context)
      local lsp_client = assert(vim.lsp.get_client_by_id(context.client_id))
      local ok, result, plans = pcall(guard.apply, wire, lsp_client, params)
      if not ok then
        log.add('error', tostring(result))
        local reason = tostring(result)
        return { applied = false, failureReason = reason, abreast = { code = 'error' } }
      end
      if #plans > 0 then
        -- The answer goes first.
        vim.schedule(function()
          on_applied(plans, type(params.abreast) == 'table' and params.abreast or {})
        end)
      end
      return result
    end,
    ['abreast/sync'] = function(_, params)
      return sync.sync(wire, params)
    end,
    ['abreast/save'] = function(_, params)
      return save.save(wire, params)
    end,
    ['abreast/ledgerChanged'] = function(_, params)
      on_ledger(params)
    end,
    ['abreast/sessionsChanged'] = function()
      client().refresh_sessions()
    end,
    ['abreast/reviewChanged'] = function() end,
    ['window/logMessage'] = function(_, params)
      local levels = { 'error', 'warn', 'info', 'debug' }
      local level = levels[params.type] or 'debug'
      log.add(level, params.message)
      client().note_warning(level, params.message)
    end,
  }
end

return M
