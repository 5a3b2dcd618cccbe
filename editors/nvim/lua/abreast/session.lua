--- One agent conversation, as an object.
---
--- Invariant: a session outlives the sidecar's process. After a restart it is opened again with an
--- empty ledger, so the agent is told to read before it can edit; nothing it saw is taken on trust.

local client = require('abreast.client')
local event = require('abreast.event')
local failure = require('abreast.failure')
local log = require('abreast.log')
local task = require('abreast.task')
local text = require('abreast.text')

local M = {}

--- What `abreast/openSession` takes; see the sidecar's protocol.md.
--- @class (exact) Abreast.SessionParams
--- @field sessionId? string 1 to 128 characters; default: a new one.
--- @field label? string For people: the agent's name.
--- @field cwd? string What relative paths are relative to; default: the current directory.
--- @field options? Abreast.SessionOptions
--- @field model? { images?: boolean }
--- @field ledger? table What an earlier session exported.

--- @class (exact) Abreast.SessionOptions
--- @field policy? 'observe'|'off'
--- @field freshness? 'file'|'region'
--- @field staleRecovery? 'reread'|'diff'
--- @field writeCoverage? 'any'|'full'
--- @field unicodeFallback? boolean
--- @field save? 'never'|'ifClean'|'always'

--- @class Abreast.LedgerEntry
--- @field uri string
--- @field path string
--- @field state 'unseen'|'present'|'absent'
--- @field version? string
--- @field status 'fresh'|'stale'
--- @field currentVersion? string
--- @field changedBy? table[]
--- @field changedRanges? integer[][]

--- @alias Abreast.Change Abreast.EditParams|Abreast.WriteParams|table One of `apply`, with `kind`.

--- @class Abreast.ReadParams
--- @field path string
--- @field offset? integer First line, 1-based.
--- @field limit? integer Number of lines.
--- @field since? string
--- @field format? 'text'|'numbered'

--- @class Abreast.EditParams
--- @field path string
--- @field oldString string
--- @field newString string
--- @field replaceAll? boolean
--- @field unicodeFallback? boolean
--- @field guard? table
--- @field dryRun? boolean

--- @class Abreast.WriteParams
--- @field path string
--- @field content string
--- @field eol? 'keep'|'literal'
--- @field guard? table
--- @field dryRun? boolean

--- @class Abreast.Session
--- @field id string
--- @field label? string
--- @field private params table
--- @field private generation integer Of the process that knows it; 0: none.
--- @field private is_opening boolean
--- @field private is_closed boolean
--- @field private queue (fun(err: Abreast.Error?))[]
--- @field private cancels table<table, fun()>
--- @field private listeners table<table, { is_stale: boolean, fn: fun(entries: table[]) }>
local Session = {}
Session.__index = Session

--- @type table<string, Abreast.Session>
local sessions = {}
local n_sessions = 0

--- @return string
local function new_id()
  n_sessions = n_sessions + 1
  local seconds, microseconds = vim.uv.gettimeofday()
  return ('nvim-%d-%x%05x-%d'):format(vim.fn.getpid(), seconds, microseconds, n_sessions)
end

--- Neovim's nightly keeps JSON's null as `vim.NIL`; here it is an absent member everywhere.
--- @param value any
--- @return any
local function without_null(value)
  if value == vim.NIL then
    return nil
  elseif type(value) ~= 'table' then
    return value
  end
  for key, member in pairs(value) do
    value[key] = without_null(member)
  end
  return value
end

--- Opens a session. It can be used at once: calls wait until it is open.
--- @param params? Abreast.SessionParams
--- @param on_done? fun(err: Abreast.Error?, session: Abreast.Session?)
--- @return Abreast.Session
function M.open(params, on_done)
  params = vim.deepcopy(params or {})
  local id = params.sessionId or new_id()
  params.sessionId = id
  params.cwd = params.cwd or vim.fn.getcwd()
  local known = sessions[id]
  if known then
    error(('abreast: the session %q is open already'):format(id), 3)
  end
  local session = setmetatable({
    id = id,
    label = params.label,
    params = params,
    generation = 0,
    is_opening = false,
    is_closed = false,
    queue = {},
    cancels = {},
    listeners = {},
  }, Session)
  sessions[id] = session
  client.ledger_listeners[id] = function(entries)
    session:on_entries(entries)
  end
  session:when_open(function(err)
    if on_done then
      on_done(err, not err and session or nil)
    end
  end)
  return session
end

--- @return table<string, Abreast.Session>
function M.all()
  return sessions
end

--- @private
--- @param err Abreast.Error?
function Session:opened(err)
  self.is_opening = false
  local queue = self.queue
  self.queue = {}
  for _, on_open in ipairs(queue) do
    on_open(err)
  end
end

--- @private
function Session:open_now()
  local generation = client.get().generation
  local is_first = self.generation == 0
  client.ask('abreast/openSession', self.params, function(err)
    if err then
      return self:opened(err)
    end
    self.generation = generation
    -- What an export said of the first time says nothing of later ones.
    self.params.ledger = nil
    client.refresh_sessions()
    event.tell('AbreastSession', {
      kind = is_first and 'opened' or 'reopened',
      sessionId = self.id,
      label = self.label,
    })
    self:opened()
  end)
end

--- @private
--- @param on_open fun(err: Abreast.Error?)
function Session:when_open(on_open)
  if self.is_closed then
    return vim.schedule(function()
      on_open(failure.new('UNKNOWN_SESSION', 'the session is closed; open a new one'))
    end)
  end
  local state = client.get()
  if state.state == 'running' and self.generation == state.generation then
    return on_open()
  end
  table.insert(self.queue, on_open)
  if self.is_opening then
    return
  end
  self.is_opening = true
  if state.state == 'stopped' and state.is_stopped_by_user then
    return vim.schedule(function()
      local what = 'the user stopped the sidecar; `:Abreast restart` starts it again'
      self:opened(failure.new('ABREAST_NOT_RUNNING', what))
    end)
  end
  client.start(function(err)
    if err then
      self:opened(err)
    else
      self:open_now()
    end
  end)
end

--- @private
--- @param entries Abreast.LedgerEntry[]
function Session:on_entries(entries)
  local stale = vim.tbl_filter(function(entry)
    return entry.status == 'stale'
  end, entries)
  for _, listener in pairs(vim.deepcopy(self.listeners)) do
    local told = listener.is_stale and stale or entries
    if #told > 0 then
      listener.fn(told)
    end
  end
end

--- Tells other plugins of files that were changed on disk; of buffers the guard tells.
--- @param session Abreast.Session
--- @param params table
--- @param result table
local function tell_disk_edits(session, params, result)
  for _, file in ipairs(not result.dryRun and result.files or {}) do
    if file.via == 'disk' and file.outcome == 'applied' then
      local hunks = vim.tbl_map(function(hunk)
        return {
          first = hunk.newStart,
          last = hunk.newStart + hunk.newLines - 1,
          n_more = hunk.newLines - hunk.oldLines,
        }
      end, file.hunks or {})
      event.tell('AbreastEdit', {
        uri = file.uri,
        path = file.path,
        via = 'disk',
        sessionId = session.id,
        callId = params.callId,
        label = params.label or session.label,
        hunks = hunks,
      })
    end
  end
end

--- Notes a call that failed, and why: the code, because messages have content of files in them.
--- @param session Abreast.Session
--- @param method string
--- @param params table
--- @param err Abreast.Error
local function log_failure(session, method, params, err)
  local paths = { err.data.path or params.path }
  for _, failed in ipairs(err.data.failures or {}) do
    if failed.path and not vim.tbl_contains(paths, failed.path) then
      table.insert(paths, failed.path)
    end
  end
  local of = #paths > 0 and ' of ' .. table.concat(paths, ', ') or ''
  local row = '%s: %s%s failed: %s'
  local name = session.label or session.id
  log.add('info', row:format(name, method:gsub('^abreast/', ''), of, err.code))
end

--- Sends any request of the sidecar's protocol for this session, also of a later version than this
--- plugin knows. `abreast/` may be left out of `method`.
--- @param method string
--- @param params? table
--- @param on_done? Abreast.OnDone
--- @return any result Without `on_done`, in a coroutine; else an `Abreast.Request`.
--- @return Abreast.Error?
function Session:request(method, params, on_done)
  if not method:find('/', 1, true) then
    method = 'abreast/' .. method
  end
  local sent = vim.tbl_extend('keep', params or {}, { sessionId = self.id })
  return task.await(on_done, function(finish)
    local token, is_cancelled = {}, false
    local function done(err, result)
      self.cancels[token] = nil
      result = without_null(result)
      if err then
        log_failure(self, method, sent, err)
      elseif type(result) == 'table' and result.files then
        tell_disk_edits(self, sent, result)
      end
      finish(err, result)
    end
    local function cancel()
      is_cancelled = true
    end
    self.cancels[token] = function()
      cancel()
    end
    local not_utf8 = text.not_utf8_at(sent)
    if not_utf8 then
      vim.schedule(function()
        done(failure.new('INVALID_PARAMS', not_utf8 .. ' is not UTF-8; send text, not bytes'))
      end)
    else
      self:when_open(function(err)
        if err or is_cancelled then
          return vim.schedule(function()
            done(err or failure.new('FS_ABORTED', 'cancelled before it was sent'))
          end)
        end
        cancel = client.ask(method, sent, done)
      end)
    end
    return {
      cancel = function()
        cancel()
      end,
    }
  end)
end

--- Reads a file, or some lines of it: the buffer, if it is open.
--- @param params Abreast.ReadParams
--- @param on_done? Abreast.OnDone
function Session:read(params, on_done)
  return self:request('abreast/read', params, on_done)
end

--- Replaces `oldString`, which must occur once (or `replaceAll`), by `newString`.
--- @param params Abreast.EditParams
--- @param on_done? Abreast.OnDone
function Session:edit(params, on_done)
  return self:request('abreast/edit', params, on_done)
end

--- Writes a whole file, or creates it.
--- @param params Abreast.WriteParams
--- @param on_done? Abreast.OnDone
function Session:write(params, on_done)
  return self:request('abreast/write', params, on_done)
end

--- Makes several changes, of several files: all or none.
--- @param params { changes: Abreast.Change[], label?: string, dryRun?: boolean }
--- @param on_done? Abreast.OnDone
function Session:apply(params, on_done)
  return self:request('abreast/apply', params, on_done)
end

--- What the session has seen, and whether it is still so.
--- @param params? { path?: string, export?: boolean }
--- @param on_done? Abreast.OnDone
function Session:ledger(params, on_done)
  return self:request('abreast/ledger', params, on_done)
end

--- Records that the model was shown a file by other means.
--- @param params { path: string, version?: string, documentVersion?: integer, text?: string }
--- @param on_done? Abreast.OnDone
function Session:observe(params, on_done)
  return self:request('abreast/observe', params, on_done)
end

--- Forgets what was seen, of some files or of all.
--- @param params? { paths?: string[] }
--- @param on_done? Abreast.OnDone
function Session:forget(params, on_done)
  return self:request('abreast/forget', params, on_done)
end

--- Saves the buffers that this session edited and that had no changes of the human.
--- @param params? { paths?: string[] }
--- @param on_done? Abreast.OnDone
function Session:flush(params, on_done)
  return self:request('abreast/flush', params, on_done)
end

--- What others changed in files that the session has seen, since it was last told.
--- @param params? { path?: string }
--- @param on_done? Abreast.OnDone
function Session:digest(params, on_done)
  return self:request('abreast/digest', params, on_done)
end

--- Calls `fn` with the entries that became stale, until the returned function is called.
--- @param fn fun(entries: Abreast.LedgerEntry[])
--- @return fun() unsubscribe
function Session:on_stale(fn)
  return self:listen(true, fn)
end

--- Calls `fn` with every entry whose status changed, until the returned function is called.
--- @param fn fun(entries: Abreast.LedgerEntry[])
--- @return fun() unsubscribe
function Session:on_ledger(fn)
  return self:listen(false, fn)
end

--- @private
--- @param is_stale boolean
--- @param fn fun(entries: Abreast.LedgerEntry[])
--- @return fun()
function Session:listen(is_stale, fn)
  local token = {}
  self.listeners[token] = { is_stale = is_stale, fn = fn }
  return function()
    self.listeners[token] = nil
  end
end

--- Gives up every call of the session that has not changed anything yet.
function Session:cancel()
  for _, cancel in pairs(vim.tbl_values(self.cancels)) do
    cancel()
  end
end

--- Ends the session. Calls that wait are aborted.
--- @param on_done? Abreast.OnDone
function Session:close(on_done)
  if not on_done and not coroutine.running() then
    on_done = function() end
  end
  return task.await(on_done, function(finish)
    local was_open = self.generation > 0 and self.generation == client.get().generation
    local function closed(err)
      event.tell('AbreastSession', { kind = 'closed', sessionId = self.id, label = self.label })
      client.refresh_sessions()
      finish(err)
    end
    local is_first = not self.is_closed
    self.is_closed = true
    if is_first then
      sessions[self.id] = nil
      client.ledger_listeners[self.id] = nil
    end
    if is_first and was_open and client.get().state == 'running' then
      client.ask('abreast/closeSession', { sessionId = self.id }, closed)
    else
      vim.schedule(closed)
    end
    return { cancel = function() end }
  end)
end

return M
