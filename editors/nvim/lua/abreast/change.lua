--- Changing buffers: all that was planned or nothing, as one undo step of its own.
---
--- Invariant: after `apply` every buffer is either as planned or as it was. The human's cursor,
--- selection, marks and views stay with their text.

local api = vim.api

local M = {}

--- One replacement, in the buffer's own rows and byte columns (0-based, end-exclusive). Without
--- columns it replaces whole lines.
--- @class (exact) Abreast.Operation
--- @field first integer
--- @field first_column? integer
--- @field last integer Without columns: the row after the last one.
--- @field last_column? integer
--- @field lines string[]
--- @field old string[] What is there before.

--- @class (exact) Abreast.BufferPlan
--- @field document Abreast.Document
--- @field bufnr integer
--- @field operations Abreast.Operation[] From the top of the buffer to its end.
--- @field endofline boolean What 'endofline' has to become.
--- @field was_endofline boolean

--- @param bufnr integer
--- @param operation Abreast.Operation
local function replace(bufnr, operation)
  local it = operation
  if it.first_column then
    api.nvim_buf_set_text(bufnr, it.first, it.first_column, it.last, it.last_column, it.lines)
  else
    api.nvim_buf_set_lines(bufnr, it.first, it.last, true, it.lines)
  end
end

--- @param operation Abreast.Operation
--- @return Abreast.Operation
local function inverse(operation)
  local it = operation
  local n_lines = #it.lines
  if not it.first_column then
    return {
      first = it.first,
      -- A buffer has one line at least.
      last = it.first + (it.first == 0 and n_lines == 0 and #it.old > 0 and 1 or n_lines),
      lines = it.old,
      old = it.lines,
    }
  end
  return {
    first = it.first,
    first_column = it.first_column,
    last = it.first + n_lines - 1,
    last_column = #it.lines[n_lines] + (n_lines == 1 and it.first_column or 0),
    lines = it.old,
    old = it.lines,
  }
end

--- Ends the undo block, also in the middle of an insert: assigning 'undolevels' does that.
--- @param bufnr integer
local function break_undo(bufnr)
  vim.bo[bufnr].undolevels = vim.bo[bufnr].undolevels
end

local namespace = api.nvim_create_namespace('abreast.change')

--- Neovim moves the cursor along with the text, but not the other end of a selection.
--- @param bufnr integer
--- @return fun() restore
local function keep_selection(bufnr)
  local mode = api.nvim_get_mode().mode
  if api.nvim_get_current_buf() ~= bufnr or not mode:find('^[vV\22]') then
    return function() end
  end
  local start = vim.fn.getpos('v')
  local line = api.nvim_buf_get_lines(bufnr, start[2] - 1, start[2], true)[1]
  local column = math.min(start[3] - 1, #line)
  local mark = api.nvim_buf_set_extmark(bufnr, namespace, start[2] - 1, column, {})
  return function()
    local position = api.nvim_buf_get_extmark_by_id(bufnr, namespace, mark, {})
    api.nvim_buf_del_extmark(bufnr, namespace, mark)
    local now = vim.fn.getpos('v')
    if now[2] == position[1] + 1 and now[3] == position[2] + 1 then
      return
    end
    local view = vim.fn.winsaveview()
    vim.cmd('normal! o')
    api.nvim_win_set_cursor(0, { position[1] + 1, position[2] })
    vim.cmd('normal! o')
    vim.fn.winrestview(view)
  end
end

--- What the command below runs: commands take no closures.
--- @type fun()?
local job

function M.run_job()
  assert(job)()
end

--- Runs `fn` without a trace in the change list and the '. mark: those are the human's.
--- @param fn fun()
local function keepjumps(fn)
  local failure --- @type any
  job = function()
    local ok, err = pcall(fn)
    failure = not ok and err or nil
  end
  vim.cmd.lua({
    args = { "require('abreast.change').run_job()" },
    mods = { keepjumps = true, silent = true },
  })
  job = nil
  if failure then
    error(failure, 0)
  end
end

--- @param plan Abreast.BufferPlan
--- @param done Abreast.Operation[]
local function change_buffer(plan, done)
  for idx = #plan.operations, 1, -1 do
    replace(plan.bufnr, plan.operations[idx])
    table.insert(done, plan.operations[idx])
  end
  if plan.endofline ~= plan.was_endofline then
    vim.bo[plan.bufnr].endofline = plan.endofline
    vim.bo[plan.bufnr].modified = true
  end
end

--- @class (exact) Abreast.Step
--- @field plan Abreast.BufferPlan
--- @field done Abreast.Operation[]
--- @field was_modified boolean

--- Takes back what was done. Runs in the same undo block, so that undo has nothing to take back.
--- @param step Abreast.Step
local function roll_back(step)
  local bufnr = step.plan.bufnr
  if not api.nvim_buf_is_loaded(bufnr) then
    return
  end
  local bo = vim.bo[bufnr]
  local was_modifiable = bo.modifiable
  bo.modifiable = true
  for idx = #step.done, 1, -1 do
    replace(bufnr, inverse(step.done[idx]))
  end
  bo.endofline = step.plan.was_endofline
  bo.modified = step.was_modified
  bo.modifiable = was_modifiable
end

--- Applies all plans or none.
--- @param plans Abreast.BufferPlan[]
--- @return string? problem Then nothing has changed.
function M.apply(plans)
  local steps = {} --- @type Abreast.Step[]
  local restores = {} --- @type (fun())[]
  local ok, err = pcall(keepjumps, function()
    for _, plan in ipairs(plans) do
      local step = { plan = plan, done = {}, was_modified = vim.bo[plan.bufnr].modified }
      table.insert(restores, keep_selection(plan.bufnr))
      break_undo(plan.bufnr)
      table.insert(steps, step)
      change_buffer(plan, step.done)
    end
  end)
  if not ok then
    keepjumps(function()
      for _, step in ipairs(steps) do
        roll_back(step)
      end
    end)
  end
  for _, step in ipairs(steps) do
    if api.nvim_buf_is_loaded(step.plan.bufnr) then
      break_undo(step.plan.bufnr)
    end
  end
  for _, restore in ipairs(restores) do
    pcall(restore)
  end
  return not ok and tostring(err) or nil
end

return M
