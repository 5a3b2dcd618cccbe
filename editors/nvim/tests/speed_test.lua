-- How many edits land beside a person who types, and how long edits take.

local Child = require('support.child')
local T = require('support.harness')

local test, eq = T.test, T.eq

--- @param n_lines integer
--- @param width integer
--- @return string
local function content(n_lines, width)
  local lines = {}
  for idx = 1, n_lines do
    local line = ('line %d '):format(idx)
    lines[idx] = line .. ('x'):rep(width - #line - 1)
  end
  return table.concat(lines, '\n') .. '\n'
end

--- @param values number[]
--- @param share number
--- @return number
local function percentile(values, share)
  table.sort(values)
  return values[math.max(1, math.ceil(#values * share))]
end

--- Read-then-edit pairs, one after the other, until `_G.is_over`.
local PAIRS = [[
  local path = ...
  pairs_done, latencies, errors = {}, {}, {}
  landed, tried, is_over, is_idle = 0, 0, false, false
  local count = 0
  local function pair()
    if is_over then
      is_idle = true
      return
    end
    local started = vim.uv.hrtime()
    local session = sessions.agent
    session:read({ path = path }, function(err, read)
      local old = read and read.text:match('line 41 %S+') or '?'
      count = count + 1
      local edit = { path = path, oldString = old, newString = ('line 41 n%d'):format(count) }
      session:edit(edit, function(edit_err)
        tried = tried + 1
        landed = landed + (edit_err and 0 or 1)
        if edit_err then
          table.insert(errors, tostring(edit_err))
        end
        table.insert(latencies, (vim.uv.hrtime() - started) / 1e6)
        vim.defer_fn(pair, 25)
      end)
    end)
  end
  pair()
]]

--- @param n_keys integer
--- @return number share Of the pairs that landed.
local function type_beside(n_keys)
  local child = Child.start({ files = { ['a.txt'] = content(80, 20) } })
  child:edit('a.txt')
  child:session()
  child:must('read', { path = 'a.txt' })
  child:lua(PAIRS, child.dir .. '/a.txt')
  child:type('3GA')
  local keys = { 'a', 'b', ' ', 'c', '<CR>', 'd', '<BS>', 'e', 'f', '<CR>' }
  for idx = 1, n_keys do
    child:api('nvim_input', keys[idx % #keys + 1])
    vim.uv.sleep(100)
  end
  child:lua('is_over = true')
  T.wait('the agent stops', function()
    return child:lua('return is_idle')
  end)
  local landed, tried = child:lua('return landed'), child:lua('return tried')
  local latencies = child:lua('return latencies')
  local row = '        %d of %d pairs landed beside %d keys; median %.1f ms, p95 %.1f ms'
  local median, p95 = percentile(latencies, 0.5), percentile(latencies, 0.95)
  T.say(row:format(landed, tried, n_keys, median, p95))
  for _, err in ipairs(child:lua('return errors')) do
    T.has(err, 'FS_STALE_VERSION')
  end
  child:type('<Esc>')
  child:in_step()
  child:stop()
  return landed / tried
end

-- What depends on how busy the machine is is told; it is demanded only in the full measure.
local is_full_measure = T.scale >= 10

test('a person types 10 keys/s elsewhere in the file: 95 % of the pairs land', function()
  local n_keys = math.floor(40 * math.min(T.scale, 5))
  -- A key between read and edit is a refusal, so it depends on how busy the machine is.
  local share = 0
  for _ = 1, 3 do
    share = math.max(share, share < 0.95 and type_beside(n_keys) or 0)
  end
  local least = is_full_measure and 0.95 or 0.5
  T.ok(share >= least, ('%.1f %%'):format(share * 100))
end)

test('one edit of 1 MB takes at most twice as long as with the stock handler', function()
  local text = content(16384, 64)
  -- From the edit sent to the answer received, in turns, in one Neovim.
  local function measure()
    local dir = T.workspace({ ['a.txt'] = text })
    local server =
      { vim.v.progpath, '--clean', '-l', Child.plugin .. '/tests/support/stopwatch.lua' }
    vim.list_extend(server, { '25', dir .. '/result.json' })
    local child = Child.start({
      dir = dir,
      options = ('{ autostart = false, cmd = %s }'):format(vim.inspect(server)),
    })
    child:cmd('edit a.txt')
    child:lua([[
      local clients = require('abreast.client')
      clients.start()
      local handlers = vim.lsp.get_client_by_id(clients.get().client_id).handlers
      local ours = handlers['workspace/applyEdit']
      handlers['workspace/applyEdit'] = function(err, params, context)
        local handler = params.stock and vim.lsp.handlers['workspace/applyEdit'] or ours
        return handler(err, params, context)
      end
    ]])
    local times = vim.json.decode(T.wait('the measurements', function()
      return T.read(dir .. '/result.json')
    end, 30000))
    local stock, ours = {}, {}
    for idx = 2, #times do
      table.insert(idx % 2 == 1 and stock or ours, times[idx])
    end
    return percentile(stock, 0.5), percentile(ours, 0.5)
  end
  -- Other work on the machine may come in between; it does not come three times.
  local ratio
  for _ = 1, 3 do
    local stock_ms, our_ms = measure()
    ratio = our_ms / stock_ms
    local row = '        1 MB: stock %.2f ms, ours %.2f ms (ratio %.2f)'
    T.say(row:format(stock_ms, our_ms, ratio))
    if ratio <= 2 or not is_full_measure then
      return
    end
  end
  error(('ratio %.2f'):format(ratio))
end)

test('round trip through the sidecar on 1 MB', function()
  local child = Child.start({ files = { ['a.txt'] = content(16384, 64) } })
  child:edit('a.txt')
  child:session()
  child:must('read', { path = 'a.txt', limit = 1 })
  local times = {}
  for idx = 1, 15 do
    local started = vim.uv.hrtime()
    child:must('edit', {
      path = 'a.txt',
      oldString = idx == 1 and 'line 8000 ' or ('edited %d '):format(idx - 1),
      newString = ('edited %d '):format(idx),
    })
    times[idx] = (vim.uv.hrtime() - started) / 1e6
  end
  T.say(('        1 MB: read once, then edit: median %.1f ms'):format(percentile(times, 0.5)))
  eq(child:lua([[return vim.fn.search('edited 15')]]) > 0, true)
end)
