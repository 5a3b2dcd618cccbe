-- What the person in front of the editor sees and does. R6, R12 of the requirements.

local Child = require('support.child')
local T = require('support.harness')

local test, eq = T.test, T.eq

--- @param options? ChildOptions
--- @return Child
local function start(options)
  local child = Child.start(vim.tbl_extend('force', {
    files = { ['a.txt'] = 'one\ntwo\nthree\n' },
  }, options or {}))
  child:edit('a.txt')
  child:session()
  child:must('read', { path = 'a.txt' })
  return child
end

--- @param child Child
--- @param old string
--- @param new string
local function edit(child, old, new)
  child:must('read', { path = 'a.txt' })
  child:must('edit', { path = 'a.txt', oldString = old, newString = new })
  child:lua('return 1')
end

test('three undos walk back typing, agent, typing', function()
  local child = start()
  child:type('obefore')
  edit(child, 'three', 'agent')
  child:type(' after<Esc>')
  local states = { child:lines() }
  for _ = 1, 3 do
    child:type('u')
    table.insert(states, child:lines())
  end
  eq(states, {
    { 'one', 'before after', 'two', 'agent' },
    { 'one', 'before', 'two', 'agent' },
    { 'one', 'before', 'two', 'three' },
    { 'one', 'two', 'three' },
  })
  for _ = 1, 3 do
    child:type('<C-r>')
  end
  eq(child:lines(), states[1])
  child:in_step()
end)

test('an edit in the very line of the insert is a step of its own', function()
  local child = start()
  child:type('jA before')
  edit(child, 'two', 'TWO')
  child:type(' after<Esc>')
  eq(child:lines()[2], 'TWO before after')
  local states = {}
  for idx = 1, 3 do
    child:type('u')
    states[idx] = child:lines()[2]
  end
  eq(states, { 'TWO before', 'two before', 'two' })
end)

test('several edits of one call are one step', function()
  local child = start()
  child:must('apply', {
    changes = {
      { kind = 'edit', path = 'a.txt', oldString = 'one', newString = '1' },
      { kind = 'edit', path = 'a.txt', oldString = 'three', newString = '3' },
    },
  })
  eq(child:lines(), { '1', 'two', '3' })
  child:type('u')
  eq(child:lines(), { 'one', 'two', 'three' })
end)

test('the dot, registers, marks and a macro being recorded are not disturbed', function()
  local child = start()
  child:type('qqA!')
  edit(child, 'three', 'agent\nagent')
  child:type('?<Esc>q')
  eq(child:lua([[return vim.fn.getreg('q')]]), 'A!?\27')
  child:type('j.')
  eq(child:lines(), { 'one!?', 'two!?', 'agent', 'agent' })
  eq(child:lua([[return vim.fn.getpos("'.")[2] ]]), 2)
end)

--- @param child Child
--- @return table[] { row, sign, text }
local function marks(child)
  return child:lua([[
    local namespace = vim.api.nvim_create_namespace('abreast')
    local found = {}
    for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, namespace, 0, -1, { details = true })) do
      local details = mark[4]
      table.insert(found, {
        mark[2] + 1,
        details.sign_text and vim.trim(details.sign_text) or '',
        details.virt_text and details.virt_text[1][1] or '',
      })
    end
    return found
  ]])
end

test('changed lines have signs and the name of the agent, until they are cleared', function()
  local child = start()
  edit(child, 'two\nthree', '2\n3\n4')
  local expected = { { 2, '▎', '' }, { 3, '▎', '' }, { 4, '▎', '' }, { 2, '', '  bot' } }
  local function sorted(list)
    table.sort(list, function(one, other)
      return vim.inspect(one) < vim.inspect(other)
    end)
    return list
  end
  eq(sorted(marks(child)), sorted(expected))
  child:type('ggOabove<Esc>')
  eq(#marks(child), 4)
  child:cmd('Abreast clear')
  eq(marks(child), {})
  edit(child, '3\n', '')
  eq(sorted(marks(child)), sorted({ { 4, '▎', '' }, { 4, '', '  bot deleted here' } }))
end)

test('marks go by themselves after a while', function()
  local child = start({ options = '{ highlight = { clear_after_ms = 50 } }' })
  edit(child, 'two', '2')
  T.wait('they are gone', function()
    return #marks(child) == 0
  end)
end)

test('a mark goes when its line is no longer as the agent left it', function()
  local child = start()
  local function wait_for(expected)
    T.wait(('%d marks'):format(expected), function()
      return #marks(child) == expected
    end)
  end
  edit(child, 'two', '2')
  child:type('Goelsewhere<Esc>')
  wait_for(2)
  child:type('uu')
  eq(child:lines(), { 'one', 'two', 'three' })
  wait_for(0)
  for _, deleted in ipairs({ 'one\n', 'two\n' }) do
    edit(child, deleted, '')
    wait_for(2)
    child:type('u')
    wait_for(0)
  end
  edit(child, 'two\nthree', '2\n3')
  child:type('2GAx<Esc>')
  wait_for(1)
  child:cmd('Abreast clear')
  edit(child, '3', '4')
  wait_for(2)
end)

test('marks can be switched off, and their groups linked', function()
  local child = start({ options = '{ highlight = { enabled = false } }' })
  edit(child, 'two', '2')
  eq(marks(child), {})
  child = start({ options = '{ highlight = { sign = "", virtual_text = false } }' })
  edit(child, 'two', '2')
  eq(marks(child), {})
  eq(
    child:lua([[return vim.api.nvim_get_hl(0, { name = 'AbreastSign' }).link]]),
    'DiagnosticSignInfo'
  )
  child:cmd('highlight link AbreastSign Error')
  eq(child:lua([[return vim.api.nvim_get_hl(0, { name = 'AbreastSign' }).link]]), 'Error')
end)

test('the status line tells sessions and stale files', function()
  local child = start()
  local function status(expected)
    T.wait('the status ' .. expected, function()
      return child:lua([[return require('abreast').statusline()]]) == expected
    end)
  end
  status('abreast:1')
  child:type('Ox<Esc>')
  status('abreast:1!1')
  child:type('u')
  status('abreast:1')
  child:lua('sessions.agent:close()')
  status('abreast')
end)

test(':Abreast status names the sidecar, the workspace and the sessions', function()
  local child = start()
  child:cmd('Abreast')
  T.wait('the status', function()
    return child:messages():find('session', 1, true)
  end)
  local messages = child:messages()
  T.has(messages, 'abreast: running')
  T.has(messages, Child.sidecar())
  T.has(messages, 'workspace  ' .. child.dir)
  T.has(messages, 'documents  1')
  T.has(messages, 'session    bot: 1 file seen, 0 of them stale')
end)

test(':Abreast log shows what happened, and no content', function()
  local child = start()
  child:cmd('setlocal nomodifiable')
  child:call('edit', { path = 'a.txt', oldString = 'two', newString = 'secret' })
  child:call('apply', {
    changes = {
      { kind = 'edit', path = 'a.txt', oldString = 'two', newString = 'secret' },
      { kind = 'edit', path = 'unseen.txt', oldString = 'two', newString = 'secret' },
    },
  })
  child:cmd('Abreast log')
  local lines = table.concat(child:lines(), '\n')
  T.has(lines, 'info  the sidecar runs, version ')
  T.has(lines, 'info  bot: edit of a.txt failed: FS_READ_ONLY')
  T.has(lines, 'info  bot: apply of unseen.txt failed: FS_NOT_OBSERVED')
  T.ok(not lines:find('secret') and not lines:find('two'), lines)
  eq(child:lua('return { vim.bo.modifiable, vim.bo.buftype }'), { false, 'nofile' })
end)

test(':Abreast completes its subcommands, and names them where one is wrong', function()
  local child = start()
  eq(child:lua([[return vim.fn.getcompletion('Abreast ', 'cmdline')]]), {
    'clear',
    'log',
    'restart',
    'status',
    'stop',
  })
  eq(child:lua([[return vim.fn.getcompletion('Abreast st', 'cmdline')]]), { 'status', 'stop' })
  child:type(':Abreast nonsense<CR>')
  T.has(child:messages(), 'there is no `:Abreast nonsense`; there is: clear, log, restart')
end)

test(
  'insert, visual, command line, terminal and a second window: edits land beside them',
  function()
    for _, keys in ipairs({ 'Ax', 'v', '<C-v>', 'V', ':', '/', 'R', 'qa', '<C-w>s', 'q:' }) do
      local child = start()
      -- Without previews, a command line disturbs nobody.
      child:cmd('set inccommand=')
      child:type(keys)
      local name = child.dir .. '/a.txt'
      child:must('read', { path = name })
      child:must('edit', { path = name, oldString = 'three', newString = 'agent' })
      eq(child:lines(1)[3], 'agent', 'after ' .. keys)
      child:type('<Esc>')
    end
  end
)

test('while Neovim waits for a key: a read says that it is behind', function()
  local child = start()
  child:type('ox<Esc>')
  child:lua([[
    sessions.agent:read({ path = 'a.txt' }, function(_, result) _G.read = result end)
    -- Typed keys come before what the sidecar asks.
    vim.api.nvim_input('r')
  ]])
  T.wait('Neovim is blocked', function()
    return child:mode().blocking
  end)
  vim.uv.sleep(300)
  child:type('y')
  local read = T.wait('the answer', function()
    return child:lua('return _G.read or false')
  end)
  eq(read.behind, true)
  child:in_step()
end)

test('while Neovim waits for a key: an edit times out, and does not land late', function()
  local child = start()
  child:lua([[
    local edit = { path = 'a.txt', oldString = 'two', newString = '2' }
    sessions.agent:edit(edit, function(err) _G.code = err and err.code or 'done' end)
    vim.api.nvim_input('r')
  ]])
  T.wait('Neovim is blocked', function()
    return child:mode().blocking
  end)
  -- 2 s for the barrier, 5 s for the edit.
  vim.uv.sleep(7300)
  child:type('<Esc>')
  eq(
    T.wait('the answer', function()
      return child:lua('return _G.code or false')
    end),
    'FS_EDITOR_TIMEOUT'
  )
  eq(child:lines(), { 'one', 'two', 'three' })
  -- The late refusal settles what became of it.
  edit(child, 'two', '2')
  eq(child:lines(), { 'one', '2', 'three' })
end)

test('a stock client gets an error instead of a stale edit', function()
  local child = Child.start({ plugin = false, files = { ['a.txt'] = 'one\ntwo\n' } })
  child:cmd('edit a.txt')
  child:lua(
    [[
    local id = vim.lsp.start({ name = 'stock', cmd = { (...) }, root_dir = vim.fn.getcwd() })
    client = vim.lsp.get_client_by_id(id)
    function ask(method, params)
      params.sessionId = 's'
      local answer = client:request_sync('abreast/' .. method, params, 5000)
      return answer.err and answer.err.data.code or 'done'
    end
  ]],
    Child.sidecar()
  )
  T.wait('the client', function()
    return child:lua('return client.initialized or false')
  end)
  eq(child:lua([[return ask('openSession', {})]]), 'done')
  eq(child:lua([[return ask('read', { path = 'a.txt' })]]), 'done')
  local edit_it = [[return ask('edit', { path = 'a.txt', oldString = 'two', newString = '2' })]]
  eq(child:lua(edit_it), 'FS_UNSUPPORTED_CLIENT')
  child:type('ccONE<Esc>')
  T.ok(child:lua(edit_it) ~= 'done', 'a stale edit is an error')
  eq(child:lines(), { 'ONE', 'two' })
end)
