--- `User` autocommands for other plugins and for the human's configuration.

local M = {}

--- Lines after the edit, 1-based, inclusive; `last < first`: only deleted, before line `first`.
--- @class (exact) Abreast.EditHunk
--- @field first integer
--- @field last integer
--- @field n_more integer How many lines the edit added, or took away if negative.

--- `data` of `User AbreastEdit`.
--- @class (exact) Abreast.EditEvent
--- @field uri string
--- @field path string
--- @field via 'editor'|'disk'
--- @field bufnr? integer
--- @field sessionId? string
--- @field callId? string
--- @field label? string
--- @field hunks Abreast.EditHunk[]

--- `data` of `User AbreastStale`.
--- @class (exact) Abreast.StaleEvent
--- @field sessionId string
--- @field entries Abreast.LedgerEntry[]

--- `data` of `User AbreastSession`.
--- @class (exact) Abreast.SessionEvent
--- @field kind 'opened'|'reopened'|'closed'|'lost'
--- @field sessionId string
--- @field label? string

--- Tells everybody, after what is being done now is done.
--- @param pattern 'AbreastEdit'|'AbreastStale'|'AbreastSession'
--- @param data table
function M.tell(pattern, data)
  vim.schedule(function()
    vim.api.nvim_exec_autocmds('User', { pattern = pattern, modeline = false, data = data })
  end)
end

--- Where the operations of a plan are once all of them are done.
--- @param plan Abreast.BufferPlan
--- @return Abreast.EditHunk[]
function M.hunks(plan)
  local n_more = 0
  local hunks = {} --- @type Abreast.EditHunk[]
  for _, it in ipairs(plan.operations) do
    local n_new = #it.lines
    local first = it.first + n_more + 1
    if it.first_column then
      local is_rest_kept = it.lines[n_new] == '' and it.last_column == 0
      if is_rest_kept and (n_new > 1 or it.first_column == 0) then
        n_new = n_new - 1
      end
      -- Appended to a line that stays.
      if n_new > 1 and it.lines[1] == '' and it.old[1] == '' and it.first_column > 0 then
        first, n_new = first + 1, n_new - 1
      end
    end
    local delta = #it.lines - #it.old
    table.insert(hunks, { first = first, last = first + n_new - 1, n_more = delta })
    n_more = n_more + delta
  end
  return hunks
end

return M
