--- The tests: registering, running, comparing, waiting.

local M = {}

--- @type { name: string, fn: fun() }[]
local tests = {}
local current_file = ''

M.scale = tonumber(vim.env.ABREAST_TEST_SCALE or '1')
M.seed = tonumber(vim.env.ABREAST_TEST_SEED or '') or nil

--- @param name string
function M.file(name)
  current_file = name
end

--- @param name string A sentence about behaviour.
--- @param fn fun()
function M.test(name, fn)
  table.insert(tests, { name = current_file .. ': ' .. name, fn = fn })
end

--- What goes on after a test, in reverse order.
--- @type fun()[]
local cleanups = {}

--- @param fn fun()
function M.defer(fn)
  table.insert(cleanups, fn)
end

local function clean()
  for idx = #cleanups, 1, -1 do
    pcall(cleanups[idx])
  end
  cleanups = {}
end

--- @param ... any
function M.say(...)
  io.stdout:write(table.concat(vim.tbl_map(tostring, { ... }), ' '), '\n')
  io.stdout:flush()
end

local skipped = {}

--- Leaves the running test.
--- @param why string
function M.skip(why)
  error({ skip = why }, 0)
end

--- @param patterns string[]
--- @return boolean all_passed
function M.run(patterns)
  local n_passed, n_failed = 0, 0
  local started = vim.uv.hrtime()
  for _, test in ipairs(tests) do
    local wanted = #patterns == 0
    for _, pattern in ipairs(patterns) do
      wanted = wanted or test.name:find(pattern, 1, true) ~= nil
    end
    if wanted then
      local start = vim.uv.hrtime()
      local ok, err = xpcall(test.fn, function(err)
        return type(err) == 'table' and err or debug.traceback(tostring(err), 2)
      end)
      clean()
      local ms = (vim.uv.hrtime() - start) / 1e6
      if ok then
        n_passed = n_passed + 1
        M.say(('ok      %s (%.0f ms)'):format(test.name, ms))
      elseif type(err) == 'table' and err.skip then
        table.insert(skipped, test.name)
        M.say(('skipped %s: %s'):format(test.name, err.skip))
      else
        n_failed = n_failed + 1
        M.say(('FAILED  %s\n%s'):format(test.name, tostring(err)))
      end
    end
  end
  M.say(('in %.1f s'):format((vim.uv.hrtime() - started) / 1e9))
  if #skipped > 0 then
    M.say(('%d skipped'):format(#skipped))
  end
  M.say(('%d passed, %d failed'):format(n_passed, n_failed))
  return n_failed == 0 and n_passed > 0
end

--- @param actual any
--- @param expected any
--- @param what? string
function M.eq(actual, expected, what)
  if not vim.deep_equal(actual, expected) then
    local text = '%s\nexpected: %s\nactual:   %s'
    error(text:format(what or 'not equal', vim.inspect(expected), vim.inspect(actual)), 2)
  end
end

--- @param text string?
--- @param part string
function M.has(text, part)
  if type(text) ~= 'string' or not text:find(part, 1, true) then
    error(('%q is not in %s'):format(part, vim.inspect(text)), 2)
  end
end

--- @param condition any
--- @param what string
function M.ok(condition, what)
  if not condition then
    error(what, 2)
  end
end

--- Waits for `fn` to return something true, by asking again and again.
--- @generic T
--- @param what string
--- @param fn fun(): T
--- @param timeout_ms? integer
--- @return T
function M.wait(what, fn, timeout_ms)
  local outcome
  local ok = vim.wait(timeout_ms or 10000, function()
    outcome = fn()
    return outcome and true or false
  end, 2)
  if not ok then
    error(('waited in vain: %s (last: %s)'):format(what, vim.inspect(outcome)), 2)
  end
  return outcome
end

--- Numbers that look random and are the same for the same seed.
--- @param seed integer
--- @return fun(from: integer, to: integer): integer
function M.random(seed)
  local state = seed % 2147483647
  if state == 0 then
    state = 1
  end
  return function(from, to)
    state = state * 16807 % 2147483647
    return from + math.floor(state / 2147483647 * (to - from + 1))
  end
end

--- A directory of its own for the running test.
--- @param files? table<string, string> Contents, byte by byte.
--- @return string
function M.workspace(files)
  local dir = vim.uv.fs_realpath(vim.uv.fs_mkdtemp(vim.uv.os_tmpdir() .. '/abreast-nvim-XXXXXX'))
  M.defer(function()
    vim.fn.delete(dir, 'rf')
  end)
  for name, content in pairs(files or {}) do
    M.write(dir .. '/' .. name, content)
  end
  return dir
end

--- @param path string
--- @param content string
function M.write(path, content)
  vim.fn.mkdir(vim.fn.fnamemodify(path, ':h'), 'p')
  local file = assert(io.open(path, 'wb'))
  file:write(content)
  file:close()
end

--- @param path string
--- @return string?
function M.read(path)
  local file = io.open(path, 'rb')
  if not file then
    return nil
  end
  local content = file:read('*a')
  file:close()
  return content
end

return M
