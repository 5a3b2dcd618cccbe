--- `:Abreast`.

local client = require('abreast.client')

local api = vim.api

local M = {}

--- @param lines string[]
local function say(lines)
  api.nvim_echo({ { table.concat(lines, '\n') } }, true, {})
end

local function status()
  local abreast = require('abreast')
  local it = abreast.status()
  local lines = { 'abreast: ' .. it.state .. (it.problem and ' - ' .. it.problem or '') }
  if it.cmd then
    table.insert(lines, ('  sidecar    %s %s'):format(table.concat(it.cmd, ' '), it.version or ''))
  end
  local lsp_client = client.lsp_client()
  for _, folder in ipairs(lsp_client and lsp_client.workspace_folders or {}) do
    table.insert(lines, '  workspace  ' .. vim.uri_to_fname(folder.uri))
  end
  table.insert(lines, ('  documents  %d'):format(it.documents))
  for _, uri in ipairs(it.unsynced) do
    table.insert(lines, '  not shared ' .. uri)
  end
  if it.state ~= 'running' then
    return say(lines)
  end
  client.ask('abreast/sessions', vim.empty_dict(), function(err, result)
    for _, session in ipairs(not err and result.sessions or {}) do
      local row = '  session    %s: %d %s seen, %d of them stale'
      local name = session.label or session.sessionId
      local files = session.entries == 1 and 'file' or 'files'
      table.insert(lines, row:format(name, session.entries, files, session.stale))
    end
    say(lines)
  end)
end

local function show_log()
  local lines = require('abreast.log').lines()
  vim.cmd('botright new')
  local bufnr = api.nvim_get_current_buf()
  vim.bo[bufnr].buftype = 'nofile'
  vim.bo[bufnr].bufhidden = 'wipe'
  vim.bo[bufnr].swapfile = false
  api.nvim_buf_set_lines(bufnr, 0, -1, true, #lines > 0 and lines or { 'nothing happened yet' })
  vim.bo[bufnr].modifiable = false
  vim.bo[bufnr].filetype = 'abreastlog'
  api.nvim_win_set_cursor(0, { api.nvim_buf_line_count(bufnr), 0 })
end

--- @type table<string, fun()>
local commands = {
  status = status,
  log = show_log,
  restart = function()
    require('abreast').restart(function(err)
      say({ err and tostring(err) or 'abreast: running' })
    end)
  end,
  stop = function()
    require('abreast').stop()
  end,
  clear = function()
    require('abreast').clear()
  end,
}

--- @return string[]
local function names()
  local result = vim.tbl_keys(commands)
  table.sort(result)
  return result
end

--- @param args { fargs: string[] }
function M.run(args)
  local name = args.fargs[1] or 'status'
  local command = commands[name]
  if not command or #args.fargs > 1 then
    local usage = 'abreast: there is no `:Abreast %s`; there is: %s'
    local given = table.concat(args.fargs, ' ')
    vim.notify(usage:format(given, table.concat(names(), ', ')), vim.log.levels.ERROR)
    return
  end
  command()
end

--- @param lead string
--- @param line string
--- @return string[]
function M.complete(lead, line)
  if line:find('^%s*%S+%s+%S+%s') then
    return {}
  end
  return vim.tbl_filter(function(name)
    return vim.startswith(name, lead)
  end, names())
end

return M
