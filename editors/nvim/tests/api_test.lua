-- What plugins that host agents use.

local Child = require('support.child')
local T = require('support.harness')

local test, eq = T.test, T.eq

--- @param options? ChildOptions
--- @return Child
local function start(options)
  local child = Child.start(vim.tbl_extend('force', {
    files = { ['a.txt'] = 'one\ntwo\nthree\n', ['b.txt'] = 'uno\ndos\n' },
  }, options or {}))
  child:edit('a.txt')
  return child
end

--- Runs `code` in a coroutine of the child and returns what it returns.
--- @param child Child
--- @param code string
--- @return any
local function run(child, code)
  child:lua(([[
    _G.returned = nil
    require('abreast').run(function()
      local abreast = require('abreast')
      local session = _G.session
      _G.returned = { (function() %s end)() }
    end)
  ]]):format(code))
  return unpack(T.wait('the coroutine', function()
    return child:lua('return _G.returned or false')
  end))
end

test('coroutine style: results, and nil with the error', function()
  local child = start()
  local read, edited, refusal = unpack(run(
    child,
    [[
    session = abreast.open_session({ label = 'bot' })
    local read = assert(session:read({ path = 'a.txt' }))
    local edit = { path = 'a.txt', oldString = 'two', newString = '2' }
    local edited = assert(session:edit(edit))
    local result, err = session:edit(edit)
    assert(result == nil)
    return { read.text, edited.files[1].operation, { err.code, tostring(err), err.data.code } }
  ]]
  ))
  eq({ read, edited }, { 'one\ntwo\nthree\n', 'update' })
  eq({ refusal[1], refusal[3] }, { 'FS_EDIT_NOT_FOUND', 'FS_EDIT_NOT_FOUND' })
  T.has(refusal[2], 'FS_EDIT_NOT_FOUND: ')
end)

test('callback style: never called before the call returns', function()
  local child = start()
  child:session()
  local order = child:lua([[
    _G.order = {}
    local session = sessions.agent
    session:read({ path = 'a.txt' }, function(err, result)
      table.insert(_G.order, err and err.code or 'read')
    end)
    session:edit({ path = 'a.txt', oldString = '\255', newString = '' }, function(err)
      table.insert(_G.order, err.code .. ': ' .. err.message)
    end)
    session:close(function() table.insert(_G.order, 'closed') end)
    session:read({ path = 'a.txt' }, function(err) table.insert(_G.order, err.code) end)
    return vim.deepcopy(_G.order)
  ]])
  eq(order, {})
  local all = T.wait('all answers', function()
    local list = child:lua('return _G.order')
    return #list == 4 and list
  end)
  table.sort(all, function(one, other)
    return one:lower() < other:lower()
  end)
  -- A session may be closed before a call that waits is begun.
  all = vim.tbl_filter(function(code)
    return code ~= 'FS_ABORTED' and code ~= 'read'
  end, all)
  eq(all, {
    'closed',
    'INVALID_PARAMS: oldString is not UTF-8; send text, not bytes',
    'UNKNOWN_SESSION',
  })
end)

test('neither a callback nor a coroutine: the error says what to do', function()
  local child = start()
  child:session()
  local err =
    child:lua([[return select(2, pcall(sessions.agent.read, sessions.agent, { path = 'a' }))]])
  T.has(err, 'pass a callback, or call this in a coroutine')
end)

test('an error in a coroutine or a callback is shown, and nothing hangs', function()
  local child = start()
  child:lua([[
    require('abreast').run(function()
      session = require('abreast').open_session()
      session:read({ path = 'a.txt' })
      error('mine')
    end)
  ]])
  T.wait('the message', function()
    return child:messages():find('mine', 1, true)
  end)
  T.has(child:messages(), 'stack traceback')
end)

test('a session can be used before the sidecar runs, and calls keep their order', function()
  local child = Child.start({ files = { ['a.txt'] = 'one\n' } })
  child:session()
  local read = child:begin('read', { path = 'a.txt' })
  local edit = child:begin('edit', { path = 'a.txt', oldString = 'one', newString = '1' })
  eq(select(2, child:outcome(read)), nil)
  eq(select(2, child:outcome(edit)), nil)
  eq(T.read(child.dir .. '/a.txt'), '1\n')
end)

test('apply changes open and closed files: all, or none', function()
  local child = start()
  child:session()
  child:must('read', { path = 'a.txt' })
  child:must('read', { path = 'b.txt' })
  local changes = {
    { kind = 'edit', path = 'a.txt', oldString = 'two', newString = '2' },
    { kind = 'edit', path = 'b.txt', oldString = 'missing', newString = '2' },
    { kind = 'write', path = 'new.txt', content = 'new\n' },
  }
  child:refused('FS_EDIT_NOT_FOUND', 'apply', { changes = changes })
  eq(child:lines(), { 'one', 'two', 'three' })
  changes[2].oldString = 'dos'
  local result = child:must('apply', { changes = changes, label = 'rename' })
  eq(#result.files, 3)
  eq({ child:lines()[2], T.read(child.dir .. '/b.txt'), T.read(child.dir .. '/new.txt') }, {
    '2',
    'uno\n2\n',
    'new\n',
  })
end)

test('two open documents in one call, and one that is stale keeps both', function()
  local child = start()
  child:cmd('set hidden')
  child:edit('b.txt')
  child:session()
  child:must('read', { path = 'a.txt' })
  child:must('read', { path = 'b.txt' })
  local changes = {
    { kind = 'edit', path = 'a.txt', oldString = 'two', newString = '2' },
    { kind = 'edit', path = 'b.txt', oldString = 'dos', newString = '2' },
  }
  child:type('Ohuman')
  child:refused('FS_STALE_VERSION', 'apply', { changes = changes })
  eq(child:lines(child:lua('return vim.fn.bufnr("a.txt")')), { 'one', 'two', 'three' })
  child:must('read', { path = 'b.txt' })
  child:must('apply', { changes = changes })
  eq(child:lines(), { 'human', 'uno', '2' })
  eq(child:lines(child:lua('return vim.fn.bufnr("a.txt")')), { 'one', '2', 'three' })
end)

test('ledger, observe, forget', function()
  local child = start()
  child:session()
  eq(child:must('ledger').entries, {})
  child:must('read', { path = 'a.txt' })
  local entry = child:must('ledger', { path = 'a.txt' }).entries[1]
  eq({ entry.state, entry.status }, { 'present', 'fresh' })
  local _, err = child:call('observe', { path = 'b.txt' })
  if err and err.code == 'METHOD_NOT_FOUND' then
    T.skip('the sidecar does not know abreast/observe yet')
  end
  child:must('edit', { path = 'b.txt', oldString = 'dos', newString = '2' })
  eq(child:must('forget', { paths = { 'b.txt' } }).forgotten, 1)
  child:refused('FS_NOT_OBSERVED', 'edit', { path = 'b.txt', oldString = '2', newString = '3' })
end)

test('every call has its method, and those of later versions pass through', function()
  local child = Child.start({ fake = true, files = { ['a.txt'] = 'x\n' } })
  child:edit('a.txt')
  child:session()
  child:lua([[
    for _, name in ipairs({ 'read', 'edit', 'write', 'apply', 'ledger', 'observe', 'forget',
      'flush', 'digest', 'later' }) do
      fake.answers['abreast/' .. name] = function(params)
        return { method = name, params = params, gone = vim.NIL, list = {} }
      end
    end
  ]])
  for _, name in ipairs({ 'read', 'edit', 'write', 'apply', 'ledger', 'observe', 'forget' }) do
    local result = run(child, ([[return _G.sessions.agent:%s({ x = 1 })]]):format(name))
    local id = child:lua('return sessions.agent.id')
    eq(result, { method = name, params = { x = 1, sessionId = id }, list = {} })
  end
  eq(child:must('flush').method, 'flush')
  eq(child:must('digest').method, 'digest')
  eq(child:must('later', { sessionId = 'other' }).params, { sessionId = 'other' })
  eq(child:must('abreast/later').method, 'later')
  local err = child:refused('METHOD_NOT_FOUND', 'unheard')
  T.has(err.message, 'this sidecar does not have `abreast/unheard` (yet)')
  eq(run(child, [[return abreast.request('sessions').sessions]]), {})
end)

test('a call that is cancelled before its turn changes nothing', function()
  local child = start()
  child:session()
  child:must('read', { path = 'a.txt' })
  child:lua([[
    _G.codes = {}
    local session = sessions.agent
    local edit = { path = 'a.txt', oldString = 'two', newString = '2' }
    local request = session:edit(edit, function(err)
      table.insert(_G.codes, err and err.code or 'done')
    end)
    request:cancel()
  ]])
  T.wait('the answer', function()
    return child:lua('return #_G.codes == 1')
  end)
  eq(child:lua('return _G.codes'), { 'FS_ABORTED' })
  eq(child:lines(), { 'one', 'two', 'three' })
  child:in_step()
end)

test('session:cancel gives up all of its calls, also in coroutines', function()
  local child = Child.start({ fake = true, files = { ['a.txt'] = 'x\n' } })
  child:edit('a.txt')
  child:session()
  child:lua([[
    fake.answers['abreast/read'] = 'never'
    _G.codes = {}
    for _ = 1, 3 do
      require('abreast').run(function()
        local _, err = sessions.agent:read({ path = 'a.txt' })
        table.insert(_G.codes, err.code)
      end)
    end
  ]])
  T.wait('the calls are out', function()
    return child:lua([[
      return #vim.tbl_filter(function(entry) return entry[2] == 'abreast/read' end, fake.log) == 3
    ]])
  end)
  child:lua('sessions.agent:cancel()')
  eq(
    child:lua([[
    return #vim.tbl_filter(function(entry) return entry[2] == '$/cancelRequest' end, fake.log)
  ]]),
    3
  )
end)

test('on_stale, on_ledger and AbreastStale tell what the human changed', function()
  local child = start()
  child:session()
  child:lua([[
    _G.told = {}
    local session = sessions.agent
    _G.off = session:on_stale(function(entries)
      table.insert(_G.told, 'stale ' .. entries[1].path .. ' ' .. entries[1].changedBy[1].kind)
    end)
    session:on_ledger(function(entries)
      table.insert(_G.told, 'ledger ' .. entries[1].status)
    end)
    vim.api.nvim_create_autocmd('User', {
      pattern = 'AbreastStale',
      callback = function(args)
        table.insert(_G.told, 'event ' .. args.data.sessionId .. ' ' .. #args.data.entries)
      end,
    })
  ]])
  local id = child:lua('return sessions.agent.id')
  child:must('read', { path = 'a.txt' })
  child:type('Ox<Esc>')
  local function wait_for(n)
    return T.wait('the listeners', function()
      local told = child:lua('return _G.told')
      table.sort(told)
      return #told == n and told
    end)
  end
  eq(wait_for(3), { 'event ' .. id .. ' 1', 'ledger stale', 'stale a.txt human' })
  child:type('u')
  eq(wait_for(4)[3], 'ledger stale')
  eq(child:lua('return _G.told[4]'), 'ledger fresh')
  child:lua('_G.off()')
  child:type('<C-r>')
  wait_for(6)
end)

test('on_stale tells of a closed file that somebody changed on disk', function()
  local child = start({ files = { ['a.txt'] = 'one\n', ['closed.txt'] = 'one\n' } })
  child:session()
  child:lua([[
    _G.told = {}
    sessions.agent:on_stale(function(entries) vim.list_extend(_G.told, entries) end)
  ]])
  child:must('read', { path = 'closed.txt' })
  child:must('edit', { path = 'closed.txt', oldString = 'one', newString = '1' })
  T.write(child.dir .. '/closed.txt', 'other\n')
  local told = T.wait('the listener', function()
    local list = child:lua('return _G.told')
    return #list > 0 and list
  end)
  eq({ #told, told[1].path, told[1].changedBy }, { 1, 'closed.txt', { { kind = 'disk' } } })
end)

test('nothing is written outside of the workspace, nor into .git', function()
  local child = Child.start({ files = { ['p/a.txt'] = 'one\n', ['p/.git/config'] = 'x\n' } })
  child:cmd('cd p')
  child:edit('a.txt')
  child:session()
  child:refused('FS_SANDBOX_DENIED', 'write', { path = '/abreast-nowhere/x', content = 'y\n' })
  child:must('read', { path = '.git/config' })
  child:refused('FS_SANDBOX_DENIED', 'write', { path = '.git/config', content = 'y\n' })
  eq(T.read(child.dir .. '/p/.git/config'), 'x\n')
end)

test('a session is not told of what it does itself', function()
  local child = start()
  child:session()
  child:lua([[
    _G.told, _G.status = {}, {}
    sessions.agent:on_ledger(function(entries)
      vim.list_extend(_G.told, entries)
    end)
    vim.api.nvim_create_autocmd('User', {
      pattern = 'AbreastStale',
      callback = function(args) vim.list_extend(_G.told, args.data.entries) end,
    })
    -- An editor that takes its time between the change and the answer.
    local client = require('abreast.client')
    local handlers = client.lsp_client().handlers
    local apply = handlers['workspace/applyEdit']
    handlers['workspace/applyEdit'] = function(...)
      local result = apply(...)
      local co = coroutine.running()
      vim.defer_fn(function() coroutine.resume(co) end, 150)
      coroutine.yield()
      return result
    end
  ]])
  child:must('read', { path = 'a.txt' })
  for idx = 1, 3 do
    child:must('edit', {
      path = 'a.txt',
      oldString = idx == 1 and 'two' or 'two' .. (idx - 1),
      newString = 'two' .. idx,
    })
  end
  -- Somebody else's change in the meantime is told all the same.
  local call = child:begin('edit', { path = 'a.txt', oldString = 'two3', newString = 'two4' })
  T.wait('the edit', function()
    return child:lines()[2] == 'two4'
  end)
  eq(child:lua('return _G.told'), {})
  child:type('GAx<Esc>')
  local result, err = child:outcome(call)
  T.ok(result, vim.inspect(err))
  local told = T.wait('what the human did', function()
    local list = child:lua('return _G.told')
    return #list > 0 and list
  end)
  eq({ told[1].status, told[1].changedBy }, { 'stale', { { kind = 'human' } } })
end)

test('AbreastEdit tells of edits in buffers and on disk, AbreastSession of sessions', function()
  local child = start()
  child:lua([[
    _G.told = {}
    vim.api.nvim_create_autocmd('User', {
      pattern = { 'AbreastEdit', 'AbreastSession' },
      callback = function(args) table.insert(_G.told, args.data) end,
    })
  ]])
  child:session('agent', '{ sessionId = "s1", label = "bot" }')
  child:must('read', { path = 'a.txt' })
  child:must('edit', { path = 'a.txt', oldString = 'two\n', newString = '2\nzwei\n' })
  child:must('write', { path = 'new.txt', content = 'x\ny\n' })
  child:lua('sessions.agent:close()')
  local told = T.wait('the events', function()
    local list = child:lua('return _G.told')
    return #list == 4 and list
  end)
  eq(told[1], { kind = 'opened', sessionId = 's1', label = 'bot' })
  local hunks = { { first = 2, last = 3, n_more = 1 } }
  eq(told[2], {
    via = 'editor',
    uri = vim.uri_from_fname(child.dir .. '/a.txt'),
    path = child.dir .. '/a.txt',
    bufnr = 1,
    sessionId = 's1',
    label = 'bot',
    hunks = hunks,
  })
  eq({ told[3].via, told[3].path, told[3].label, told[3].hunks }, {
    'disk',
    'new.txt',
    'bot',
    { { first = 1, last = 2, n_more = 2 } },
  })
  eq(told[4], { kind = 'closed', sessionId = 's1', label = 'bot' })
end)

test('an id that is open already is refused at once', function()
  local child = start()
  child:session('agent', '{ sessionId = "s1" }')
  child:must('read', { path = 'a.txt' })
  local err = child:lua([[
    return select(2, pcall(require('abreast').open_session, { sessionId = 's1' }))
  ]])
  T.has(err, 'the session "s1" is open already')
  child:lua('sessions.agent:close()')
  child:session('again', '{ sessionId = "s1" }')
  local _, refusal =
    child:call('edit', { path = 'a.txt', oldString = 'two', newString = '2' }, 'again')
  eq(refusal.code, 'FS_NOT_OBSERVED')
end)

test('wrong session parameters are an error of every call', function()
  local child = start()
  child:session('agent', '{ options = { freshness = "always" } }')
  local err = child:refused('INVALID_PARAMS', 'read', { path = 'a.txt' })
  T.has(err.message, 'freshness')
  child:session('empty', '{ options = {}, model = {} }')
  local _, refusal = child:call('read', { path = 'a.txt' }, 'empty')
  eq(refusal, nil)
end)

test('relative paths are relative to the directory of the session', function()
  local child = start({ files = { ['sub/a.txt'] = 'sub\n', ['a.txt'] = 'x\n' } })
  child:session('agent', ('{ cwd = %q }'):format(child.dir .. '/sub'))
  eq(child:must('read', { path = 'a.txt' }).text, 'sub\n')
end)

test('the example of the help runs as it is', function()
  local help = T.read(Child.plugin .. '/doc/abreast.txt')
  local example = help:match('%*abreast%-example%*.->lua\n(.-)\n<')
  T.ok(example, 'no example')
  local n_lines = select(2, example:gsub('\n', '')) + 1
  T.ok(n_lines <= 45, ('%d lines'):format(n_lines))
  local child =
    start({ files = { ['a.txt'] = 'x\n', ['todo.txt'] = 'TODO: one\nrest\nTODO: two\n' } })
  child:edit('todo.txt')
  child:lua(example)
  T.wait('the agent of the example', function()
    return child:text() == 'DONE: one\nrest\nDONE: two\n'
  end)
  child:session()
  child:in_step()
end)

test('abreast/save writes, tells what format-on-save did, and asks nobody', function()
  local child = Child.start({ fake = true, files = { ['a.txt'] = 'one\n', ['b.txt'] = 'x\n' } })
  child:edit('a.txt')
  child:lua([[
    vim.api.nvim_create_autocmd('BufWritePre', {
      pattern = 'a.txt',
      callback = function() vim.cmd('silent %s/\\s\\+$//e') end,
    })
    function _G.save(...)
      local id, uris = #fake.replies + 1, vim.tbl_map(vim.uri_from_fname, { ... })
      fake.ask(id, 'abreast/save', { uris = uris })
      vim.wait(1000, function() return fake.replies[id] ~= nil end)
      return fake.replies[id]
    end
  ]])
  local path, uri = child.dir .. '/a.txt', vim.uri_from_fname(child.dir .. '/a.txt')
  child:type('Atrailing   <Esc>')
  local result = child:lua('return save(...)', path)
  eq(result.failed, {})
  eq(result.saved[1].uri, uri)
  local formatted = result.saved[1].formatted
  T.ok(formatted.to > formatted.from, vim.inspect(formatted))
  eq(T.read(path), 'onetrailing\n')
  eq(child:lua('return save(...)', path), { saved = { { uri = uri } }, failed = {} })
  child:type('A!<Esc>')
  result = child:lua('return save(...)', path)
  eq(result.saved[1].formatted, nil)
  child:type('A!<Esc>')
  T.write(path, 'newer\n')
  local failed = child:lua('return save(...)', path).failed[1]
  eq(failed, { uri = uri, reason = 'the file on disk is newer than the buffer' })
  eq(T.read(path), 'newer\n')
  child:cmd('write!')
  child:type('A!<Esc>')
  child:cmd('setlocal readonly')
  eq(child:lua('return save(...)', path).failed[1].reason, 'the buffer is read-only')
  eq(child:lua('return save(...)', child.dir .. '/b.txt').failed[1].reason, 'not open')
  child:cmd('setlocal noreadonly')
  child:lua([[vim.api.nvim_create_autocmd('BufWritePre', {
    pattern = 'a.txt',
    callback = function() error('no') end,
  })]])
  T.has(child:lua('return save(...)', path).failed[1].reason, 'no')
  eq(child:mode(), { mode = 'n', blocking = false })
end)

test('abreast/sync names what is open, and sends the whole text when asked', function()
  local child = Child.start({ fake = true, files = { ['a.txt'] = 'one\n', ['b.txt'] = 'x\n' } })
  child:edit('a.txt')
  local uri = vim.uri_from_fname(child.dir .. '/a.txt')
  child:lua('fake.log = {} fake.ask(1, "abreast/sync", ...) vim.cmd("normal! oheld back")', {
    uris = { uri, vim.uri_from_fname(child.dir .. '/b.txt') },
    full = { uri },
  })
  local result = T.wait('the reply', function()
    return child:lua('return fake.replies[1] or false')
  end)
  local log = child:lua([[
    return vim.tbl_filter(function(entry) return entry[2] ~= 'abreast/documentState' end, fake.log)
  ]])
  eq(#log, 3)
  T.ok(log[1][3].contentChanges[1].range, 'first what was not sent yet')
  eq(log[2][3].contentChanges, { { text = 'one\nheld back\n' } })
  local version = log[2][3].textDocument.version
  eq(log[3][1], 'reply')
  eq(result, { documents = { [uri] = { instance = 1, version = version, dirty = true } } })
  -- The next keystroke has a version of its own.
  child:type('i!')
  child:lua([[require('abreast.client').get().wire:flush()]])
  local last = child:lua([[
    return vim.tbl_filter(function(entry) return entry[3].contentChanges end, fake.log)
  ]])
  T.ok(last[#last][3].textDocument.version > version, vim.inspect(last))
end)

test('documentState tells what text does not', function()
  local child = Child.start({ fake = true, files = { ['a.txt'] = 'one\r\n' } })
  child:edit('a.txt')
  local function last()
    child:lua('return 1')
    return child:lua([[
      local found
      for _, entry in ipairs(fake.log) do
        if entry[2] == 'abreast/documentState' then found = entry[3] end
      end
      found.uri = nil
      return found
    ]])
  end
  local state =
    { encoding = 'utf-8', eol = 'crlf', dirty = false, readOnly = false, conflict = false }
  local function expect(changes)
    state = vim.tbl_extend('force', state, changes)
    eq(last(), state)
  end
  expect({})
  child:type('ox<Esc>')
  expect({ dirty = true })
  child:cmd('undo')
  expect({ dirty = false })
  child:cmd('setlocal readonly')
  expect({ readOnly = true })
  child:cmd('setlocal noreadonly fileencoding=latin1')
  expect({ readOnly = false, encoding = 'latin1', dirty = true })
  child:cmd('write')
  expect({ dirty = false })
  child:type('ox<Esc>')
  T.write(child.dir .. '/a.txt', 'newer')
  child:cmd('silent! checktime')
  child:lua([[fake.ask(1, 'abreast/sync', { uris = { vim.uri_from_bufnr(0) } })]])
  T.wait('the conflict', function()
    return last().conflict
  end)
  expect({ dirty = true, conflict = true })
end)

test('creating, deleting and renaming are not done behind the back of a buffer', function()
  local child = start()
  child:session()
  local create = { kind = 'write', path = 'a.txt', content = 'new\n' }
  create.guard = { kind = 'createIfAbsent' }
  child:must('read', { path = 'a.txt' })
  child:must('read', { path = 'b.txt' })
  local _, err = child:call('apply', { changes = { create } })
  T.ok(err, 'an existing file survives a create')
  eq(T.read(child.dir .. '/a.txt'), 'one\ntwo\nthree\n')
  child:type('ccONE<Esc>')
  child:must('read', { path = 'a.txt' })
  for _, change in ipairs({
    { kind = 'delete', path = 'a.txt' },
    { kind = 'rename', path = 'a.txt', newPath = 'c.txt' },
    { kind = 'rename', path = 'b.txt', newPath = 'a.txt' },
  }) do
    local _, refusal = child:call('apply', { changes = { change } })
    T.ok(refusal, vim.inspect(change))
    eq(child:lines(), { 'ONE', 'two', 'three' })
    eq(T.read(child.dir .. '/a.txt'), 'one\ntwo\nthree\n')
    eq(T.read(child.dir .. '/b.txt'), 'uno\ndos\n')
  end
  child:must('apply', { changes = { { kind = 'delete', path = 'b.txt' } } })
  eq(T.read(child.dir .. '/b.txt'), nil)
end)
