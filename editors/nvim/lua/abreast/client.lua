--- The one sidecar of this Neovim: starting it, sharing buffers with it, asking it.
---
--- Invariant: Neovim's own LSP client runs the process; handlers are those of this client only, and
--- no global one is replaced. A request that was made is answered, also when the process dies.

local binary = require('abreast.binary')
local buffers = require('abreast.buffers')
local config = require('abreast.config')
local failure = require('abreast.failure')
local log = require('abreast.log')
local wires = require('abreast.wire')

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
--- @field used? table<string, any> The options that the process was started with.
--- @field warnings string[] What the sidecar warned of.
--- @field shown_problem? string Not shown a second time.

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
  used = nil,
  warnings = {},
  shown_problem = nil,
}

local MAX_WARNINGS = 20

--- Options that count when the process is started.
local START_OPTIONS = { 'cmd', 'env', 'position_encoding', 'log_level', 'server' }

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

--- Keeps the first warnings of the sidecar for `:checkhealth`.
--- @param level string
--- @param message string
function M.note_warning(level, message)
  local is_warning = level == 'error' or level == 'warn'
  if is_warning and #it.warnings < MAX_WARNINGS then
    table.insert(it.warnings, message)
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
  if it.shown_problem ~= problem then
    it.shown_problem = problem
    notify(problem, vim.log.levels.ERROR)
  end
  enter('failed', problem)
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
  it.shown_problem = nil
  -- Handlers of `enter` may already ask, so the buffers come first.
  it.state = 'running'
  buffers.on_buffers()
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
  -- By us, or by what stops all LSP clients.
  local was_expected = it.is_stopping or wire.is_ending
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

--- @return table<string, any>
local function start_options()
  local options = {}
  for _, name in ipairs(START_OPTIONS) do
    options[name] = config.get()[name]
  end
  return options
end

--- Says so if options were changed that the process does not have.
function M.check_options()
  if it.state ~= 'running' and it.state ~= 'starting' then
    return
  end
  local changed = vim.tbl_filter(function(name)
    return not vim.deep_equal(it.used[name], config.get()[name])
  end, START_OPTIONS)
  if #changed > 0 then
    local what = 'the sidecar runs already: `%s` takes effect with :Abreast restart'
    notify(what:format(table.concat(changed, '`, `')), vim.log.levels.WARN)
  end
end

--- @param root string
--- @return table
local function client_config(root)
  local options = config.get()
  local wire --- @type Abreast.Wire
  local exit_code, exit_signal = 0, 0
  local result = {
    name = 'abreast',
    root_dir = root,
    workspace_folders = { { uri = vim.uri_from_fname(root), name = root } },
    capabilities = capabilities(),
    init_options = next(options.server) and options.server or vim.empty_dict(),
    on_init = vim.schedule_wrap(on_running),
    on_exit = vim.schedule_wrap(function()
      if wire then
        on_exit(wire, exit_code, exit_signal)
      end
    end),
  }
  result.cmd = function(dispatchers)
    local rpc
    local told = dispatchers.on_exit
    dispatchers = vim.tbl_extend('force', dispatchers, {
      on_exit = function(code, signal)
        exit_code, exit_signal = code, signal
        -- Neovim would say it too, each time.
        told(0, 0)
      end,
    })
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
    return wire:public(on_initialized)
  end
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
  it.used = vim.deepcopy(start_options())
  it.warnings = {}
  enter('starting')
  buffers.watch()
  local lsp_config = client_config(buffers.root_of(vim.fn.getcwd(-1, -1)))
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
  local wire, client = assert(it.wire), assert(M.lsp_client())
  wire.client_id = id
  for method, handler in pairs(require('abreast.handlers').of(wire)) do
    client.handlers[method] = handler
  end
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
  it.shown_problem = nil
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
      on_done(failure.from_wire(err, method))
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
