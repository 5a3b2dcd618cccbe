--- Shows the human what an agent just changed: signs, and the agent's name beside the first line.
---
--- Invariant: only extmarks of our own namespace; nothing else of a buffer is touched.

local config = require('abreast.config')

local api = vim.api

local M = {}

--- A huge edit is shown by its beginning.
local MAX_SIGNS = 1000
local MAX_LABEL_CHARS = 40

local namespace = api.nvim_create_namespace('abreast')

--- @param bufnr integer
--- @param row integer
--- @param options table
--- @return integer
local function mark(bufnr, row, options)
  local last = api.nvim_buf_line_count(bufnr) - 1
  options.invalidate = true
  options.undo_restore = false
  return api.nvim_buf_set_extmark(bufnr, namespace, math.min(row, last), 0, options)
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
  local marks = {} --- @type integer[]
  for idx, hunk in ipairs(hunks) do
    local last = math.max(hunk.first, hunk.last)
    for line = hunk.first, options.sign ~= '' and last or hunk.first - 1 do
      if #marks < MAX_SIGNS then
        local sign = { sign_text = options.sign, sign_hl_group = 'AbreastSign' }
        table.insert(marks, mark(bufnr, line - 1, sign))
      end
    end
    if options.virtual_text and idx == 1 then
      -- The label is an agent's own words.
      local name = vim.fn.strcharpart(label:gsub('%c', ' '), 0, MAX_LABEL_CHARS)
      local words = hunk.last < hunk.first and name .. ' deleted here' or name
      local virtual_text = { { '  ' .. words, 'AbreastText' } }
      local place = { virt_text = virtual_text, hl_mode = 'combine' }
      table.insert(marks, mark(bufnr, hunk.first - 1, place))
    end
  end
  if options.clear_after_ms > 0 then
    vim.defer_fn(function()
      for _, id in ipairs(api.nvim_buf_is_valid(bufnr) and marks or {}) do
        api.nvim_buf_del_extmark(bufnr, namespace, id)
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
  end
end

return M
