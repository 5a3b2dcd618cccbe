--- Whether the human is in the middle of something that a change of lines would bend.
---
--- A pending operator, a running completion, a block insert and a selection for replacement keep
--- line numbers that Neovim does not move along: with two lines inserted above, `d` … `d` deletes
--- three lines, and the next CTRL-N deletes what lies between (both measured in 0.11.4). And while
--- a command line shows a preview, no listener learns of a change: syntax trees and other language
--- servers would have another text for good.
---
--- Invariant: such states are left to the human; an edit waits for their end, or is refused.

local api = vim.api

local M = {}

--- How long an edit waits, in milliseconds. The sidecar itself gives up after 5 s.
local WAIT_MS = 2000
local POLL_MS = 10

local is_block_insert = false
local is_command_line = false

--- Learns of a block insert (`CTRL-V … I`), which looks like any other insert afterwards, and of a
--- command line, which may have another one inside (`CTRL-R =`).
--- @param group integer
function M.watch(group)
  api.nvim_create_autocmd({ 'CmdlineEnter', 'CmdlineLeave' }, {
    group = group,
    pattern = ':',
    desc = 'abreast: a command line begins or ends',
    callback = function(args)
      is_command_line = args.event == 'CmdlineEnter'
    end,
  })
  api.nvim_create_autocmd('ModeChanged', {
    group = group,
    pattern = '\22*:[iR]*',
    desc = 'abreast: a block insert begins',
    callback = function()
      is_block_insert = true
    end,
  })
  api.nvim_create_autocmd('ModeChanged', {
    group = group,
    pattern = '[iR]*:*',
    desc = 'abreast: a block insert ends',
    callback = function()
      is_block_insert = vim.v.event.new_mode:find('^[iR]') ~= nil and is_block_insert
    end,
  })
end

--- @return string? what The human is doing.
local function busy_with()
  local mode = api.nvim_get_mode().mode
  if mode:find('^no') then
    return 'a pending operator'
  elseif mode:find('^[iR]') and is_block_insert then
    return 'a block insert'
  elseif mode:find('^[iR][cx]') then
    return 'a completion'
  elseif mode:find('^[sS\19]') then
    return 'a selection to be replaced'
  end
end

--- Returns why nothing may be changed in these rows now: `first` to `last`, 0-based, `n_more` lines
--- more than before.
--- @param bufnr integer
--- @param changes { first: integer, last: integer, n_more: integer }[]
--- @return string?
function M.reason(bufnr, changes)
  -- Whether there is a preview of what is typed, Neovim does not tell.
  local is_typing = is_command_line and api.nvim_get_mode().mode:find('^c')
    or vim.fn.getcmdtype() == ':'
  if is_typing and vim.o.inccommand ~= '' then
    return 'the user is in the middle of a command line'
  end
  local what = bufnr == api.nvim_get_current_buf() and busy_with()
  if not what then
    return nil
  end
  local rows = { vim.fn.line('.') - 1, vim.fn.line('v') - 1 }
  local first, last = math.min(rows[1], rows[2]), math.max(rows[1], rows[2])
  for _, change in ipairs(changes) do
    local is_below = change.first > last and what ~= 'a block insert'
    local is_harmless = is_below or change.last < first and change.n_more == 0
    if not is_harmless then
      return ('the user is in the middle of %s'):format(what)
    end
  end
end

--- Waits a moment if this runs in a coroutine that can wait.
--- @return boolean waited
local function pause()
  local co, is_main = coroutine.running()
  if not co or is_main or not rawget(_G, 'jit') then
    return false
  end
  vim.defer_fn(function()
    local ok, err = coroutine.resume(co)
    if not ok then
      require('abreast.log').add('error', tostring(err))
    end
  end, POLL_MS)
  coroutine.yield()
  return true
end

--- Repeats `try` while it returns a reason to wait, for a while.
--- @generic T
--- @param try fun(): string?, T
--- @param deadline? number Unix milliseconds.
--- @return string? reason Why it is still not possible.
--- @return T
function M.wait(try, deadline)
  local waited_ms = 0
  while true do
    local reason, outcome = try()
    local seconds, microseconds = vim.uv.gettimeofday()
    local now = seconds * 1000 + microseconds / 1000
    local is_over = waited_ms >= WAIT_MS or deadline and now > deadline - 500
    if not reason or is_over or not pause() then
      return reason, outcome
    end
    waited_ms = waited_ms + POLL_MS
  end
end

return M
