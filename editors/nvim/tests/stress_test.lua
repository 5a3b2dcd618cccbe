-- People and an agent in the same buffers, at full speed. R5 of the requirements.

local Child = require('support.child')
local T = require('support.harness')
local human = require('support.human')

local test, eq = T.test, T.eq

local N_TRIES = math.max(10, math.floor(50 * T.scale))

--- @param prefix string
--- @return string
local function content(prefix)
  local lines = {}
  for idx = 1, 40 do
    lines[idx] = ('%s %d t%d'):format(prefix, idx, idx * 7 + (prefix == 'b' and 5000 or 1000))
  end
  return table.concat(lines, '\n') .. '\n'
end

--- @param child Child
--- @param seed integer
--- @param paths string[]
--- @param request string A Lua expression: how the agent asks.
--- @param until_corrupted? boolean Tries up to 3000 times, and stops at the first corruption.
local function start_agent(child, seed, paths, request, until_corrupted)
  child:lua(
    ([[
    local seed, paths, n_tries, support, until_corrupted = ...
    package.path = support .. '/?.lua;' .. package.path
    local random = require('support.harness').random(seed)
    agent.start({
      request = %s,
      paths = paths,
      n_tries = n_tries,
      random = random,
      pause = function() return random(0, until_corrupted and 3 or 12) end,
      until_corrupted = until_corrupted,
    })
  ]]):format(request),
    seed,
    paths,
    until_corrupted and 3000 or N_TRIES,
    Child.plugin .. '/tests',
    until_corrupted or false
  )
end

--- Types until the agent is done.
--- @param child Child
--- @param seed integer
--- @param options table
local function type_along(child, seed, options)
  local random = T.random(seed + 1)
  local function is_done()
    local mode = child:mode()
    return not mode.blocking and child:lua('return agent.is_done')
  end
  local deadline = vim.uv.hrtime() + 300e9
  while not is_done() do
    T.ok(vim.uv.hrtime() < deadline, 'the agent does not come to an end')
    options.n_lines = 40
    for _, piece in ipairs(human.act(random, options)) do
      child:api('nvim_input', piece)
      if random(1, 2) == 1 then
        vim.uv.sleep(random(0, 6))
      end
    end
    child:api('nvim_input', '<Esc>')
  end
  child:type('<Esc><Esc>')
end

--- Another plugin, which changes the buffer while the human types a command line: nobody is told
--- by Neovim where that shows a preview.
local OTHER_PLUGIN = [[
  _G.n_swallowed = 0
  _G.timer = vim.uv.new_timer()
  timer:start(0, 5, vim.schedule_wrap(function()
    if vim.fn.getcmdtype() == ':' and vim.fn.getcmdline():find('s/') and n_swallowed < 1000 then
      n_swallowed = n_swallowed + 1
      local line = ('plugin t%d'):format(900000 + n_swallowed)
      vim.api.nvim_buf_set_lines(0, 0, 1, true, { line })
    end
  end))
]]

--- @param seed integer
--- @param options { buffers: boolean, reload: boolean, previews: boolean, plugin: boolean }
local function stress(seed, options)
  local child = Child.start({ files = { ['a.txt'] = content('a'), ['b.txt'] = content('b') } })
  child:edit('a.txt')
  child:cmd('set hidden undolevels=100000')
  child:edit('b.txt')
  child:session()
  child:lua(([[
    package.path = %q .. package.path
    agent = require('support.agent')
    agent.watch_plugin()
  ]]):format(Child.plugin .. '/tests/?.lua;'))
  local paths = { child.dir .. '/a.txt', options.buffers and child.dir .. '/b.txt' or nil }
  if not options.buffers then
    child:cmd('buffer a.txt')
  end
  if options.plugin then
    child:lua(OTHER_PLUGIN)
  end
  start_agent(
    child,
    seed,
    paths,
    [[function(method, params, on_done)
    sessions.agent:request(method, params, on_done)
  end]]
  )
  type_along(child, seed, options)
  local counts = child:lua('return agent.counts')
  T.say(('        seed %d: %s'):format(seed, vim.inspect(counts):gsub('%s+', ' ')))
  eq(counts.corrupted, 0, vim.inspect(child:lua('return agent.trouble[1] or {}')))
  eq(counts.lies, 0, 'false success')
  T.ok(counts.landed > 0, 'some edits land')
  for _, name in ipairs({ 'a.txt', 'b.txt' }) do
    child:cmd('buffer ' .. name)
    child:in_step(name)
  end
  return child
end

local seeds = T.seed and { T.seed } or { 11, 12, 13 }

for _, seed in ipairs(seeds) do
  test(
    ('seed %d: two documents: nothing is corrupted, no success is false'):format(seed),
    function()
      local child = stress(seed, { buffers = true, reload = true, previews = true, plugin = true })
      T.say(('        %d changes in previews'):format(child:lua('return n_swallowed')))
    end
  )

  test(('seed %d: undo goes back to the start, and redo to the end'):format(seed), function()
    local child =
      stress(seed + 100, { buffers = false, reload = false, previews = true, plugin = false })
    child:cmd('buffer a.txt')
    local final = child:text()
    child:cmd('silent undo 0')
    eq(child:text(), content('a'))
    child:in_step()
    child:cmd('silent exe "undo " . undotree().seq_last')
    child:in_step()
    -- The last change need not be the current one: the human may have undone it.
    child:cmd('silent earlier 0')
    T.ok(#final > 0, 'a text')
  end)
end

test('negative control: with the stock handler and trustClient, the same corrupts', function()
  local child = Child.start({
    plugin = false,
    files = { ['a.txt'] = content('a'), ['b.txt'] = content('b') },
  })
  child:cmd('set hidden')
  child:cmd('edit b.txt')
  child:cmd('edit a.txt')
  child:lua(
    ([[
    package.path = %q .. package.path
    agent = require('support.agent')
    local sidecar, dir = ...
    local id = vim.lsp.start({
      name = 'stock',
      cmd = { sidecar },
      root_dir = dir,
      init_options = { trustClient = true },
    })
    vim.api.nvim_create_autocmd('BufReadPost', {
      callback = function(args) vim.lsp.buf_attach_client(args.buf, id) end,
    })
    vim.lsp.buf_attach_client(vim.fn.bufnr('b.txt'), id)
    client = vim.lsp.get_client_by_id(id)
    agent.watch_stock(client)
  ]]):format(Child.plugin .. '/tests/?.lua;'),
    Child.sidecar(),
    child.dir
  )
  T.wait('the stock client', function()
    return child:lua('return client.initialized or false')
  end)
  child:lua([[client:request('abreast/openSession', { sessionId = 's' }, function() end)]])
  -- One document at a time: without `strictApplyEdit` the sidecar takes no more.
  start_agent(
    child,
    21,
    { child.dir .. '/a.txt' },
    [[function(method, params, on_done)
    params.sessionId = 's'
    client:request(method, params, function(err, result)
      on_done(err and { code = err.data and err.data.code or tostring(err.code) }, result)
    end)
  end]],
    true
  )
  type_along(child, 21, { buffers = false, reload = true, previews = false })
  local counts = child:lua('return agent.counts')
  T.say(('        stock: %s'):format(vim.inspect(counts):gsub('%s+', ' ')))
  T.ok(counts.corrupted > 0, 'the stress corrupts nothing')
end)
