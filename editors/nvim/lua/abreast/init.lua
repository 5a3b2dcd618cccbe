--- Agents and people edit the same files at the same time, and nobody writes over what they have
--- not seen. For people: `:help abreast`. For plugins that host agents: `:help abreast-api`.

if vim.fn.has('nvim-0.10') == 0 then
  error('abreast needs Neovim 0.10 or newer', 0)
end

local client = require('abreast.client')
local config = require('abreast.config')

local M = {}

--- Sets options; not needed for the defaults. Options may also be in `vim.g.abreast`.
--- @param options? Abreast.Options
function M.setup(options)
  config.set(options)
  client.check_options()
  if vim.v.vim_did_enter == 1 then
    require('abreast.buffers').on_buffers()
  end
end

--- Opens a session of an agent. It can be used at once: its calls wait until it is open.
--- @param params? Abreast.SessionParams
--- @param on_done? fun(err: Abreast.Error?, session: Abreast.Session?)
--- @return Abreast.Session
function M.open_session(params, on_done)
  return require('abreast.session').open(params, on_done)
end

--- Runs `fn` as a coroutine, in which calls need no callbacks.
--- @param fn fun(...)
--- @param ... any
function M.run(fn, ...)
  require('abreast.task').run(fn, ...)
end

--- Asks the sidecar something that belongs to no session.
--- @param method string
--- @param params? table
--- @param on_done? Abreast.OnDone
--- @return any result Without `on_done`, in a coroutine; else an `Abreast.Request`.
--- @return Abreast.Error?
function M.request(method, params, on_done)
  if not method:find('/', 1, true) then
    method = 'abreast/' .. method
  end
  return require('abreast.task').await(on_done, function(finish)
    return { cancel = client.ask(method, params or vim.empty_dict(), finish) }
  end)
end

--- @class (exact) Abreast.Status
--- @field state Abreast.State
--- @field problem? string
--- @field cmd? string[]
--- @field version? string
--- @field sessions { sessionId: string, label?: string, entries: integer, stale: integer }[]
--- @field documents integer Shared buffers.
--- @field unsynced string[] URIs of files that are open and cannot be shared.

--- How things stand.
--- @return Abreast.Status
function M.status()
  local it = client.get()
  local n_documents, unsynced = 0, {}
  for uri, document in pairs(it.wire and it.wire.documents or {}) do
    n_documents = n_documents + (document.is_open and 1 or 0)
    if document.is_unsynced then
      table.insert(unsynced, uri)
    end
  end
  table.sort(unsynced)
  return {
    state = it.state,
    problem = it.problem,
    cmd = it.binary and it.binary.cmd or nil,
    version = it.server and it.server.version or nil,
    sessions = it.sessions,
    documents = n_documents,
    unsynced = unsynced,
  }
end

--- For the status line: '' if the sidecar does not run and should not, else for instance
--- `abreast`, `abreast:2` (two sessions), `abreast:2!1` (one stale file), `abreast:failed`.
--- @return string
function M.statusline()
  local it = client.get()
  if it.state == 'stopped' then
    return it.is_stopped_by_user and 'abreast:stopped' or ''
  elseif it.state ~= 'running' then
    return 'abreast:' .. it.state
  end
  local n_stale = 0
  for _, session in ipairs(it.sessions) do
    n_stale = n_stale + (session.stale or 0)
  end
  local sessions = #it.sessions > 0 and ':' .. #it.sessions or ''
  return 'abreast' .. sessions .. (n_stale > 0 and '!' .. n_stale or '')
end

--- Starts the sidecar, also after `stop`.
--- @param on_ready? fun(err: Abreast.Error?)
function M.restart(on_ready)
  client.restart(on_ready)
end

--- Ends the sidecar: no agent can edit any more until `restart`.
function M.stop()
  client.stop()
end

--- Takes the marks of agents' changes away, of one buffer or of all.
--- @param bufnr? integer
function M.clear(bufnr)
  require('abreast.highlight').clear(bufnr)
end

return M
