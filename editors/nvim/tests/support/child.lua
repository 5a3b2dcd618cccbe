--- A real Neovim to test in, driven over its RPC as a person would drive it by keys.

local T = require('support.harness')

local M = {}

local here = debug.getinfo(1, 'S').source:sub(2):match('^(.*)/support/')
M.plugin = vim.fn.fnamemodify(here, ':h')
M.repository = vim.fn.fnamemodify(M.plugin, ':h:h')

--- The sidecar to test with: the newest build, unless ABREAST_BIN names one.
--- @return string
function M.sidecar()
  local path, built = vim.env.ABREAST_BIN, nil
  for _, profile in ipairs(path and {} or { 'release', 'debug' }) do
    local candidate = ('%s/target/%s/abreast'):format(M.repository, profile)
    local stat = vim.uv.fs_stat(candidate)
    if stat and (not built or stat.mtime.sec > built) then
      path, built = candidate, stat.mtime.sec
    end
  end
  return assert(path, 'no sidecar: run `cargo build`, or set ABREAST_BIN')
end

--- @class Child
--- @field channel integer
--- @field dir string
local Child = {}
Child.__index = Child

--- @class ChildOptions
--- @field dir? string Current directory; default: a new one.
--- @field files? table<string, string>
--- @field plugin? boolean Default true.
--- @field options? string A Lua expression for `vim.g.abreast`, beside `cmd`.
--- @field fake? boolean Instead of the sidecar, support/fake.lua.
--- @field args? string[]
--- @field env? table<string, string>
--- @field nvim? string

--- @param options? ChildOptions
--- @return Child
function M.start(options)
  options = options or {}
  local dir = options.dir or T.workspace(options.files)
  local home = T.workspace()
  local cmd = { options.nvim or vim.v.progpath, '--embed', '--headless', '--clean', '-n' }
  local settings = ('vim.g.abreast = vim.tbl_extend("force", { cmd = %q }, %s)'):format(
    M.sidecar(),
    options.options or '{}'
  )
  if options.fake then
    settings = ('package.path = %q .. package.path; fake = require("fake"); %s'):format(
      here .. '/support/?.lua;',
      'require("abreast").setup(vim.tbl_extend("force", { cmd = fake.cmd }, '
        .. (options.options or '{}')
        .. '))'
    )
  end
  if options.plugin ~= false then
    vim.list_extend(cmd, { '--cmd', 'set runtimepath^=' .. M.plugin, '--cmd', 'lua ' .. settings })
  end
  vim.list_extend(cmd, options.args or {})
  local env = vim.tbl_extend('force', {
    HOME = home,
    XDG_STATE_HOME = home,
    XDG_DATA_HOME = home,
    XDG_CONFIG_HOME = home,
    XDG_CACHE_HOME = home,
    NVIM_LOG_FILE = home .. '/nvim.log',
  }, options.env or {})
  local channel = vim.fn.jobstart(cmd, { rpc = true, cwd = dir, env = env })
  assert(channel > 0, 'Neovim does not start')
  local child = setmetatable({ channel = channel, dir = dir, home = home }, Child)
  T.defer(function()
    vim.fn.jobstop(channel)
  end)
  return child
end

--- @param method string
--- @param ... any
--- @return any
function Child:api(method, ...)
  return vim.rpcrequest(self.channel, method, ...)
end

--- @param code string
--- @param ... any
--- @return any
function Child:lua(code, ...)
  return self:api('nvim_exec_lua', code, { ... })
end

--- @param command string
function Child:cmd(command)
  self:api('nvim_command', command)
end

--- Types keys, and waits until Neovim has taken them.
--- @param keys string
function Child:type(keys)
  self:api('nvim_input', keys)
  -- A blocked Neovim (`r` pending) answers nothing but this.
  local mode = self:api('nvim_get_mode')
  if not mode.blocking then
    self:lua('return 1')
  end
end

--- @return { mode: string, blocking: boolean }
function Child:mode()
  return self:api('nvim_get_mode')
end

--- @param bufnr? integer
--- @return string[]
function Child:lines(bufnr)
  return self:api('nvim_buf_get_lines', bufnr or 0, 0, -1, true)
end

--- The document's text as it would be if there were no sidecar to ask.
--- @return string
function Child:text()
  return self:lua([[
    local line_end = vim.bo.fileformat == 'dos' and '\r\n' or '\n'
    return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, true), line_end)
      .. (vim.bo.endofline and line_end or '')
  ]])
end

--- @return string
function Child:messages()
  return self:lua([[return vim.fn.execute('messages')]])
end

--- Waits until the sidecar runs.
function Child:ready()
  T.wait('the sidecar runs', function()
    return self:lua([[return require('abreast').status().state]]) == 'running'
  end)
end

--- Opens a file and shares it.
--- @param name string
function Child:edit(name)
  self:cmd('edit ' .. vim.fn.fnameescape(name))
  self:ready()
  self:shared()
end

--- Waits until the current buffer is shared.
function Child:shared()
  T.wait('the buffer is shared', function()
    return self:lua([[
      local document = require('abreast.client').get().wire:of_buffer(vim.fn.bufnr())
      return document and document.is_open or false
    ]])
  end)
end

--- Opens a session in the child, as `_G.sessions[name]`.
--- @param name? string
--- @param params? string A Lua expression.
function Child:session(name, params)
  self:lua(
    ([[
    _G.sessions = _G.sessions or {}
    _G.outcomes = _G.outcomes or {}
    _G.sessions[...] = require('abreast').open_session(%s)
  ]]):format(params or '{ label = "bot" }'),
    name or 'agent'
  )
end

local n_calls = 0

--- Starts a call of the session; `outcome` waits for it.
--- @param method string
--- @param params? table
--- @param session? string
--- @return integer call
function Child:begin(method, params, session)
  n_calls = n_calls + 1
  self:lua(
    [[
    local call, session, method, params = ...
    local request = _G.sessions[session]:request(method, params, function(err, result)
      _G.outcomes[call] = {
        err = err and { code = err.code, message = err.message, data = err.data },
        result = result,
      }
    end)
    _G.requests = _G.requests or {}
    _G.requests[call] = request
  ]],
    n_calls,
    session or 'agent',
    method,
    next(params or {}) and params or vim.empty_dict()
  )
  return n_calls
end

--- @param call integer
--- @param timeout_ms? integer
--- @return any result
--- @return { code: string, message: string, data: table }? err
function Child:outcome(call, timeout_ms)
  local outcome = T.wait('an answer to the call', function()
    local found = self:lua('return _G.outcomes[...] or false', call)
    return found
  end, timeout_ms)
  return outcome.result, outcome.err
end

--- @param method string
--- @param params? table
--- @param session? string
--- @return any result
--- @return { code: string, message: string, data: table }? err
function Child:call(method, params, session)
  return self:outcome(self:begin(method, params, session))
end

--- Calls and expects success.
--- @param method string
--- @param params? table
--- @return any
function Child:must(method, params)
  local result, err = self:call(method, params)
  if err then
    error(('%s: %s %s'):format(method, err.code, err.message), 2)
  end
  return result
end

--- Calls and expects a refusal.
--- @param code string
--- @param method string
--- @param params? table
--- @return table
function Child:refused(code, method, params)
  local result, err = self:call(method, params)
  if not err then
    error(('%s was not refused: %s'):format(method, vim.inspect(result)), 2)
  end
  T.eq(err.code, code, err.message)
  return err
end

--- Asserts that the sidecar has the text of the current buffer.
--- @param what? string
function Child:in_step(what)
  local name = self:lua('return vim.api.nvim_buf_get_name(0)')
  local raw = self:text()
  local read = self:must('read', { path = name, limit = 1000000 })
  T.eq(read.via, 'editor', what)
  T.eq(read.text, (raw:gsub('\r\n', '\n')), what or "the sidecar's text is the buffer's")
end

function Child:stop()
  vim.fn.jobstop(self.channel)
end

return M
