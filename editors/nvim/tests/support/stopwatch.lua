-- A language server that measures how long the editor takes for `workspace/applyEdit`:
-- nvim --clean -l stopwatch.lua ROUNDS RESULT_FILE. Starts with the first didOpen. Every other edit
-- has the member `stock`, for the test to take another handler for it.

local n_rounds, result_file = tonumber(arg[1]), arg[2]

local function receive()
  local length
  while true do
    local line = io.read('*l')
    if not line then
      os.exit(0)
    end
    line = line:gsub('\r$', '')
    if line == '' then
      break
    end
    length = tonumber(line:match('^Content%-Length: (%d+)')) or length
  end
  return vim.json.decode(io.read(length))
end

local function send(message)
  message.jsonrpc = '2.0'
  local body = vim.json.encode(message)
  io.write(('Content-Length: %d\r\n\r\n%s'):format(#body, body))
  io.flush()
end

local uri, version
local replied --- @type boolean

--- Takes one message; true if it was the reply that is waited for.
local function step()
  local message = receive()
  if message.method == 'initialize' then
    send({
      id = message.id,
      result = {
        capabilities = {
          positionEncoding = 'utf-8',
          textDocumentSync = { openClose = true, change = 2 },
          experimental = { abreast = { version = 1, minVersion = 1 } },
        },
      },
    })
  elseif message.method == 'textDocument/didOpen' then
    uri, version = message.params.textDocument.uri, message.params.textDocument.version
  elseif message.method == 'textDocument/didChange' then
    version = message.params.textDocument.version
  elseif message.method == 'shutdown' then
    send({ id = message.id, result = vim.NIL })
  elseif message.id and not message.method then
    assert(message.result.applied, vim.inspect(message))
    replied = true
  end
end

while not uri do
  step()
end
local times = {}
local old = 'line 800'
for round = 1, n_rounds do
  local before = version
  replied = false
  local new = ('%08d'):format(round)
  local place = { line = 8000, character = 0 }
  local range = { start = place, ['end'] = { line = 8000, character = 8 } }
  local started = vim.uv.hrtime()
  send({
    id = round,
    method = 'workspace/applyEdit',
    params = {
      edit = {
        documentChanges = {
          {
            -- Neovim's own handler has other numbers for versions.
            textDocument = { uri = uri, version = round % 2 == 1 and vim.NIL or version },
            edits = { { range = range, newText = new } },
          },
        },
      },
      stock = round % 2 == 1,
      abreast = { documents = { { uri = uri, instance = 1, oldTexts = { old } } } },
    },
  })
  while not replied do
    step()
  end
  times[round] = (vim.uv.hrtime() - started) / 1e6
  while version == before do
    step()
  end
  old = new
  vim.uv.sleep(20)
end
local file = assert(io.open(result_file .. '.part', 'w'))
file:write(vim.json.encode(times))
file:close()
os.rename(result_file .. '.part', result_file)
while true do
  step()
end
