--- What changed in a buffer since the sidecar was last sent something of it.
---
--- Neovim's own LSP client copies its table of all lines at each key (30 ms with 900,000 lines),
--- and goes wrong for good where Neovim reports nothing: while a command line shows a preview
--- ('inccommand'), changes by plugins reach no listener (measured in 0.11.4). So this listens by
--- itself, keeps no text, and counts.
---
--- Invariant: what `take` returns leads from the text that was sent to the text at hand. Where that
--- is not certain it returns nothing, and the whole text has to be sent.

local api = vim.api

local M = {}

--- Whole lines: `lines` in place of `first` to `last` (0-based, end-exclusive).
--- @class (exact) Abreast.LineChange
--- @field first integer
--- @field last integer
--- @field lines string[]

--- @class Abreast.Report
--- @field private bufnr integer
--- @field private on_change fun()
--- @field private is_stopped boolean
--- @field private is_certain boolean Nothing was missed.
--- @field private changes Abreast.LineChange[]
--- @field private tick integer The buffer's 'changedtick' as last reported.
--- @field private n_lines integer As counted from what was reported.
local Report = {}
Report.__index = Report

--- Those that listen.
--- @type table<Abreast.Report, true>
local listening = {}

--- Listens to a buffer, whose text has just been sent.
--- @param bufnr integer
--- @param on_change fun() Called in the middle of the change, when nothing may be changed.
--- @return Abreast.Report
function M.start(bufnr, on_change)
  local report = setmetatable({
    bufnr = bufnr,
    on_change = on_change,
    is_stopped = false,
    is_certain = true,
    changes = {},
    tick = 0,
    n_lines = 0,
  }, Report)
  report:reset()
  listening[report] = true
  api.nvim_buf_attach(bufnr, false, {
    on_lines = function(_, _, tick, first, last, new_last)
      return report:changed(tick, first, last, new_last)
    end,
    on_changedtick = function(_, _, tick)
      report.tick = tick
      return report.is_stopped
    end,
    on_reload = function()
      report.is_certain = false
      return report.is_stopped
    end,
    on_detach = function()
      report:stop()
    end,
  })
  -- Neovim moves the tick once more at the end of `:edit`.
  vim.schedule(function()
    if not report.is_stopped and #report.changes == 0 then
      report.tick = api.nvim_buf_get_changedtick(bufnr)
    end
  end)
  return report
end

--- @private
--- @return boolean is_stopped Then Neovim does not call again.
function Report:changed(tick, first, last, new_last)
  if self.is_stopped then
    return true
  end
  self.tick = tick
  if self.is_certain then
    local lines = api.nvim_buf_get_lines(self.bufnr, first, new_last, false)
    self.n_lines = self.n_lines + new_last - last
    if self.n_lines == 0 then
      -- A buffer without lines has one, which is empty.
      lines = { '' }
      self.n_lines = 1
    end
    table.insert(self.changes, { first = first, last = last, lines = lines })
  end
  self.on_change()
  return false
end

--- Notes whether something changed that was not reported.
--- @private
function Report:look()
  local tick = api.nvim_buf_get_changedtick(self.bufnr)
  self.is_certain = self.is_certain and tick == self.tick
  self.tick = tick
end

--- The changes since the last call, in order; nil if the whole text has to be sent.
--- @return Abreast.LineChange[]?
function Report:take()
  self:look()
  local changes = self.changes
  self.changes = {}
  if self.is_certain and api.nvim_buf_line_count(self.bufnr) == self.n_lines then
    return changes
  end
end

--- The whole text was sent.
function Report:reset()
  self.changes = {}
  self.is_certain = true
  self.tick = api.nvim_buf_get_changedtick(self.bufnr)
  self.n_lines = api.nvim_buf_line_count(self.bufnr)
end

--- Listens no longer.
function Report:stop()
  self.is_stopped = true
  listening[self] = nil
end

--- Changes as LSP has them; nil if the whole text has to be sent.
--- @param changes Abreast.LineChange[]
--- @param n_lines integer How many there were before.
--- @param endofline boolean
--- @param line_end string
--- @return table[]?
function M.for_wire(changes, n_lines, endofline, line_end)
  local result = {}
  for idx, it in ipairs(changes) do
    if it.last == n_lines and not endofline then
      -- The text ends within its last line; there is no place after it.
      return nil
    end
    n_lines = n_lines + #it.lines - (it.last - it.first)
    result[idx] = {
      range = {
        start = { line = it.first, character = 0 },
        ['end'] = { line = it.last, character = 0 },
      },
      text = table.concat(it.lines, line_end) .. (#it.lines > 0 and line_end or ''),
    }
  end
  return result
end

--- @param bufnr? integer
--- @param fn fun(report: Abreast.Report)
local function each(bufnr, fn)
  for report in pairs(listening) do
    if not bufnr or report.bufnr == bufnr then
      fn(report)
    end
  end
end

--- Learns of what moves 'changedtick' without being reported.
--- @param group integer
function M.watch(group)
  -- A preview begins and ends with one of these. What it swallowed cannot be told from the tick any
  -- more once something else was reported.
  api.nvim_create_autocmd({ 'CmdlineEnter', 'CmdlineChanged', 'CmdlineLeave' }, {
    group = group,
    pattern = ':',
    desc = 'abreast: what a preview swallowed',
    callback = function()
      each(nil, Report.look)
    end,
  })
  -- Writing moves the tick, and changes nothing.
  api.nvim_create_autocmd('BufWritePre', {
    group = group,
    desc = 'abreast: before a write',
    callback = function(args)
      each(args.buf, Report.look)
    end,
  })
  api.nvim_create_autocmd('BufWritePost', {
    group = group,
    desc = 'abreast: after a write',
    callback = function(args)
      if not api.nvim_get_mode().mode:find('^c') then
        each(args.buf, function(report)
          report.tick = api.nvim_buf_get_changedtick(args.buf)
        end)
      end
    end,
  })
end

return M
