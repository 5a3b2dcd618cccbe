--- The one sidecar of this Neovim: starting it, sharing buffers with it, asking it.
---
--- Invariant: Neovim's own LSP client tracks the documents; handlers are those of this client only,
--- and no global one is replaced. A request that was made is answered, also when the process dies.

local binary = require('abreast.binary')
local calm = require('abreast.calm')
local config = require('abreast.config')
local disk = require('abreast.disk')
local event = require('abreast.event')
local failure = require('abreast.failure')
local log = require('abreast.log')
local wires = require('abreast.wire')

local api = vim.api

local M = {}

M.PROTOCOL_VERSION = 1

--- So many unexpected ends within `CRASH_WINDOW_S` seconds, and it is not started again.
local MAX_CRASHES = 3
local CRASH_WINDOW_S = 60

--- @alias Abreast.State 'stopped'|'starting'|'running'|'failed'

--- @class (exact) Abreast.ClientState
--- @field state Abreast.State
--- @field problem? string Why it failed.
--- @field is_stopped_by_user boolean
--- @field is_stopping boolean
--- @field client_id? integer
--- @field wire? Abreast.Wire
--- @field binary? Abreast.Binary
--- @field server? { version: string, protocol: integer, methods: string[] }
--- @field generation integer Counts the processes: what one knew is unknown to the next.
--- @field waiting fun(err: Abreast.Error?)[]
--- @field crashes integer[] When, in seconds.
--- @field sessions table[] As last told by the sidecar.

--- @type Abreast.ClientState
local it = {
  state = 'stopped',
  problem = nil,
  is_stopped_by_user = false,
  is_stopping = false,
  client_id = nil,
  wire = nil,
  binary = nil,
  server = nil,
  generation = 0,
  waiting = {},
  crashes = {},
  sessions = {},
}

--- Listeners of sessions, by session id.
--- @type table<string, fun(entries: Abreast.LedgerEntry[])>
M.ledger_listeners = {}

--- @return Abreast.ClientState
function M.get()
  return it
end

--- Neovim's client object.
--- @return vim.lsp.Client?
function M.lsp_client()
  return it.client_id and vim.lsp.get_client_by_id(it.client_id) or nil
end

--- @param message string
--- @param level integer
local function notify(message, level)
  log.add(level == vim.log.levels.ERROR and 'error' or 'warn', message)
  if config.get().notify then
    vim.schedule(function()
      vim.notify('abreast: ' .. message, level)
    end)
  end
end

local function redraw_status()
  vim.schedule(function()
    vim.cmd.redrawstatus({ bang = true, mods = { emsg_silent = true } })
  end)
end

--- @param state Abreast.State
--- @param problem? string
local function enter(state, problem)
  it.state, it.problem = state, problem
  redraw_status()
  if state == 'starting' then
    return
  end
  local waiting = it.waiting
  it.waiting = {}
  local message = problem or 'it was stopped; `:Abreast restart` starts it again'
  local err = state ~= 'running' and failure.new('ABREAST_NOT_RUNNING', message) or nil
  for _, on_ready in ipairs(waiting) do
    on_ready(err)
  end
end

--- @param problem string
local function fail(problem)
  if it.problem ~= problem then
    notify(problem, vim.log.levels.ERROR)
  end
  enter('failed', problem)
end

-- Buffers ----------------------------------------------------------------------------------------

--- @param bufnr integer
--- @return boolean
local function is_file(bufnr)
  if not api.nvim_buf_is_loaded(bufnr) or vim.bo[bufnr].buftype ~= '' then
    return false
  end
  local name = api.nvim_buf_get_name(bufnr)
  return name ~= ''
    and vim.startswith(vim.uri_from_bufnr(bufnr), 'file:')
    and vim.fn.isdirectory(name) == 0
end

--- @param bufnr integer
local function attach(bufnr)
  local wire = assert(it.wire)
  local attach_if = config.get().attach
  if attach_if and not attach_if(bufnr) then
    return
  end
  wire:expect(bufnr)
  disk.note_late(bufnr)
  local n_bytes = api.nvim_buf_get_offset(bufnr, api.nvim_buf_line_count(bufnr))
  if n_bytes > config.get().max_bytes then
    local document = wire:document(vim.uri_from_bufnr(bufnr))
    if not document.is_unsynced then
      wire:unsync(document, document.uri .. ' has more than `max_bytes`')
    end
  elseif vim.lsp.buf_attach_client(bufnr, assert(it.client_id)) then
    -- It may have been attached before it had a name.
    wire:review(wire:document(vim.uri_from_bufnr(bufnr)))
  end
end

--- Shares a buffer, if it is a file; starts the sidecar with the first.
--- @param bufnr integer
function M.on_buffer(bufnr)
  if not is_file(bufnr) then
    return
  elseif it.state == 'running' then
    attach(bufnr)
  elseif it.state == 'stopped' and config.get().autostart and not it.is_stopped_by_user then
    M.start()
  end
end

function M.on_buffers()
  for _, bufnr in ipairs(api.nvim_list_bufs()) do
    M.on_buffer(bufnr)
  end
end

--- @param bufnr integer
--- @return boolean
local function is_attached(bufnr)
  return it.client_id ~= nil and vim.lsp.buf_is_attached(bufnr, it.client_id)
end

--- Neovim would go on to report changes under the new name, of a document that was never opened.
--- @param bufnr integer
local function before_rename(bufnr)
  if not is_attached(bufnr) then
    return
  end
  vim.lsp.buf_detach_client(bufnr, it.client_id)
  disk.forget(bufnr)
  -- BufFilePost attaches it again, and does not come if the renaming fails.
  vim.schedule(function()
    if api.nvim_buf_is_valid(bufnr) then
      M.on_buffer(bufnr)
    end
  end)
end

--- @param bufnr integer
local function tell_state(bufnr)
  local document = it.wire and it.wire:of_buffer(bufnr)
  if document and it.wire then
    it.wire:review(document)
    it.wire:tell_state(document)
  end
end

--- @param bufnr integer
local function on_unload(bufnr)
  disk.forget(bufnr)
  local document = it.wire and it.wire:of_buffer(bufnr)
  if document and it.wire then
    it.wire:resync(document)
  end
end

--- @param dir string
--- @return string
local function root_of(dir)
  local root = config.get().root
  if type(root) == 'function' then
    root = root()
  end
  return vim.fs.normalize(root or vim.fs.root(dir, '.git') or dir)
end

--- @param dir string
local function add_folder(dir)
  local client = M.lsp_client()
  if not client or it.state ~= 'running' or not config.get().follow_cwd then
    return
  end
  local root = root_of(dir)
  local folders = client.workspace_folders or {}
  for _, folder in ipairs(folders) do
    local path = vim.uri_to_fname(folder.uri)
    if root == path or vim.startswith(root, path:gsub('/*$', '/')) then
      return
    end
  end
  local folder = { uri = vim.uri_from_fname(root), name = root }
  client.workspace_folders = vim.list_extend({ folder }, folders)
  assert(it.wire):notify('workspace/didChangeWorkspaceFolders', {
    event = { added = { folder }, removed = {} },
  })
end

local function watch()
  local group = api.nvim_create_augroup('abreast.client', {})
  local function on(events, pattern, callback)
    api.nvim_create_autocmd(events, { group = group, pattern = pattern, callback = callback })
  end
  calm.watch(group)
  on('BufReadPre', '*', function(args)
    disk.note(args.buf)
  end)
  on('BufNewFile', '*', function(args)
    disk.note(args.buf)
  end)
  on('BufFilePre', '*', function(args)
    before_rename(args.buf)
  end)
  on('BufWritePost', '*', function(args)
    -- `:w other` writes another file.
    if vim.fs.normalize(args.match) == vim.fs.normalize(api.nvim_buf_get_name(args.buf)) then
      disk.note(args.buf)
    end
    tell_state(args.buf)
  end)
  on({ 'BufModifiedSet', 'FileChangedShellPost' }, '*', function(args)
    tell_state(args.buf)
  end)
  on('OptionSet', { 'readonly', 'modifiable', 'fileencoding', 'fileformat' }, function(args)
    tell_state(args.buf ~= 0 and args.buf or api.nvim_get_current_buf())
  end)
  on('BufUnload', '*', function(args)
    on_unload(args.buf)
  end)
  on('DirChanged', 'global', function()
    add_folder(vim.fn.getcwd(-1, -1))
  end)
end

-- The process ------------------------------------------------------------------------------------

--- What the sidecar and this plugin can do together, or why not.
--- @param err table?
--- @param result table?
--- @return string? problem
local function on_initialized(err, result)
  local program = assert(it.binary).cmd[1] or 'the sidecar'
  local problem
  local said = not err and vim.tbl_get(result or {}, 'capabilities', 'experimental', 'abreast')
  if err then
    problem = ('%s refused to start: %s'):format(program, err.message or vim.inspect(err))
      .. '; correct the option `server` (:help abreast-options)'
  elseif type(said) ~= 'table' or type(said.version) ~= 'number' then
    problem = program .. ' is a language server, but not abreast; correct the option `cmd`'
  else
    local newest, oldest = said.version, said.minVersion or said.version
    local versions = oldest == newest and ('version %d'):format(newest)
      or ('versions %d to %d'):format(oldest, newest)
    local ours = M.PROTOCOL_VERSION
    local other = newest < ours and 'the sidecar' or oldest > ours and 'this plugin'
    if other then
      problem = ('%s speaks %s of the protocol, and this plugin version %d: update %s'):format(
        program,
        versions,
        ours,
        other
      )
    end
  end
  if problem then
    it.is_stopping = true
    fail(problem)
    return problem
  end
  --- @cast result table
  it.server = {
    version = vim.tbl_get(result, 'serverInfo', 'version') or '?',
    protocol = said.version,
    methods = said.methods or {},
  }
end

local function on_running()
  it.generation = it.generation + 1
  it.sessions = {}
  -- Handlers of `enter` may already ask, so the buffers come first.
  it.state = 'running'
  M.on_buffers()
  log.add('info', ('the sidecar runs, version %s'):format(assert(it.server).version))
  enter('running')
end

--- @return boolean
local function crashes_too_often()
  local now = os.time()
  it.crashes = vim.tbl_filter(function(time)
    return now - time < CRASH_WINDOW_S
  end, it.crashes)
  table.insert(it.crashes, now)
  return #it.crashes > MAX_CRASHES
end

--- @param wire Abreast.Wire
--- @param code integer
--- @param signal integer
local function on_exit(wire, code, signal)
  wire:ended('the sidecar ended before it answered')
  if it.wire ~= wire then
    return
  end
  it.wire, it.client_id, it.sessions = nil, nil, {}
  local was_expected = it.is_stopping
  it.is_stopping = false
  if was_expected then
    if it.state ~= 'failed' then
      enter('stopped')
    end
    return
  elseif vim.v.exiting ~= vim.NIL then
    return
  end
  local how = signal ~= 0 and ('signal %d'):format(signal) or ('status %d'):format(code)
  if it.state == 'starting' or crashes_too_often() then
    local program = table.concat(assert(it.binary).cmd, ' ')
    fail(
      ('`%s` ended at once or again and again (%s); '):format(program, how)
        .. 'its messages are in the file that `:lua =vim.lsp.get_log_path()` shows'
    )
    return
  end
  enter('stopped')
  notify(
    ('the sidecar ended unexpectedly (%s) and is started again; '):format(how)
      .. 'agents have to read files again',
    vim.log.levels.WARN
  )
  M.start()
end

--- @param params table
local function on_ledger(params)
  local entries = params.entries or {}
  local listener = M.ledger_listeners[params.sessionId]
  if listener then
    listener(entries)
  end
  local stale = vim.tbl_filter(function(entry)
    return entry.status == 'stale'
  end, entries)
  if #stale > 0 then
    event.tell('AbreastStale', { sessionId = params.sessionId, entries = stale })
  end
  M.refresh_sessions()
end

--- What the human knows an agent by.
--- @param detail table
--- @return string
local function label_of(detail)
  local ours = require('abreast.session').all()[detail.sessionId or '']
  if ours and ours.label then
    return ours.label
  end
  for _, session in ipairs(it.sessions) do
    if session.sessionId == detail.sessionId and session.label then
      return session.label
    end
  end
  return detail.sessionId or 'agent'
end

--- @param plans Abreast.BufferPlan[]
--- @param detail table
local function on_applied(plans, detail)
  local highlight = require('abreast.highlight')
  for _, plan in ipairs(plans) do
    local hunks = event.hunks(plan)
    highlight.show(plan.bufnr, hunks, detail.label or label_of(detail))
    event.tell('AbreastEdit', {
      uri = plan.document.uri,
      path = vim.uri_to_fname(plan.document.uri),
      via = 'editor',
      bufnr = plan.bufnr,
      sessionId = detail.sessionId,
      callId = detail.callId,
      label = detail.label,
      hunks = hunks,
    })
  end
end

--- @param wire Abreast.Wire
--- @return table<string, function>
local function handlers(wire)
  local guard = require('abreast.guard')
  return {
    ['workspace/applyEdit'] = function(_, params, context)
      local client = assert(vim.lsp.get_client_by_id(context.client_id))
      local ok, result, plans = pcall(guard.apply, wire, client, params)
      if not ok then
        log.add('error', tostring(result))
        local reason = tostring(result)
        return { applied = false, failureReason = reason, abreast = { code = 'error' } }
      end
      local detail = type(params.abreast) == 'table' and params.abreast or {}
      local shown, problem = pcall(on_applied, plans, detail)
      if not shown then
        log.add('error', tostring(problem))
      end
      return result
    end,
    ['abreast/sync'] = function(_, params)
      return require('abreast.sync').sync(wire, params)
    end,
    ['abreast/save'] = function(_, params)
      return require('abreast.save').save(wire, params)
    end,
    ['abreast/ledgerChanged'] = function(_, params)
      on_ledger(params)
    end,
    ['abreast/sessionsChanged'] = function()
      M.refresh_sessions()
    end,
    ['abreast/reviewChanged'] = function() end,
    ['window/logMessage'] = function(_, params)
      local levels = { 'error', 'warn', 'info', 'debug' }
      log.add(levels[params.type] or 'debug', params.message)
    end,
  }
end

--- @return table
local function capabilities()
  local encoding = config.get().position_encoding
  local all = vim.tbl_deep_extend('force', vim.lsp.protocol.make_client_capabilities(), {
    workspace = {
      workspaceEdit = { documentChanges = true, failureHandling = 'transactional' },
    },
    experimental = {
      abreast = {
        version = M.PROTOCOL_VERSION,
        strictApplyEdit = true,
        sync = true,
        save = true,
        loneCrIsText = true,
      },
    },
  })
  all.workspace.workspaceEdit.resourceOperations = nil
  all.general = all.general or {}
  all.general.positionEncodings = encoding == 'utf-8' and { 'utf-8', 'utf-16' } or { 'utf-16' }
  return all
end

--- @param root string
--- @return table
local function client_config(root)
  local options = config.get()
  local wire --- @type Abreast.Wire
  local result = {
    name = 'abreast',
    root_dir = root,
    workspace_folders = { { uri = vim.uri_from_fname(root), name = root } },
    capabilities = capabilities(),
    init_options = next(options.server) and options.server or vim.empty_dict(),
    on_init = vim.schedule_wrap(on_running),
    on_exit = vim.schedule_wrap(function(code, signal)
      if wire then
        on_exit(wire, code, signal)
      end
    end),
  }
  result.cmd = function(dispatchers)
    local rpc
    local cmd = options.cmd
    if type(cmd) == 'function' then
      rpc = cmd(dispatchers)
    else
      local words = vim.deepcopy(assert(it.binary).cmd)
      vim.list_extend(words, { 'serve', '--stdio', '--log-level', options.log_level })
      rpc = vim.lsp.rpc.start(words, dispatchers, { cwd = root, env = options.env })
    end
    wire = wires.new(rpc)
    it.wire = wire
    for method, handler in pairs(handlers(wire)) do
      result.handlers[method] = handler
    end
    return wire:public(on_initialized)
  end
  result.handlers = {}
  return result
end

--- Starts the sidecar unless it runs.
--- @param on_ready? fun(err: Abreast.Error?)
function M.start(on_ready)
  if on_ready then
    table.insert(it.waiting, on_ready)
  end
  if it.state == 'running' then
    return vim.schedule(function()
      if it.state == 'running' then
        enter('running')
      end
    end)
  elseif it.state == 'starting' then
    return
  end
  local found, problem = binary.find()
  if not found then
    return vim.schedule(function()
      fail(assert(problem))
    end)
  end
  it.binary = found
  enter('starting')
  watch()
  local lsp_config = client_config(root_of(vim.fn.getcwd(-1, -1)))
  local ok, id
  if vim.fn.has('nvim-0.11') == 1 then
    ok, id = pcall(vim.lsp.start, lsp_config, {
      attach = false,
      silent = true,
      reuse_client = function()
        return false
      end,
    })
  else
    ok, id = pcall(vim.lsp.start_client, lsp_config)
  end
  if not ok or not id then
    local why = not ok and ': ' .. tostring(id) or ''
    fail(('`%s` cannot be run%s'):format(table.concat(found.cmd, ' '), why))
    return
  end
  it.client_id = id
  assert(it.wire).client_id = id
end

--- @return boolean was_running
local function stop()
  local client = M.lsp_client()
  if not client then
    return false
  end
  it.is_stopping = true
  if vim.fn.has('nvim-0.11') == 1 then
    client:stop()
  else
    client.stop()
  end
  return true
end

--- Ends the sidecar; nothing starts it again but `restart`.
function M.stop()
  it.is_stopped_by_user = true
  require('abreast.highlight').clear()
  if not stop() then
    enter('stopped')
  end
end

--- @param on_ready? fun(err: Abreast.Error?)
function M.restart(on_ready)
  it.is_stopped_by_user = false
  it.crashes = {}
  it.problem = nil
  local function start()
    M.start(on_ready)
  end
  if stop() then
    table.insert(it.waiting, start)
  else
    start()
  end
end

-- Requests ---------------------------------------------------------------------------------------

--- Asks the sidecar, which runs.
--- @param method string
--- @param params table
--- @param on_done Abreast.OnDone
--- @return fun() cancel
function M.ask(method, params, on_done)
  local wire = it.wire
  if it.state ~= 'running' or not wire then
    vim.schedule(function()
      on_done(failure.new('ABREAST_NOT_RUNNING', 'the sidecar does not run; :Abreast restart'))
    end)
    return function() end
  end
  return wire:request(method, params, function(err, result)
    if err then
      on_done(failure.from_wire(err))
    else
      on_done(nil, result)
    end
  end)
end

local is_refreshing = false

--- Asks for the sessions, for the status line; several changes at a time are one question.
function M.refresh_sessions()
  if is_refreshing then
    return
  end
  is_refreshing = true
  vim.defer_fn(function()
    is_refreshing = false
    if it.state ~= 'running' then
      return
    end
    M.ask('abreast/sessions', vim.empty_dict(), function(err, result)
      if not err then
        it.sessions = result.sessions or {}
        redraw_status()
      end
    end)
  end, 50)
end

return M
