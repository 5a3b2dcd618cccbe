--- One way to wait for an answer, in two styles: a callback, or a coroutine that is suspended.
---
--- Invariant: `on_done` is called exactly once, and never before the call that takes it returns.

local M = {}

--- Something under way that can be given up.
--- @class (exact) Abreast.Request
--- @field cancel fun(self: Abreast.Request) Gives it up, if it has not changed anything yet.

--- @alias Abreast.OnDone fun(err: Abreast.Error?, result: any)

--- @param err any
local function report(err)
  vim.schedule(function()
    vim.notify('abreast: ' .. tostring(err), vim.log.levels.ERROR)
  end)
end

--- Runs `fn` as a coroutine, in which the calls of this plugin can be used without callbacks.
--- An error in it is shown, with a traceback.
--- @param fn fun(...)
--- @param ... any
function M.run(fn, ...)
  local arguments, n_arguments = { ... }, select('#', ...)
  coroutine.wrap(function()
    xpcall(function()
      fn(unpack(arguments, 1, n_arguments))
    end, function(err)
      report(debug.traceback(tostring(err), 2))
    end)
  end)()
end

--- With a callback: starts, and returns what cancels it. Without one, in a coroutine: waits, and
--- returns the result, or nil and the error.
--- @param on_done? Abreast.OnDone
--- @param start fun(on_done: Abreast.OnDone): Abreast.Request
--- @return any
--- @return Abreast.Error?
function M.await(on_done, start)
  if on_done then
    return start(on_done)
  end
  local co, is_main = coroutine.running()
  if not co or is_main then
    error('abreast: pass a callback, or call this in a coroutine (:help abreast.run())', 3)
  end
  local err, result --- @type Abreast.Error?, any
  local is_done, is_suspended = false, false
  start(function(...)
    err, result = ...
    is_done = true
    if is_suspended then
      local ok, failure = coroutine.resume(co)
      if not ok then
        report(debug.traceback(co, tostring(failure)))
      end
    end
  end)
  while not is_done do
    is_suspended = true
    coroutine.yield()
    is_suspended = false
  end
  if err then
    return nil, err
  end
  return result
end

return M
