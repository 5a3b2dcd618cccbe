-- The agent of the demo: a script in place of a model, with a model's pace.

local abreast = require('abreast')

local PAUSE_MS = tonumber(vim.env.ABREAST_DEMO_PAUSE_MS) or 2000

vim.o.number = true
vim.o.signcolumn = 'yes'
vim.o.laststatus = 2
vim.o.statusline =
  ' %f %m%=%{get(g:, "abreast_demo", "")}  %{v:lua.require("abreast").statusline()} '

--- @param message string
local function say(message)
  vim.g.abreast_demo = message
  vim.cmd.redrawstatus()
end

--- The next function without a docstring gets one, and types.
--- @param text string
--- @return string? old
--- @return string? new
local function next_edit(text)
  for old, name, parameters, body in text:gmatch('(def ([%w_]+)%(([^)]*)%):\n(    [^\n]*))') do
    if not body:find('"""', 1, true) then
      local typed = parameters:gsub('[%w_]+', {
        prices = 'prices: list[float]',
        rate = 'rate: float',
        budget = 'budget: float',
      })
      local words = name:gsub('_', ' ')
      local doc = ('    """Return what is %s."""'):format(words)
      return old, ('def %s(%s):\n%s\n%s'):format(name, typed, doc, body)
    end
  end
end

local function pause(ms)
  local co = coroutine.running()
  vim.defer_fn(function()
    coroutine.resume(co)
  end, ms)
  coroutine.yield()
end

local path = vim.api.nvim_buf_get_name(0)
local n_landed, n_refused = 0, 0

--- @return string
local function score()
  return ('%d %s, %d refused'):format(n_landed, n_landed == 1 and 'edit' or 'edits', n_refused)
end

--- Makes the edit. Where the human was faster, looks again, and tries again if it makes sense.
--- @param session Abreast.Session
--- @param old string
--- @param new string
local function edit(session, old, new)
  for _ = 1, 10 do
    local _, refusal = session:edit({ path = path, oldString = old, newString = new })
    if not refusal then
      n_landed = n_landed + 1
      return
    end
    n_refused = n_refused + 1
    say('refused: ' .. refusal.message)
    local read = session:read({ path = path })
    if not read or not read.text:find(old, 1, true) then
      return
    end
  end
end

abreast.run(function()
  local session = abreast.open_session({ label = 'demo agent' })
  for _ = 1, 100 do
    local read, err = session:read({ path = path })
    if not read then
      return say(tostring(err))
    end
    local old, new = next_edit(read.text)
    if not old then
      break
    end
    say(('the agent has read the file and thinks (%s)'):format(score()))
    pause(PAUSE_MS)
    edit(session, old, assert(new))
  end
  say(('the agent is done: %s because you were faster'):format(score()))
  session:close()
end)
