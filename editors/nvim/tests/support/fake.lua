--- A sidecar that does what a test says. Runs inside the child, as `_G.fake`.

local M = {}

--- Everything in order: `{ 'notify', method, params }`, `{ 'request', method, params }`,
--- `{ 'reply', method, result }`.
M.log = {}

--- The answer to `initialize`.
M.initialize = {
  capabilities = {
    positionEncoding = 'utf-8',
    textDocumentSync = { openClose = true, change = 2, save = { includeText = false } },
    experimental = { abreast = { version = 1, minVersion = 1, methods = {}, tools = {} } },
  },
  serverInfo = { name = 'abreast', version = 'fake' },
}
M.initialize_error = nil

--- What other requests are answered with; a function gets the parameters.
--- @type table<string, any>
M.answers = {
  ['abreast/openSession'] = function(params)
    return { sessionId = params.sessionId, options = {}, tools = {} }
  end,
  ['abreast/sessions'] = { sessions = {} },
}

local dispatchers
local is_closing = false

function M.cmd(given)
  dispatchers = given
  is_closing = false
  local n_requests = 0
  local function request(method, params, callback, on_reply)
    if is_closing then
      return false
    end
    n_requests = n_requests + 1
    local id = n_requests
    table.insert(M.log, { 'request', method, vim.deepcopy(params) })
    local answer, err
    if method == 'initialize' then
      answer, err = M.initialize, M.initialize_error
    elseif method == 'shutdown' then
      answer = vim.NIL
    else
      answer = M.answers[method]
      if type(answer) == 'function' then
        answer, err = answer(params)
      elseif answer == nil then
        err = { code = -32601, message = 'no method ' .. method }
      end
    end
    if answer == 'never' then
      return true, id
    end
    vim.schedule(function()
      if on_reply then
        on_reply(id)
      end
      callback(err, not err and answer or nil)
    end)
    return true, id
  end
  return {
    request = request,
    notify = function(method, params)
      if is_closing then
        return false
      end
      table.insert(M.log, { 'notify', method, vim.deepcopy(params) })
      if method == 'exit' then
        M.exit(0, 0)
      end
      return true
    end,
    is_closing = function()
      return is_closing
    end,
    terminate = function()
      M.exit(0, 15)
    end,
  }
end

function M.exit(code, signal)
  if not is_closing then
    is_closing = true
    vim.schedule(function()
      dispatchers.on_exit(code, signal)
    end)
  end
end

--- Asks the editor, as `vim.lsp.rpc` would pass it on. The answer is in the log, and in `replies`.
M.replies = {}
function M.ask(id, method, params)
  vim.schedule(coroutine.wrap(function()
    local result = dispatchers.server_request(method, params)
    table.insert(M.log, { 'reply', method, result })
    M.replies[id] = result
  end))
end

function M.tell(method, params)
  dispatchers.notification(method, params)
end

return M
