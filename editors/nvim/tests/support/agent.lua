--- An agent that edits without a pause, and a judge of what its edits do to the buffers. Runs
--- inside the child, as `_G.agent`.

local M = {}

M.counts = { tries = 0, landed = 0, refused = 0, corrupted = 0, lies = 0, codes = {} }
M.trouble = {}
M.is_done = false

--- What the edit under way has to do: by path, `{ old, new }`.
local planned = {}

local function text(bufnr)
  return table.concat(vim.api.nvim_buf_get_lines(bufnr, 0, -1, true), '\n') .. '\n'
end

local function snapshot()
  local texts = {}
  for _, bufnr in ipairs(vim.api.nvim_list_bufs()) do
    local name = vim.api.nvim_buf_get_name(bufnr)
    if vim.api.nvim_buf_is_loaded(bufnr) and name ~= '' then
      texts[name] = text(bufnr)
    end
  end
  return texts
end

local function expected(before, old, new)
  local from, to = before:find(old, 1, true)
  if not from or before:find(old, from + 1, true) then
    return nil
  end
  return before:sub(1, from - 1) .. new .. before:sub(to + 1)
end

--- Compares what an edit did with what it should have done.
local function judge(before, after, applied)
  local n_right, n_planned = 0, 0
  for path, content in pairs(after) do
    local plan = planned[path]
    n_planned = n_planned + (plan and 1 or 0)
    local right = plan and expected(before[path], plan.old, plan.new)
    if plan and content == right then
      n_right = n_right + 1
    elseif content ~= before[path] then
      M.counts.corrupted = M.counts.corrupted + 1
      table.insert(M.trouble, { path, plan, before[path], content })
    end
  end
  if applied and n_right < n_planned then
    M.counts.lies = M.counts.lies + 1
  elseif n_right > 0 and n_right < n_planned then
    M.counts.corrupted = M.counts.corrupted + 1
    table.insert(M.trouble, { 'not all documents' })
  end
  return n_right > 0 and n_right == n_planned
end

local has_landed = false

--- Watches the plugin's own way to change buffers.
function M.watch_plugin()
  local change = require('abreast.change')
  local apply = change.apply
  change.apply = function(plans)
    local before = snapshot()
    local problem = apply(plans)
    has_landed = judge(before, snapshot(), problem == nil)
    return problem
  end
end

--- Watches Neovim's own handler.
function M.watch_stock(client)
  client.handlers['workspace/applyEdit'] = function(err, params, context)
    local before = snapshot()
    local result = vim.lsp.handlers['workspace/applyEdit'](err, params, context)
    has_landed = judge(before, snapshot(), result.applied)
    return result
  end
end

local n_tokens = 100000

local function token()
  n_tokens = n_tokens + 1
  return ('t%d'):format(n_tokens)
end

--- An edit of something that occurs once.
local function invent(content, random)
  local lines = vim.split(content, '\n', { plain = true })
  table.remove(lines)
  if #lines == 0 then
    return nil
  end
  local line = lines[random(1, #lines)]
  local kind = random(1, 10)
  local old = line:match('t%d+')
  if kind <= 4 and old then
    return { old = old, new = token() }
  elseif kind <= 7 then
    return { old = line .. '\n', new = line .. '\n' .. ('agent %s\n'):format(token()) }
  elseif kind <= 9 then
    return { old = line .. '\n', new = #lines > 15 and '' or line .. token() .. '\n' }
  end
  local new = {}
  for idx = 1, random(2, 6) do
    new[idx] = ('agent %s\n'):format(token())
  end
  return { old = line .. '\n', new = table.concat(new) }
end

--- Edits until `n_tries` edits were tried.
--- @param options { request: fun(method, params, on_done), paths: string[], n_tries: integer,
---   random: fun(from, to): integer, pause: fun(): integer, until_corrupted?: boolean }
function M.start(options)
  local request, random = options.request, options.random
  local function next_try()
    local is_enough = options.until_corrupted and M.counts.corrupted > 0
    if is_enough or M.counts.tries >= options.n_tries then
      M.is_done = true
      return
    end
    M.counts.tries = M.counts.tries + 1
    vim.defer_fn(M.try, options.pause())
  end
  local function settle(err)
    if err then
      M.counts.refused = M.counts.refused + 1
      local code = err.code
      M.counts.codes[code] = (M.counts.codes[code] or 0) + 1
    else
      M.counts.landed = M.counts.landed + 1
      if not has_landed then
        M.counts.lies = M.counts.lies + 1
      end
    end
    planned = {}
    next_try()
  end
  function M.try()
    local first = random(1, #options.paths)
    local paths = { options.paths[first] }
    if #options.paths > 1 and random(1, 3) == 1 then
      table.insert(paths, options.paths[first % #options.paths + 1])
    end
    local changes = {}
    local function read(idx)
      if idx > #paths then
        has_landed = false
        if #changes == 0 then
          return settle({ code = 'nothing to do' })
        end
        return request('abreast/apply', { changes = changes }, settle)
      end
      request('abreast/read', { path = paths[idx], limit = 100000 }, function(err, result)
        if err then
          return settle(err)
        end
        local edit = invent(result.text, random)
        if edit then
          planned[paths[idx]] = edit
          table.insert(changes, {
            kind = 'edit',
            path = paths[idx],
            oldString = edit.old,
            newString = edit.new,
          })
        end
        read(idx + 1)
      end)
    end
    read(1)
  end
  next_try()
end

return M
