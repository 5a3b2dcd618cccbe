--- Shows the human what an agent just changed: signs, and the agent's name beside the first line.
---
--- Invariant: only extmarks of our own namespace; nothing else of a buffer is touched. A mark goes
--- when what it stands at is no longer as the agent left it.

local config = require('abreast.config')

local api = vim.api

local M = {}

--- A huge edit is shown by its beginning.
local MAX_SIGNS = 1000
local MAX_LABEL_CHARS = 40

local namespace = api.nvim_create_namespace('abreast')

--- The lines of a mark when it was made: its own, and for a deletion the one above (`false`: none).
--- @alias Abreast.MarkedLines (string|false)[]

--- By buffer and id.
--- @type table<integer, table<integer, Abreast.MarkedLines>>
local marked = {}

--- @param bufnr integer
--- @param row integer
--- @param n_above integer
--- @return Abreast.MarkedLines
local function lines_at(bufnr, row, n_above)
  local lines = api.nvim_buf_get_lines(bufnr, math.max(0, row - n_above), row + 1, false)
  if row < n_above then
    table.insert(lines, 1, false)
  end
  return lines
end

--- @param bufnr integer
--- @param id integer
local function remove(bufnr, id)
  if marked[bufnr] and marked[bufnr][id] then
    marked[bufnr][id] = nil
    api.nvim_buf_del_extmark(bufnr, namespace, id)
  end
end

--- Removes the marks whose lines are others by now.
--- @param bufnr integer
local function review(bufnr)
  for id, lines in pairs(marked[bufnr] or {}) do
    local row = api.nvim_buf_get_extmark_by_id(bufnr, namespace, id, {})[1]
    if not row or not vim.deep_equal(lines_at(bufnr, row, #lines - 1), lines) then
      remove(bufnr, id)
    end
  end
end

--- @param bufnr integer
local function follow(bufnr)
  if marked[bufnr] then
    return
  end
  marked[bufnr] = {}
  local is_due = false
  api.nvim_buf_attach(bufnr, false, {
    on_lines = function()
      if not marked[bufnr] or not next(marked[bufnr]) then
        marked[bufnr] = nil
        return true
      elseif not is_due then
        is_due = true
        vim.schedule(function()
          is_due = false
          if api.nvim_buf_is_loaded(bufnr) then
            review(bufnr)
          end
        end)
      end
    end,
    on_detach = function()
      marked[bufnr] = nil
    end,
  })
end

--- @param bufnr integer
--- @param row integer
--- @param n_above integer How many lines above have to stay as they are, too.
--- @param options table
--- @return integer
local function mark(bufnr, row, n_above, options)
  row = math.min(row, api.nvim_buf_line_count(bufnr) - 1)
  options.invalidate = true
  options.undo_restore = false
  local id = api.nvim_buf_set_extmark(bufnr, namespace, row, 0, options)
  marked[bufnr][id] = lines_at(bufnr, row, n_above)
  return id
end

--- Shows changed lines; `hunks` are 1-based, `first` to `last` inclusive.
--- @param bufnr integer
--- @param hunks Abreast.EditHunk[]
--- @param label string
function M.show(bufnr, hunks, label)
  local options = config.get().highlight
  if not options.enabled or not api.nvim_buf_is_loaded(bufnr) then
    return
  end
  follow(bufnr)
  local marks = {} --- @type integer[]
  for idx, hunk in ipairs(hunks) do
    local is_deletion = hunk.last < hunk.first
    local n_above = is_deletion and 1 or 0
    local last = math.max(hunk.first, hunk.last)
    for line = hunk.first, options.sign ~= '' and last or hunk.first - 1 do
      if #marks < MAX_SIGNS then
        local sign = { sign_text = options.sign, sign_hl_group = 'AbreastSign' }
        table.insert(marks, mark(bufnr, line - 1, n_above, sign))
      end
    end
    if options.virtual_text and idx == 1 then
      -- The label is an agent's own words.
      local name = vim.fn.strcharpart(label:gsub('%c', ' '), 0, MAX_LABEL_CHARS)
      local words = is_deletion and name .. ' deleted here' or name
      local virtual_text = { { '  ' .. words, 'AbreastText' } }
      local place = { virt_text = virtual_text, hl_mode = 'combine' }
      table.insert(marks, mark(bufnr, hunk.first - 1, n_above, place))
    end
  end
  if options.clear_after_ms > 0 then
    vim.defer_fn(function()
      for _, id in ipairs(api.nvim_buf_is_valid(bufnr) and marks or {}) do
        remove(bufnr, id)
      end
    end, options.clear_after_ms)
  end
end

--- Takes the marks away, of one buffer or of all.
--- @param bufnr? integer
function M.clear(bufnr)
  for _, it in ipairs(bufnr and { bufnr } or api.nvim_list_bufs()) do
    if api.nvim_buf_is_valid(it) then
      api.nvim_buf_clear_namespace(it, namespace, 0, -1)
    end
    if marked[it] then
      marked[it] = {}
    end
  end
end

return M
