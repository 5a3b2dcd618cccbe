-- Starting, failing, ending and starting again. R1, R8, R10, R12 of the requirements.

local Child = require('support.child')
local T = require('support.harness')

local test, eq = T.test, T.eq

--- @param child Child
--- @param what string
local function wait_for_message(child, what)
  T.wait(what, function()
    return child:messages():find(what, 1, true)
  end)
end

--- @param child Child
--- @param state string
local function wait_for_state(child, state)
  T.wait('the state ' .. state, function()
    return child:lua([[return require('abreast').status().state]]) == state
  end)
end

test('an old Neovim is told why the plugin stays off', function()
  local old = vim.env.ABREAST_OLD_NVIM
  if not old or vim.fn.executable(old) == 0 then
    T.skip('no Neovim below 0.10 (ABREAST_OLD_NVIM)')
  end
  local command = { old, '--headless', '--clean', '--cmd', 'set rtp^=' .. Child.plugin, '+qa!' }
  local result = vim.system(command, { text = true }):wait()
  T.has(result.stderr, 'abreast needs Neovim 0.10 or newer, and this is 0.')
  T.has(result.stderr, 'Update Neovim, or remove the plugin')
  T.ok(not result.stderr:find('Error', 1, true), result.stderr)
  command[#command] = '+lua local ok, err = pcall(require, "abreast") io.stderr:write(err)'
  table.insert(command, '+qa!')
  result = vim.system(command, { text = true }):wait()
  T.has(result.stderr, 'abreast needs Neovim 0.10 or newer')
end)

test('nothing is said and nothing is started before there is a file', function()
  local child = Child.start()
  child:cmd('enew')
  child:cmd('help')
  eq(child:lua([[return require('abreast').status().state]]), 'stopped')
  eq(child:messages(), '')
  eq(child:lua([[return require('abreast').statusline()]]), '')
end)

test('autostart can be switched off, and a session starts all the same', function()
  local child = Child.start({ files = { ['a.txt'] = 'x\n' }, options = '{ autostart = false }' })
  child:cmd('edit a.txt')
  eq(child:lua([[return require('abreast').status().state]]), 'stopped')
  child:session()
  eq(child:must('read', { path = 'a.txt' }).via, 'editor')
end)

test('a missing sidecar is said once, with what to do', function()
  local child = Child.start({
    files = { ['a.txt'] = 'x\n', ['b.txt'] = 'x\n' },
    options = '{ cmd = "/nonexistent/abreast" }',
  })
  child:cmd('edit a.txt')
  wait_for_message(child, 'names "/nonexistent/abreast", which is no program that can be run')
  child:cmd('messages clear')
  child:cmd('edit b.txt')
  child:session()
  local err = child:refused('ABREAST_NOT_RUNNING', 'read', { path = 'a.txt' })
  T.has(err.message, '/nonexistent/abreast')
  eq(child:messages(), '')
  eq(child:lua([[return require('abreast').statusline()]]), 'abreast:failed')
end)

test('without the option, `$PATH` and the repository are looked through', function()
  -- A copy of the plugin outside of the repository, so that its build is not found.
  local dir = T.workspace({ ['a.txt'] = 'x\n' })
  vim.fn.system({ 'cp', '-r', Child.plugin .. '/lua', Child.plugin .. '/plugin', dir })
  local child = Child.start({
    dir = dir,
    plugin = false,
    args = { '--cmd', 'set runtimepath^=' .. dir },
    env = { PATH = '/nonexistent' },
  })
  child:cmd('edit a.txt')
  wait_for_message(child, 'the sidecar `abreast` is not installed: run `cargo install --path .`')
  local bin = T.workspace()
  vim.uv.fs_symlink(Child.sidecar(), bin .. '/abreast')
  child = Child.start({
    dir = dir,
    plugin = false,
    args = { '--cmd', 'set runtimepath^=' .. dir },
    env = { PATH = bin },
  })
  child:edit('a.txt')
  eq(child:lua([[return require('abreast').status().cmd]]), { bin .. '/abreast' })
  child = Child.start({
    files = { ['a.txt'] = 'x\n' },
    plugin = false,
    args = { '--cmd', 'set runtimepath^=' .. Child.plugin },
    env = { PATH = '/nonexistent' },
  })
  child:cmd('edit a.txt')
  if vim.fn.glob(Child.repository .. '/target/*/abreast') ~= '' then
    child:ready()
    T.has(child:lua([[return require('abreast').status().cmd[1] ]]), Child.repository .. '/target/')
  end
end)

test('a program that is no sidecar is called so', function()
  local child = Child.start({ files = { ['a.txt'] = 'x\n' }, options = '{ cmd = "true" }' })
  child:cmd('edit a.txt')
  wait_for_message(child, 'ended at once or again and again (status 0)')
  wait_for_state(child, 'failed')
end)

for _, case in ipairs({
  {
    'a newer protocol',
    '{ version = 3, minVersion = 2 }',
    'speaks versions 2 to 3 of the protocol, and this plugin version 1: update this plugin',
  },
  {
    'an older protocol',
    '{ version = 0 }',
    'speaks version 0 of the protocol, and this plugin version 1: update the sidecar',
  },
  {
    'another language server',
    'nil',
    'is a language server, but not abreast; correct the option `cmd`',
  },
}) do
  test(case[1] .. ' is refused, with what to update', function()
    local child = Child.start({ fake = true, files = { ['a.txt'] = 'x\n' } })
    child:lua(('fake.initialize.capabilities.experimental.abreast = %s'):format(case[2]))
    child:cmd('edit a.txt')
    wait_for_message(child, case[3])
    wait_for_state(child, 'failed')
    eq(child:lua('return #vim.lsp.get_clients()'), 0)
    T.ok(not child:messages():find('traceback'), child:messages())
  end)
end

test('a range of protocol versions that has ours is good', function()
  local child = Child.start({ fake = true, files = { ['a.txt'] = 'x\n' } })
  child:lua([[fake.initialize.capabilities.experimental.abreast = { version = 4, minVersion = 1 }]])
  child:edit('a.txt')
end)

test('a wrong option of the sidecar is told in its own words', function()
  local child = Child.start({
    files = { ['a.txt'] = 'x\n' },
    options = '{ server = { freshness = "always" } }',
  })
  child:cmd('edit a.txt')
  wait_for_message(child, 'freshness')
  wait_for_state(child, 'failed')
  T.has(child:messages(), 'correct the option `server`')
  T.ok(not child:messages():find('traceback'), child:messages())
end)

test('a wrong option of the plugin is told, and its default holds', function()
  local init = T.workspace() .. '/init.lua'
  T.write(
    init,
    [[
    require('abreast').setup({
      autostrat = true,
      max_bytes = 'many',
      log_level = 'loud',
      highlight = { sing = 'x', sign = '!' },
      notify = false,
    })
    vim.g.after = 'the rest of the configuration'
  ]]
  )
  local child = Child.start({ files = { ['a.txt'] = 'x\n' }, args = { '-u', init } })
  for _, message in ipairs({
    'there is no option "autostrat"; see :help abreast-options',
    'option "max_bytes" must be a number, not a string',
    'there is no option "highlight.sing"',
    'option "log_level" must be one of error, warn,',
  }) do
    wait_for_message(child, message)
  end
  eq(child:lua('return vim.g.after'), 'the rest of the configuration')
  eq(
    child:lua([[
      local config = require('abreast.config').get()
      return { config.log_level, config.highlight.sign, config.highlight.enabled, config.notify }
    ]]),
    { 'warn', '!', true, false }
  )
  child:cmd('checkhealth abreast')
  T.has(table.concat(child:lines(), '\n'), 'ERROR there is no option "autostrat"')
  child:lua([[require('abreast').setup('x')]])
  wait_for_message(child, 'the options must be a table, not a string')
end)

test('options that the sidecar does not know are in the log and in :checkhealth', function()
  local child = Child.start({
    files = { ['a.txt'] = 'x\n' },
    options = '{ server = { writeCoverag = "full" } }',
  })
  child:edit('a.txt')
  T.wait('the warning', function()
    return #child:lua([[return require('abreast.client').get().warnings]]) > 0
  end)
  child:cmd('checkhealth abreast')
  local text = table.concat(child:lines(), '\n')
  T.has(text, 'WARNING the sidecar warned: ')
  T.has(text, 'writeCoverag')
end)

test('options that come too late for the sidecar are called so', function()
  local child = Child.start({ files = { ['a.txt'] = 'x\n' } })
  child:edit('a.txt')
  local setup = ([[require('abreast').setup({ cmd = %q, server = ... })]]):format(Child.sidecar())
  child:lua(setup, vim.empty_dict())
  eq(child:messages(), '')
  child:lua(setup, { writeCoverage = 'full' })
  wait_for_message(child, 'the sidecar runs already: `server` takes effect with :Abreast restart')
  child:cmd('messages clear')
  child:cmd('Abreast restart')
  wait_for_message(child, 'abreast: running')
  child:lua(setup, { writeCoverage = 'full' })
  child:session()
  T.write(child.dir .. '/long.txt', ('x\n'):rep(50))
  child:must('read', { path = 'long.txt', limit = 5 })
  child:refused('FS_COVERAGE', 'write', { path = 'long.txt', content = 'y\n' })
end)

test('a program that ends at once is said once', function()
  for _, cmd in ipairs({ 'false', 'cat' }) do
    local child = Child.start({
      files = { ['a.txt'] = 'x\n' },
      options = ('{ cmd = %q }'):format(cmd),
    })
    child:lua([[
      _G.said = {}
      vim.notify = function(message) table.insert(_G.said, message) end
    ]])
    child:cmd('edit a.txt')
    wait_for_state(child, 'failed')
    for idx = 1, 3 do
      child:session('agent' .. idx)
      child:call('read', { path = 'a.txt' }, 'agent' .. idx)
    end
    eq(#child:lua('return _G.said'), 1, vim.inspect(child:lua('return _G.said')))
  end
end)

test('a sidecar that dies is started again, documents and sessions with it', function()
  local child = Child.start({ files = { ['a.txt'] = 'one\ntwo\n' } })
  child:edit('a.txt')
  child:lua([[
    _G.kinds = {}
    vim.api.nvim_create_autocmd('User', {
      pattern = 'AbreastSession',
      callback = function(args) table.insert(_G.kinds, args.data.kind) end,
    })
  ]])
  child:session()
  child:must('read', { path = 'a.txt' })
  child:type('ccONE<Esc>')
  -- A call that the dying process does not answer any more.
  local pid =
    vim.trim(vim.fn.system({ 'pgrep', '-P', tostring(child:lua('return vim.fn.getpid()')) }))
  child:lua([[_G.generation = require('abreast.client').get().generation]])
  vim.uv.kill(assert(tonumber(vim.split(pid, '\n')[1])), 'sigstop')
  local call = child:begin('read', { path = 'a.txt' })
  vim.uv.kill(assert(tonumber(vim.split(pid, '\n')[1])), 'sigkill')
  local _, err = child:outcome(call)
  eq(err.code, 'ABREAST_STOPPED')
  wait_for_message(child, 'ended unexpectedly (signal 9) and is started again')
  T.wait('another process', function()
    return child:lua([[return require('abreast.client').get().generation > _G.generation]])
  end)
  local edit = { path = 'a.txt', oldString = 'two', newString = '2' }
  child:refused('FS_NOT_OBSERVED', 'edit', edit)
  eq(child:must('read', { path = 'a.txt' }).text, 'ONE\ntwo\n')
  child:must('edit', edit)
  child:in_step()
  eq(child:lua('return _G.kinds'), { 'opened', 'reopened' })
end)

test('a sidecar that dies again and again is given up', function()
  local child = Child.start({ fake = true, files = { ['a.txt'] = 'x\n' } })
  child:edit('a.txt')
  for round = 1, 4 do
    local generation = child:lua([[return require('abreast.client').get().generation]])
    eq(generation, round)
    child:lua('fake.exit(101, 0)')
    if round < 4 then
      T.wait('it is started again', function()
        return child:lua([[return require('abreast.client').get().generation]]) > generation
      end)
    end
  end
  wait_for_state(child, 'failed')
  wait_for_message(child, 'again and again (status 101)')
  child:cmd('Abreast restart')
  wait_for_state(child, 'running')
end)

test(':Abreast stop ends it for good, :Abreast restart begins again', function()
  local child = Child.start({ files = { ['a.txt'] = 'one\ntwo\n', ['b.txt'] = 'x\n' } })
  child:edit('a.txt')
  child:session()
  child:must('read', { path = 'a.txt' })
  child:cmd('Abreast stop')
  wait_for_state(child, 'stopped')
  eq(child:lua([[return require('abreast').statusline()]]), 'abreast:stopped')
  child:cmd('edit b.txt')
  local err = child:refused('ABREAST_NOT_RUNNING', 'read', { path = 'a.txt' })
  T.has(err.message, ':Abreast restart')
  eq(child:lua('return #vim.lsp.get_clients()'), 0)
  child:cmd('Abreast restart')
  wait_for_message(child, 'abreast: running')
  eq(child:must('read', { path = 'b.txt' }).via, 'editor')
  child:cmd('Abreast restart')
  T.wait('the second restart', function()
    return child:lua([[return require('abreast.client').get().generation]]) == 3
  end)
  eq(child:must('read', { path = 'b.txt' }).via, 'editor')
end)

test('Neovim quits at once, and the sidecar with it', function()
  local child = Child.start({ files = { ['a.txt'] = 'one\n' } })
  child:edit('a.txt')
  child:type('ox<Esc>')
  local pid =
    vim.trim(vim.fn.system({ 'pgrep', '-P', tostring(child:lua('return vim.fn.getpid()')) }))
  local started = vim.uv.hrtime()
  pcall(child.cmd, child, 'qa!')
  T.wait('the sidecar ends', function()
    return vim.uv.kill(assert(tonumber(pid)), 0) ~= 0
  end)
  T.ok((vim.uv.hrtime() - started) / 1e6 < 2000, 'in less than 2 s')
end)

test('the workspace is the Git root, and grows with :cd', function()
  local child = Child.start({ files = { ['.git/HEAD'] = '', ['sub/a.txt'] = 'x\n' } })
  local other = T.workspace({ ['c.txt'] = 'x\n' })
  child:cmd('cd sub')
  child:edit('a.txt')
  local folders = [[
    return vim.tbl_map(function(folder)
      return vim.uri_to_fname(folder.uri)
    end, require('abreast.client').lsp_client().workspace_folders)
  ]]
  eq(child:lua(folders), { child.dir })
  child:cmd('cd ' .. child.dir)
  eq(child:lua(folders), { child.dir })
  child:cmd('cd ' .. other)
  eq(child:lua(folders), { other, child.dir })
  child:session()
  eq(child:must('read', { path = 'c.txt' }).text, 'x\n')
end)

test(':checkhealth tells what is there', function()
  local child = Child.start({ files = { ['a.txt'] = 'one\n' } })
  local text
  local function report()
    child:cmd('checkhealth abreast')
    local lines = table.concat(child:lines(), '\n')
    child:cmd('bwipeout!')
    return lines
  end
  local before = report()
  T.has(before, 'it does not run yet')
  child:edit('a.txt')
  text = report()
  for _, line in ipairs({
    'OK version 0.',
    "OK 'autoread' is on",
    "OK 'encoding' is utf-8",
    Child.sidecar() .. ', version ',
    '(from the option `cmd`)',
    'OK it runs, and speaks version 1 of the protocol',
    'OK edits of agents are checked by the strict handler',
    'OK positions are counted in utf-8',
    'OK agents may write below ' .. child.dir,
    'OK but not what matches **/.git/**',
    'OK 1 shared with agents',
  }) do
    T.has(text, line)
  end
  T.ok(not text:find('ERROR') and not text:find('WARNING'), text)
  child:cmd('set noautoread')
  child:lua([[
    require('abreast.client').lsp_client().handlers['workspace/applyEdit'] = function() end
  ]])
  child:type('ox<Esc>')
  T.write(child.dir .. '/a.txt', 'newer\n')
  child:session()
  child:must('read', { path = 'a.txt' })
  text = report()
  T.has(text, "WARNING 'autoread' is off")
  T.has(text, 'ERROR another plugin replaced the handler of workspace/applyEdit')
  T.has(text, 'changed on disk and in the buffer')
  for containment, words in pairs({
    readOnly = 'OK agents may write nothing',
    none = 'WARNING agents may write everywhere',
  }) do
    child = Child.start({
      files = { ['a.txt'] = 'one\n' },
      options = ('{ server = { containment = %q } }'):format(containment),
    })
    child:edit('a.txt')
    text = report()
    T.has(text, words)
    T.ok(not text:find('write below'), text)
  end
  local missing = Child.start({ options = '{ cmd = "/nonexistent" }' })
  missing:cmd('checkhealth abreast')
  T.has(table.concat(missing:lines(), '\n'), 'ERROR the option `cmd` names "/nonexistent"')
end)

test('the help has its tags, and every link in it leads somewhere', function()
  local dir = T.workspace()
  vim.fn.system({ 'cp', '-r', Child.plugin .. '/doc', dir })
  vim.cmd.helptags(dir .. '/doc')
  local tags = {}
  for line in io.lines(dir .. '/doc/tags') do
    tags[line:match('^[^\t]+')] = true
  end
  for _, tag in ipairs({ 'abreast', ':Abreast', 'abreast-options', 'AbreastEdit' }) do
    T.ok(tags[tag], 'no tag ' .. tag)
  end
  for line in io.lines(dir .. '/doc/abreast.txt') do
    T.ok(#line <= 79 or vim.fn.strdisplaywidth(line) <= 79, 'too long: ' .. line)
    for link in line:gmatch('|([^%s|]+)|') do
      local known = tags[link] or #vim.fn.getcompletion(link, 'help') > 0
      T.ok(known, 'a link to nowhere: ' .. link)
    end
  end
  local child = Child.start()
  child:cmd('helptags ' .. dir .. '/doc | set runtimepath+=' .. dir)
  child:cmd('help abreast')
  T.has(child:lua('return vim.api.nvim_buf_get_name(0)'), 'abreast.txt')
end)

test('every option, command, event and function is in the help', function()
  local help = T.read(Child.plugin .. '/doc/abreast.txt')
  local child = Child.start()
  local names = child:lua([[
    local names = {}
    for name in pairs(require('abreast')) do table.insert(names, 'abreast.' .. name .. '(') end
    local session = getmetatable(require('abreast').open_session({ sessionId = 'x' }))
    for _, name in ipairs({ 'read', 'edit', 'write', 'apply', 'ledger', 'observe', 'forget',
      'flush', 'digest', 'close', 'cancel', 'request', 'on_stale', 'on_ledger' }) do
      assert(session[name], name)
      table.insert(names, 'Session:' .. name .. '(')
    end
    local config = require('abreast.config').get()
    for name in pairs(config) do table.insert(names, name) end
    for name in pairs(config.highlight) do table.insert(names, name) end
    vim.list_extend(names, { 'cmd', 'env', 'root', 'attach' })
    return names
  ]])
  vim.list_extend(names, {
    ':Abreast status',
    ':Abreast log',
    ':Abreast restart',
    ':Abreast stop',
    ':Abreast clear',
    'AbreastEdit',
    'AbreastStale',
    'AbreastSession',
    'AbreastSign',
    'AbreastText',
  })
  for _, name in ipairs(names) do
    T.has(help, name)
  end
end)

test('a plugin manager may load it late, and call setup', function()
  local child = Child.start({
    files = { ['a.txt'] = 'one\n' },
    plugin = false,
    args = { '--cmd', 'set noloadplugins', 'a.txt' },
  })
  child:lua(
    [[
    local plugin, sidecar = ...
    vim.opt.runtimepath:append(plugin)
    vim.cmd.source(plugin .. '/plugin/abreast.lua')
    require('abreast').setup({ cmd = sidecar, highlight = { sign = '!' } })
  ]],
    Child.plugin,
    Child.sidecar()
  )
  child:ready()
  child:shared()
  child:session()
  child:in_step()
  child:lua([[require('abreast').setup({ highlight = { sign = '?' } })]])
end)

test('a package in `pack/` works with `:packadd`, through a symlink', function()
  local pack = T.workspace()
  vim.fn.mkdir(pack .. '/pack/abreast/opt', 'p')
  vim.uv.fs_symlink(Child.plugin, pack .. '/pack/abreast/opt/abreast')
  local child = Child.start({
    files = { ['a.txt'] = 'one\n' },
    plugin = false,
    args = { '--cmd', 'set packpath^=' .. pack, '+packadd abreast', 'a.txt' },
  })
  if vim.fn.glob(Child.repository .. '/target/*/abreast') == '' then
    child:lua([[require('abreast').setup({ cmd = ... })]], Child.sidecar())
  end
  child:ready()
  child:shared()
end)

test('the demo comes to its end, beside somebody who types', function()
  local child = Child.start({
    files = { ['shopping.py'] = T.read(Child.plugin .. '/demo/shopping.py') },
    env = { ABREAST_DEMO_PAUSE_MS = '20' },
  })
  child:edit('shopping.py')
  child:cmd('luafile ' .. Child.plugin .. '/demo/agent.lua')
  child:type('Gofresh = [')
  T.wait('the agent of the demo', function()
    child:type('1, ')
    vim.uv.sleep(30)
    return child:lua('return vim.g.abreast_demo'):find('the agent is done: %d+ edits')
  end, 30000)
  child:type(']<Esc>')
  local text = child:text()
  T.has(text, 'def cheapest(prices: list[float]):\n    """Return what is cheapest."""\n')
  local _, n_docs = text:gsub('"""Return', '')
  eq(n_docs, 8)
  T.has(text, '\nfresh = [1, 1')
end)

test('what stops all LSP clients stops it, and the next file starts it again', function()
  local child = Child.start({ files = { ['a.txt'] = 'one\n', ['b.txt'] = 'x\n' } })
  child:edit('a.txt')
  for _, force in ipairs({ false, true }) do
    child:lua('vim.lsp.stop_client(vim.lsp.get_clients(), ...)', force)
    wait_for_state(child, 'stopped')
    eq(child:messages(), '')
    child:edit('b.txt')
    child:cmd('bwipeout')
  end
end)
