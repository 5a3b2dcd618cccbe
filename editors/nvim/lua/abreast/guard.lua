--- The strict `workspace/applyEdit`: what Neovim's own handler does not check.
---
--- Invariant: an edit lands only on exactly the text that it was made for, in all its documents or
--- in none; and everything that the sidecar has to know of it is on the wire before the answer.
---
--- Never used here: `vim.lsp.util.apply_*` (many users patch it, and it clamps, skips and says
--- "applied"), `bufload` (a swap file, and the file is edited at the second try), anything global.

local calm = require('abreast.calm')
local change = require('abreast.change')
local log = require('abreast.log')
local text = require('abreast.text')

local api = vim.api

local M = {}

--- @alias Abreast.RefusalCode
--- | 'version' the document has changed
--- | 'instance' the document was loaded again
--- | 'not-open'
--- | 'text' the text under a range is another one
--- | 'range' a range outside of the document
--- | 'read-only'
--- | 'eol' a line end that the buffer cannot hold
--- | 'deadline'
--- | 'error'

--- @class (exact) Abreast.Refusal
--- @field code Abreast.RefusalCode
--- @field reason string

--- @param code Abreast.RefusalCode
--- @param reason string
--- @param ... any
--- @return nil
--- @return Abreast.Refusal
local function refuse(code, reason, ...)
  return nil, { code = code, reason = reason:format(...) }
end

--- An edit in rows and byte columns of the document's text. With a final line end, the text has one
--- line more than the buffer: the empty one after it.
--- @class (exact) Abreast.Edit
--- @field first integer
--- @field first_column integer
--- @field last integer
--- @field last_column integer
--- @field lines string[]

--- @class (exact) Abreast.Target
--- @field document Abreast.Document
--- @field bufnr integer
--- @field n_lines integer Of the buffer.
--- @field endofline boolean
--- @field line_end string
--- @field encoding string

--- @param target Abreast.Target
--- @param row integer
--- @return string
local function line_at(target, row)
  return api.nvim_buf_get_lines(target.bufnr, row, row + 1, true)[1]
end

--- @param target Abreast.Target
--- @param position { line: integer, character: integer }
--- @return integer? row
--- @return integer? column
local function place(target, position)
  local row, character = position.line, position.character
  if row < 0 or character < 0 then
    return nil
  elseif row == target.n_lines and target.endofline then
    if character == 0 then
      return row, 0
    end
    return nil
  elseif row >= target.n_lines then
    return nil
  end
  local column = text.byte_column(line_at(target, row), character, target.encoding)
  if not column then
    return nil
  end
  return row, column
end

--- @param target Abreast.Target
--- @param edit Abreast.Edit
--- @return string
local function text_under(target, edit)
  if edit.first == target.n_lines then
    return ''
  end
  local last, last_column = edit.last, edit.last_column
  local final = ''
  if last == target.n_lines then
    last, final = last - 1, target.line_end
    last_column = #line_at(target, last)
  end
  local bufnr = target.bufnr
  local lines = api.nvim_buf_get_text(bufnr, edit.first, edit.first_column, last, last_column, {})
  return table.concat(lines, target.line_end) .. final
end

--- @param target Abreast.Target
--- @param sent table An LSP text edit.
--- @param old_text string?
--- @return Abreast.Edit?
--- @return Abreast.Refusal?
local function check_edit(target, sent, old_text)
  local uri = target.document.uri
  local first, first_column = place(target, sent.range.start)
  local last, last_column = place(target, sent.range['end'])
  if not first or not last then
    return refuse('range', '%s: a range is not inside of the text', uri)
  end
  --- @cast first_column integer
  --- @cast last_column integer
  if first > last or first == last and first_column > last_column then
    return refuse('range', '%s: a range starts after its end', uri)
  end
  local lines = text.split(sent.newText, target.line_end)
  if not lines then
    return refuse('eol', "%s: a line end that 'fileformat' dos cannot hold", uri)
  end
  local edit = {
    first = first,
    first_column = first_column,
    last = last,
    last_column = last_column,
    lines = lines,
  }
  if not old_text then
    return refuse('text', '%s: the edit does not say what it replaces', uri)
  elseif text_under(target, edit) ~= old_text then
    return refuse('text', '%s: the text to be replaced is another one by now', uri)
  end
  return edit
end

--- Sorts edits by place and refuses overlapping ones. Insertions at one place keep their order.
--- @param target Abreast.Target
--- @param edits Abreast.Edit[]
--- @return Abreast.Edit[]?
--- @return Abreast.Refusal?
local function in_order(target, edits)
  local order = {} --- @type table<Abreast.Edit, integer>
  for idx, edit in ipairs(edits) do
    order[edit] = idx
  end
  table.sort(edits, function(one, other)
    if one.first ~= other.first then
      return one.first < other.first
    elseif one.first_column ~= other.first_column then
      return one.first_column < other.first_column
    end
    return order[one] < order[other]
  end)
  for idx = 2, #edits do
    local before, after = edits[idx - 1], edits[idx]
    local overlaps = before.last > after.first
      or before.last == after.first and before.last_column > after.first_column
    if overlaps then
      return refuse('range', '%s: two edits overlap', target.document.uri)
    end
  end
  return edits
end

--- @param target Abreast.Target
--- @param edit Abreast.Edit
--- @return boolean
local function reaches_end(target, edit)
  if target.endofline then
    return edit.last == target.n_lines
  end
  return edit.last == target.n_lines - 1 and edit.last_column == #line_at(target, edit.last)
end

--- Makes one edit of those that reach the end of the text: together they decide about its final
--- line end.
--- @param target Abreast.Target
--- @param edits Abreast.Edit[] Sorted.
--- @return Abreast.Edit? tail
local function take_tail(target, edits)
  local tail --- @type Abreast.Edit?
  while #edits > 0 and reaches_end(target, edits[#edits]) do
    local edit = table.remove(edits) --- @type Abreast.Edit
    if tail then
      -- `edit` stands right before `tail`, which replaces nothing.
      local lines = vim.list_slice(edit.lines, 1, #edit.lines - 1)
      table.insert(lines, edit.lines[#edit.lines] .. tail.lines[1])
      edit.lines = vim.list_extend(lines, tail.lines, 2)
    end
    tail = edit
  end
  return tail
end

--- @param target Abreast.Target
--- @param edit Abreast.Edit
--- @return Abreast.Operation
local function as_operation(target, edit)
  local it = edit
  local old =
    api.nvim_buf_get_text(target.bufnr, it.first, it.first_column, it.last, it.last_column, {})
  return {
    first = it.first,
    first_column = it.first_column,
    last = it.last,
    last_column = it.last_column,
    lines = it.lines,
    old = old,
  }
end

--- @param target Abreast.Target
--- @param first integer
--- @param lines string[]
--- @return Abreast.Operation
local function replace_lines(target, first, lines)
  local old = api.nvim_buf_get_lines(target.bufnr, first, -1, true)
  return { first = first, last = target.n_lines, lines = lines, old = old }
end

--- The operation for an edit that reaches the end, and whether the text then ends with a line end.
--- In a buffer that is an option and not a line.
--- @param target Abreast.Target
--- @param tail Abreast.Edit
--- @return Abreast.Operation?
--- @return boolean endofline
local function end_operation(target, tail)
  local lines = tail.lines
  local row, column = tail.first, tail.first_column
  local last_line = lines[#lines]
  if #lines == 1 and row < target.n_lines then
    last_line = line_at(target, row):sub(1, column) .. last_line
  end
  local is_empty = last_line == '' and row + #lines == 1
  local endofline = last_line == '' and not is_empty
  if is_empty then
    return replace_lines(target, 0, {}), false
  end
  local kept = endofline and vim.list_slice(lines, 1, #lines - 1) or lines
  if row == target.n_lines then
    return #kept > 0 and replace_lines(target, row, kept) or nil, endofline
  elseif #kept == 0 then
    return replace_lines(target, row, {}), endofline
  end
  local last = target.n_lines - 1
  local edit = {
    first = row,
    first_column = column,
    last = last,
    last_column = #line_at(target, last),
    lines = kept,
  }
  return as_operation(target, edit), endofline
end

--- @param wire Abreast.Wire
--- @param client table
--- @param sent table One element of `documentChanges`.
--- @param detail table? One element of `abreast.documents`.
--- @return Abreast.Target?
--- @return Abreast.Refusal?
local function check_document(wire, client, sent, detail)
  local uri, version = sent.textDocument.uri, sent.textDocument.version
  local document = wire:find(uri)
  local bufnr = document and wire:buffer(document)
  if not document or not bufnr or not vim.lsp.buf_is_attached(bufnr, client.id) then
    return refuse('not-open', '%s is not open', uri)
  end
  wire:settle(document)
  if not document.is_open then
    return refuse('not-open', '%s is open, but cannot be shared', uri)
  end
  if not detail or detail.instance ~= document.instance then
    local of = detail and tostring(detail.instance) or 'none'
    return refuse('instance', '%s was opened %d times, not %s', uri, document.instance, of)
  end
  -- Also 0, also one that is newer; null is none.
  if version ~= document.version then
    return refuse(
      'version',
      '%s is at version %d, not %s',
      uri,
      document.version,
      tostring(version)
    )
  end
  local bo = vim.bo[bufnr]
  if not bo.modifiable or bo.readonly or bo.buftype ~= '' then
    return refuse('read-only', '%s is read-only in the editor', uri)
  end
  return {
    document = document,
    bufnr = bufnr,
    n_lines = api.nvim_buf_line_count(bufnr),
    endofline = bo.endofline,
    line_end = assert(text.line_end(bufnr)),
    encoding = client.offset_encoding,
  }
end

--- @param target Abreast.Target
--- @param sent table One element of `documentChanges`.
--- @param old_texts string[]
--- @return Abreast.BufferPlan?
--- @return Abreast.Refusal?
local function plan_document(target, sent, old_texts)
  local edits = {}
  for idx, sent_edit in ipairs(sent.edits) do
    local edit, refusal = check_edit(target, sent_edit, old_texts[idx])
    if not edit then
      return nil, refusal
    end
    edits[idx] = edit
  end
  local sorted, refusal = in_order(target, edits)
  if not sorted then
    return nil, refusal
  end
  local tail = take_tail(target, sorted)
  local endofline = target.endofline
  local operations = {}
  for _, edit in ipairs(sorted) do
    table.insert(operations, as_operation(target, edit))
  end
  if tail then
    local operation
    operation, endofline = end_operation(target, tail)
    table.insert(operations, operation)
  end
  return {
    document = target.document,
    bufnr = target.bufnr,
    operations = operations,
    endofline = endofline,
    was_endofline = target.endofline,
  }
end

--- @param wire Abreast.Wire
--- @param client table
--- @param params table
--- @return Abreast.BufferPlan[]?
--- @return Abreast.Refusal?
local function plan(wire, client, params)
  local changes = params.edit.documentChanges
  local detail = type(params.abreast) == 'table' and params.abreast or {}
  local deadline = detail.deadline
  local seconds, microseconds = vim.uv.gettimeofday()
  if type(deadline) == 'number' and seconds * 1000 + microseconds / 1000 > deadline then
    return refuse('deadline', 'the edit came after its deadline')
  end
  if type(changes) ~= 'table' then
    return refuse('error', 'an edit without documentChanges has no versions')
  end
  -- Whatever comes of it, the sidecar first learns what the human typed.
  wire:flush()
  local plans = {}
  local seen = {} --- @type table<integer, true>
  for idx, sent in ipairs(changes) do
    if sent.kind then
      return refuse('error', 'file operations (%s) are not done by the editor', sent.kind)
    end
    local of_document = type(detail.documents) == 'table' and detail.documents[idx] or nil
    local target, refusal = check_document(wire, client, sent, of_document)
    if not target then
      return nil, refusal
    elseif seen[target.bufnr] then
      return refuse('error', '%s is named twice', target.document.uri)
    end
    seen[target.bufnr] = true
    plans[idx], refusal = plan_document(target, sent, of_document.oldTexts or {})
    if not plans[idx] then
      return nil, refusal
    end
  end
  return plans
end

--- @param plans Abreast.BufferPlan[]
--- @return string?
local function why_not_now(plans)
  for _, it in ipairs(plans) do
    local changes = vim.tbl_map(function(operation)
      local is_text = operation.first_column ~= nil
      return {
        first = operation.first,
        last = math.max(operation.first, is_text and operation.last or operation.last - 1),
        n_more = #operation.lines - #operation.old,
      }
    end, it.operations)
    local reason = calm.reason(it.bufnr, changes)
    if reason then
      return reason
    end
  end
end

--- Carries out an edit of the sidecar, or says why not.
--- @param wire Abreast.Wire
--- @param client table
--- @param params table
--- @return table result Of `workspace/applyEdit`.
--- @return Abreast.BufferPlan[] plans What was done.
function M.apply(wire, client, params)
  local refusal --- @type Abreast.Refusal?
  local deadline = vim.tbl_get(params, 'abreast', 'deadline')
  local reason, plans = calm.wait(function()
    -- Waiting is over when everything still holds, not just the human's hands are off.
    local plans
    plans, refusal = plan(wire, client, params)
    return plans and why_not_now(plans), plans
  end, type(deadline) == 'number' and deadline or nil)
  if reason then
    refusal = { code = 'error', reason = reason }
  end
  if not refusal then
    local problem = change.apply(assert(plans))
    wire:flush()
    refusal = problem and { code = 'error', reason = problem } or nil
  end
  local versions = vim.empty_dict()
  for _, it in ipairs(plans or {}) do
    wire:settle(it.document)
    versions[it.document.uri] = it.document.version
  end
  if refusal then
    log.add('info', ('an edit was refused: %s (%s)'):format(refusal.reason, refusal.code))
    return {
      applied = false,
      failureReason = refusal.reason,
      abreast = { code = refusal.code, versions = versions },
    }, {}
  end
  return { applied = true, abreast = { versions = versions } }, assert(plans)
end

return M
