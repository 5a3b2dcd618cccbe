-- The guard, row by row of what the stock handler gets wrong; with a fake sidecar that can send
-- anything. R2, R4, R6, R9 of the requirements.

local Child = require('support.child')
local T = require('support.harness')

local test, eq = T.test, T.eq

--- @param files? table<string, string>
--- @return Child
local function start(files)
  local child = Child.start({
    fake = true,
    files = files or { ['a.txt'] = 'one\ntwo\nthree\n', ['b.txt'] = 'uno\ndos\n' },
  })
  child:edit('a.txt')
  return child
end

--- What was last sent of a document.
--- @param child Child
--- @param name string
--- @return table
local function sent(child, name)
  return child:lua(
    [[
    local document = require('abreast.client').get().wire.documents[vim.uri_from_fname(...)]
    return { version = document.version, instance = document.instance }
  ]],
    child.dir .. '/' .. name
  )
end

--- @param start_line integer
--- @param start_character integer
--- @param end_line integer
--- @param end_character integer
--- @param new_text string
--- @return table
local function edit(start_line, start_character, end_line, end_character, new_text)
  return {
    range = {
      start = { line = start_line, character = start_character },
      ['end'] = { line = end_line, character = end_character },
    },
    newText = new_text,
  }
end

local n_asked = 0

--- @param child Child
--- @param method string
--- @param params table
--- @return integer
local function begin(child, method, params)
  n_asked = n_asked + 1
  child:lua('fake.ask(...)', n_asked, method, params)
  return n_asked
end

--- @param child Child
--- @param asked integer
--- @return table
local function reply(child, asked)
  return T.wait('the reply', function()
    return child:lua('return fake.replies[...] or false', asked)
  end)
end

--- Parameters of an edit of the documents as they are now.
--- @param child Child
--- @param documents { name: string, edits: table[], old: string[], version?: any }[]
--- @return table
local function params(child, documents)
  local changes, details = {}, {}
  for _, document in ipairs(documents) do
    local uri = vim.uri_from_fname(child.dir .. '/' .. document.name)
    local known = document.version and {} or sent(child, document.name)
    table.insert(changes, {
      textDocument = { uri = uri, version = document.version or known.version },
      edits = document.edits,
    })
    table.insert(details, {
      uri = uri,
      instance = sent(child, document.name).instance,
      oldTexts = document.old,
    })
  end
  return {
    edit = { documentChanges = changes },
    abreast = { documents = details, deadline = os.time() * 1000 + 60000 },
  }
end

--- @param child Child
--- @param it table
--- @return table
local function apply(child, it)
  return reply(child, begin(child, 'workspace/applyEdit', it))
end

--- @param child Child
--- @param code string
--- @param it table
local function refused(child, code, it)
  local before = child:lines()
  local result = apply(child, it)
  eq(result.applied, false)
  eq(result.abreast.code, code, result.failureReason)
  T.ok(type(result.failureReason) == 'string', 'a reason')
  eq(child:lines(), before, 'nothing changed')
end

--- @param child Child
--- @param it table
local function applied(child, it)
  local result = apply(child, it)
  T.ok(result.applied, vim.inspect(result))
end

local two = { edit(1, 0, 1, 3, 'TWO') }

test('an edit for the version at hand is applied', function()
  local child = start()
  applied(child, params(child, { { name = 'a.txt', edits = two, old = { 'two' } } }))
  eq(child:lines(), { 'one', 'TWO', 'three' })
end)

test('an older version is refused, and not called applied', function()
  local child = start()
  child:type('Ox<Esc>u')
  child:lua([[require('abreast.client').get().wire:flush()]])
  T.ok(sent(child, 'a.txt').version > 0, 'the human changed the document')
  refused(
    child,
    'version',
    params(child, {
      { name = 'a.txt', edits = two, old = { 'two' }, version = 0 },
    })
  )
end)

test('a newer version is refused', function()
  local child = start()
  refused(
    child,
    'version',
    params(child, {
      { name = 'a.txt', edits = two, old = { 'two' }, version = 99 },
    })
  )
end)

test('version null is refused', function()
  local child = start()
  refused(
    child,
    'version',
    params(child, {
      { name = 'a.txt', edits = two, old = { 'two' }, version = vim.NIL },
    })
  )
end)

test('a changes map, which has no versions, is refused', function()
  local child = start()
  local uri = vim.uri_from_fname(child.dir .. '/a.txt')
  refused(child, 'error', { edit = { changes = { [uri] = two } } })
end)

test("an edit without the sidecar's own part is refused", function()
  local child = start()
  local it = params(child, { { name = 'a.txt', edits = two, old = { 'two' } } })
  it.abreast = nil
  refused(child, 'instance', it)
end)

test('version 0 is checked like any other: c2, the human types in a fresh document', function()
  local child = start()
  eq(sent(child, 'a.txt').version, 0)
  local it = params(child, { { name = 'a.txt', edits = two, old = { 'two' } } })
  child:type('Ohuman line')
  refused(child, 'version', it)
  eq(child:lines(), { 'human line', 'one', 'two', 'three' })
end)

test('c1: what Neovim still holds back counts', function()
  local child = start()
  child:type('ccone!<Esc>')
  child:lua([[require('abreast.client').get().wire:flush()]])
  local it = params(child, { { name = 'a.txt', edits = two, old = { 'two' } } })
  child:type('Oheld back<Esc>')
  refused(child, 'version', it)
end)

test('c4: the second document is checked like the first', function()
  local child = start()
  child:edit('b.txt')
  local documents = {
    { name = 'a.txt', edits = two, old = { 'two' } },
    { name = 'b.txt', edits = { edit(0, 0, 0, 3, 'UNO') }, old = { 'uno' } },
  }
  local it = params(child, documents)
  child:type('Ohuman<Esc>')
  refused(child, 'version', it)
  child:cmd('buffer a.txt')
  eq(child:lines(), { 'one', 'two', 'three' }, 'the first document is as it was')
  applied(
    child,
    params(child, {
      documents[1],
      { name = 'b.txt', edits = { edit(1, 0, 1, 3, 'UNO') }, old = { 'uno' } },
    })
  )
  eq(child:lines(), { 'one', 'TWO', 'three' })
end)

test('another instance with the same version is refused', function()
  local child = start()
  local it = params(child, { { name = 'a.txt', edits = two, old = { 'two' } } })
  child:cmd('edit!')
  child:shared()
  eq(sent(child, 'a.txt'), { version = 0, instance = 2 })
  refused(child, 'instance', it)
end)

test('the text under every range is compared', function()
  local child = start()
  refused(
    child,
    'text',
    params(child, {
      { name = 'a.txt', edits = { edit(1, 0, 1, 3, 'TWO') }, old = { 'twa' } },
    })
  )
  refused(
    child,
    'text',
    params(child, {
      { name = 'a.txt', edits = { edit(1, 0, 1, 3, 'TWO') }, old = {} },
    })
  )
  refused(
    child,
    'text',
    params(child, {
      { name = 'a.txt', edits = { edit(1, 0, 3, 0, 'TWO\n') }, old = { 'two\nthree' } },
    })
  )
end)

test('positions past the end are refused, not moved', function()
  local child = start()
  for _, it in ipairs({
    edit(9, 0, 9, 0, 'x'),
    edit(3, 1, 3, 1, 'x'),
    edit(0, 4, 0, 4, 'x'),
    edit(0, 0, 0, 99, 'x'),
    edit(2, 0, 1, 0, 'x'),
    edit(1, 2, 1, 1, 'x'),
  }) do
    refused(child, 'range', params(child, { { name = 'a.txt', edits = { it }, old = { '' } } }))
  end
end)

test('a position inside of a character is refused', function()
  local child = start({ ['a.txt'] = 'a😀b\n' })
  for character = 2, 4 do
    refused(
      child,
      'range',
      params(child, {
        { name = 'a.txt', edits = { edit(0, character, 0, 5, 'x') }, old = { '' } },
      })
    )
  end
  applied(
    child,
    params(child, {
      { name = 'a.txt', edits = { edit(0, 1, 0, 5, 'é') }, old = { '😀' } },
    })
  )
  eq(child:lines(), { 'aéb' })
end)

test('overlapping edits are refused, touching ones are not', function()
  local child = start()
  refused(
    child,
    'range',
    params(child, {
      {
        name = 'a.txt',
        edits = { edit(0, 0, 1, 1, 'x'), edit(1, 0, 1, 3, 'y') },
        old = { 'one\nt', 'two' },
      },
    })
  )
  applied(
    child,
    params(child, {
      {
        name = 'a.txt',
        edits = { edit(0, 1, 0, 3, 'b'), edit(0, 0, 0, 1, 'a'), edit(0, 3, 0, 3, 'c') },
        old = { 'ne', 'o', '' },
      },
    })
  )
  eq(child:lines(), { 'abc', 'two', 'three' })
end)

test('insertions at one place keep their order', function()
  local child = start()
  applied(
    child,
    params(child, {
      {
        name = 'a.txt',
        edits = { edit(1, 0, 1, 0, 'x\n'), edit(1, 0, 1, 0, 'y\n'), edit(1, 0, 1, 3, 'z') },
        old = { '', '', 'two' },
      },
    })
  )
  eq(child:lines(), { 'one', 'x', 'y', 'z', 'three' })
end)

test('a document that is named twice is refused', function()
  local child = start()
  refused(
    child,
    'error',
    params(child, {
      { name = 'a.txt', edits = two, old = { 'two' } },
      { name = 'a.txt', edits = { edit(0, 0, 0, 3, 'ONE') }, old = { 'one' } },
    })
  )
end)

test('file operations are refused and nothing of the edit is done', function()
  local child = start()
  local it = params(child, { { name = 'a.txt', edits = two, old = { 'two' } } })
  local uri = vim.uri_from_fname(child.dir .. '/b.txt')
  table.insert(it.edit.documentChanges, { kind = 'create', uri = uri })
  refused(child, 'error', it)
  eq(T.read(child.dir .. '/b.txt'), 'uno\ndos\n')
end)

test('a document that is not open is refused, and not loaded', function()
  local child = start()
  local it = params(child, { { name = 'a.txt', edits = two, old = { 'two' } } })
  it.edit.documentChanges[1].textDocument.uri = vim.uri_from_fname(child.dir .. '/b.txt')
  refused(child, 'not-open', it)
  eq(child:lua('return vim.fn.bufexists("b.txt")'), 0)
  it.edit.documentChanges[1].textDocument.uri = 'untitled:foo'
  refused(child, 'not-open', it)
end)

test('read-only and unmodifiable buffers are refused', function()
  local child = start()
  local it = params(child, { { name = 'a.txt', edits = two, old = { 'two' } } })
  child:cmd('setlocal readonly')
  refused(child, 'read-only', it)
  child:cmd('setlocal noreadonly nomodifiable')
  refused(child, 'read-only', it)
  child:cmd('setlocal modifiable')
  applied(child, it)
end)

test('an unmodifiable second document keeps the first from being changed', function()
  local child = start()
  child:edit('b.txt')
  child:cmd('setlocal nomodifiable')
  child:cmd('buffer a.txt')
  refused(
    child,
    'read-only',
    params(child, {
      { name = 'a.txt', edits = two, old = { 'two' } },
      { name = 'b.txt', edits = { edit(0, 0, 0, 3, 'UNO') }, old = { 'uno' } },
    })
  )
end)

test('an edit after its deadline is refused', function()
  local child = start()
  local it = params(child, { { name = 'a.txt', edits = two, old = { 'two' } } })
  it.abreast.deadline = os.time() * 1000 - 1000
  refused(child, 'deadline', it)
end)

test('a failure in the middle takes everything back, of all documents', function()
  local child = start()
  child:edit('b.txt')
  -- A listener that makes the second change of b.txt impossible.
  child:lua([[
    vim.api.nvim_buf_attach(0, false, {
      on_lines = function(_, bufnr) vim.bo[bufnr].modifiable = false end,
    })
  ]])
  local result = apply(
    child,
    params(child, {
      { name = 'a.txt', edits = two, old = { 'two' } },
      {
        name = 'b.txt',
        edits = { edit(0, 0, 0, 3, 'UNO'), edit(1, 0, 2, 0, '') },
        old = { 'uno', 'dos\n' },
      },
    })
  )
  eq({ result.applied, result.abreast.code }, { false, 'error' })
  eq(child:lines(), { 'uno', 'dos' })
  eq(child:lua('return vim.bo.modified'), false)
  child:cmd('buffer a.txt')
  eq(child:lines(), { 'one', 'two', 'three' })
  eq(child:lua('return { vim.bo.modified, vim.bo.endofline }'), { false, true })
end)

test('every didChange precedes the answer, and the answer tells its version', function()
  local child = start()
  child:lua('fake.log = {}')
  local it = params(child, { { name = 'a.txt', edits = two, old = { 'two' } } })
  child:type('Ohuman')
  refused(child, 'version', it)
  it = params(child, {
    { name = 'a.txt', edits = { edit(2, 0, 2, 3, 'TWO') }, old = { 'two' } },
  })
  local result = apply(child, it)
  eq(result.applied, true)
  eq(
    result.abreast.versions[vim.uri_from_fname(child.dir .. '/a.txt')],
    sent(child, 'a.txt').version
  )
  local events = child:lua([[
    return vim.tbl_map(function(entry)
      local applied = entry[3].applied
      local mark = applied == nil and '' or applied and '+' or '-'
      return entry[2]:match('[^/]+$') .. mark
    end, vim.tbl_filter(function(entry) return entry[2] ~= 'abreast/documentState' end, fake.log))
  ]])
  T.ok(events[1] == 'didChange' and events[2] == 'applyEdit-', vim.inspect(events))
  eq(events[#events], 'applyEdit+')
  eq(events[#events - 1], 'didChange')
end)

test('nothing is put into the change list, the marks of changes, or the messages', function()
  local child = start({ ['a.txt'] = ('line\n'):rep(20) })
  child:type('10GxGma')
  local state = [[
    return { vim.fn.getchangelist()[1], vim.fn.getpos("'."), vim.fn.getpos("'["),
      vim.fn.getpos("'a"), vim.fn.getjumplist()[1] }
  ]]
  local before = child:lua(state)
  child:lua([[require('abreast.client').get().wire:flush()]])
  applied(
    child,
    params(child, {
      { name = 'a.txt', edits = { edit(14, 0, 14, 4, 'agent') }, old = { 'line' } },
    })
  )
  eq(child:lua(state), before)
  eq(child:messages(), '')
end)

local function numbered()
  local lines = {}
  for idx = 1, 12 do
    lines[idx] = ('line %d'):format(idx)
  end
  return table.concat(lines, '\n') .. '\n'
end

--- What was sent of the document's changes.
--- @param child Child
--- @return table[]
local function changes_sent(child)
  return child:lua([[
    local changes = {}
    for _, entry in ipairs(fake.log) do
      if entry[2] == 'textDocument/didChange' then
        vim.list_extend(changes, entry[3].contentChanges)
      end
    end
    return changes
  ]])
end

test('what a preview keeps from every listener is sent all the same', function()
  for _, new in ipairs({ 'other plugin', 'x' }) do
    local child = start({ ['a.txt'] = 'one\nt\ntwo\n' })
    child:type(':s/zz/y')
    -- Of the same length, so that nothing but the tick tells.
    child:lua([[vim.api.nvim_buf_set_lines(0, 1, 2, true, { ... })]], new)
    child:type('<Esc>')
    child:type('Gothree<Esc>')
    child:lua([[require('abreast.client').get().wire:flush()]])
    local changes = changes_sent(child)
    eq(changes[#changes].text, ('one\n%s\ntwo\nthree\n'):format(new))
    child:type('ggox<Esc>')
    child:lua([[require('abreast.client').get().wire:flush()]])
    changes = changes_sent(child)
    T.ok(changes[#changes].range, 'then changes as usual')
  end
end)

test(
  'typing, undoing, writing and reloading are told as changes, never as the whole text',
  function()
    local child = start({ ['a.txt'] = numbered() })
    child:lua('fake.log = {}')
    child:type(
      '5Gdd3Gp:%s/line/word/<CR>uu<C-r>gg3Jxu:g/1/d<CR>u:3m$<CR>Go<CR>x<Esc>vipr.:w<CR>ix<Esc>'
    )
    child:type('5G>>5G<C-v>jIab<Esc>:w<CR>:e!<CR>Rabc<Esc>:sort!<CR>u:%d<CR>u')
    child:lua([[require('abreast.client').get().wire:flush()]])
    T.ok(#changes_sent(child) > 20, 'changes')
    for _, change in ipairs(changes_sent(child)) do
      T.ok(change.range, vim.inspect(change))
    end
  end
)

test("a user's patch of vim.lsp.util changes nothing", function()
  local child = start()
  child:lua([[
    local function no_check() error('patched') end
    vim.lsp.util.apply_text_document_edit = no_check
    vim.lsp.util.apply_text_edits = no_check
    vim.lsp.util.apply_workspace_edit = no_check
    vim.lsp.handlers['workspace/applyEdit'] = no_check
  ]])
  local it = params(child, { { name = 'a.txt', edits = two, old = { 'two' } } })
  child:type('Ohuman<Esc>')
  refused(child, 'version', it)
  applied(
    child,
    params(child, {
      { name = 'a.txt', edits = { edit(2, 0, 2, 3, 'TWO') }, old = { 'two' } },
    })
  )
end)

test('no global handler is replaced', function()
  local child = Child.start({ plugin = false })
  local stock = child:lua([[
    local names = {}
    for name, fn in pairs(vim.lsp.handlers) do names[name] = debug.getinfo(fn, 'S').source end
    return names
  ]])
  child = start()
  eq(
    child:lua([[
    local names = {}
    for name, fn in pairs(vim.lsp.handlers) do names[name] = debug.getinfo(fn, 'S').source end
    return names
  ]]),
    stock
  )
end)

test('a URI may be spelled otherwise', function()
  local child = start({ ['é ü.txt'] = 'one\ntwo\n', ['a.txt'] = '' })
  child:edit('é ü.txt')
  local it = params(child, { { name = 'é ü.txt', edits = two, old = { 'two' } } })
  T.has(it.edit.documentChanges[1].textDocument.uri, '%c3%a9%20%c3%bc.txt')
  it.edit.documentChanges[1].textDocument.uri =
    it.edit.documentChanges[1].textDocument.uri:gsub('%%c3', '%%C3')
  applied(child, it)
end)

-- What line numbers of the human are kept across an edit.

local top = function(child)
  return params(child, {
    { name = 'a.txt', edits = { edit(0, 0, 0, 0, 'new\nnew\n') }, old = { '' } },
  })
end

for keys, what in pairs({
  ['5GVj'] = 'a linewise selection',
  ['6GVk'] = 'a linewise selection upwards',
  ['5G3lvj'] = 'a selection',
  ['5G3l<C-v>jj'] = 'a block selection',
}) do
  test(what .. ' stays on its text', function()
    local selections = {}
    for idx, is_edited in ipairs({ false, true }) do
      local child = start({ ['a.txt'] = numbered() })
      child:type(keys)
      if is_edited then
        applied(child, top(child))
      end
      child:type('y')
      selections[idx] = child:lua('return vim.fn.getreg()')
    end
    eq(selections[2], selections[1])
  end)
end

for _, case in ipairs({
  { 'a pending operator', '5Gd', 'd', 1 },
  { 'a block insert', '5G<C-v>jjIab', 'c<Esc>', 3 },
  { 'a block append', '5G<C-v>jj$Aab', 'c<Esc>', 3 },
  { 'a completion', '5Gol<C-n>', '<C-n><Esc>', 1 },
  { 'a selection to be replaced', '5Gveh<C-g>', 'x<Esc>', 1 },
  { 'a command line', ':%s/line/word', '/<CR>', 1 },
  { 'an expression in a command line', ':s/zz/<C-r>=', '1<CR><Esc>', 1 },
  { 'a command line that is abandoned', ':s/zz/y', '<Esc>', 1 },
}) do
  local what, begin_keys, end_keys = unpack(case)
  test(what .. ' is waited for, and then both are there', function()
    local alone = start({ ['a.txt'] = numbered() })
    alone:type(begin_keys)
    alone:type(end_keys)
    local expected = vim.list_extend({ 'new', 'new' }, alone:lines())
    local child = start({ ['a.txt'] = numbered() })
    child:type(begin_keys)
    child:lua([[require('abreast.client').get().wire:flush()]])
    local asked = begin(child, 'workspace/applyEdit', top(child))
    child:lua('return 1')
    eq(child:lua('return fake.replies[...] == nil', asked), true)
    child:type(end_keys)
    local result = reply(child, asked)
    if result.applied then
      -- The human's keys changed nothing that the sidecar did not know.
      eq(child:lines(), expected)
    else
      eq(result.abreast.code, 'version')
      eq(child:lines(), alone:lines())
    end
  end)
end

test('what the human does not end is a refusal in the end', function()
  local child = start({ ['a.txt'] = numbered() })
  child:type('5Gd')
  local result = apply(child, top(child))
  eq({ result.applied, result.abreast.code }, { false, 'error' })
  T.has(result.failureReason, 'a pending operator')
end)

test('a pending operator does not hold up an edit below', function()
  local child = start({ ['a.txt'] = numbered() })
  child:type('5Gd')
  applied(
    child,
    params(child, {
      { name = 'a.txt', edits = { edit(7, 0, 8, 0, '') }, old = { 'line 8\n' } },
    })
  )
  child:type('d')
  eq(child:lines()[5], 'line 6')
  eq(#child:lines(), 10)
end)

test('cursor, views of all windows, marks and folds stay with their text', function()
  local child = start({ ['a.txt'] = ('line\n'):rep(200) })
  child:cmd('set foldmethod=manual')
  child:cmd('split')
  child:type('150G5|zz<C-w>w100G3|zt')
  child:type('120Gmb100G3|zt')
  child:cmd('130,140fold')
  local state = [[
    local views = {}
    for _, window in ipairs(vim.api.nvim_list_wins()) do
      local view = vim.api.nvim_win_call(window, vim.fn.winsaveview)
      table.insert(views, { view.lnum, view.col, view.topline })
    end
    return { views, vim.fn.getpos("'b")[2], vim.fn.foldclosed(135 + ...) }
  ]]
  local before = child:lua(state, 0)
  applied(
    child,
    params(child, {
      {
        name = 'a.txt',
        edits = { edit(10, 0, 10, 0, 'x\nx\nx\n'), edit(159, 0, 160, 0, '') },
        old = { '', 'line\n' },
      },
    })
  )
  local after = child:lua(state, 3)
  for _, view in ipairs(before[1]) do
    view[1], view[3] = view[1] + 3, view[3] + 3
  end
  eq(after, { before[1], before[2] + 3, before[3] + 3 })
end)

test('an edit in the line of the cursor moves the cursor along', function()
  local child = start({ ['a.txt'] = 'alpha beta gamma\n' })
  child:type('$i')
  applied(
    child,
    params(child, {
      { name = 'a.txt', edits = { edit(0, 0, 0, 5, 'A') }, old = { 'alpha' } },
    })
  )
  child:type('!')
  eq(child:lines(), { 'A beta gamm!a' })
end)
