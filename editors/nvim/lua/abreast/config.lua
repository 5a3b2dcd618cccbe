--- What the user can switch.
---
--- Invariant: what `get` returns is complete and was checked, so nobody else looks for defaults.

local M = {}

--- @class (exact) Abreast.HighlightConfig
--- @field enabled boolean Show what agents changed.
--- @field sign string Text of the sign on each changed line; '' for none.
--- @field virtual_text boolean Name the agent at the end of the first changed line.
--- @field clear_after_ms integer How long it is shown; 0: until `:Abreast clear`.

--- @class (exact) Abreast.Config
--- @field cmd? string|string[]|fun(dispatchers: table): table The sidecar; nil: it is looked for.
--- @field env? table<string, string> Environment variables of the sidecar.
--- @field autostart boolean Start with the first file. Otherwise with the first session.
--- @field root? string|fun(): string Workspace folder; nil: the Git root of the current directory.
--- @field follow_cwd boolean Add the workspace folder of a directory that you change to.
--- @field attach? fun(bufnr: integer): boolean Which files are shared; nil: all.
--- @field max_bytes integer Larger buffers are not shared, and agents cannot write their files.
--- @field position_encoding 'utf-8'|'utf-16' What the sidecar is asked to count columns in.
--- @field log_level 'error'|'warn'|'info'|'debug'|'trace' What the sidecar writes to the LSP log.
--- @field server table The sidecar's own options, as in its protocol.md.
--- @field notify boolean Say when the sidecar cannot start or ended.
--- @field highlight Abreast.HighlightConfig

--- @class Abreast.Options: Abreast.Config, {}
--- @field autostart? boolean
--- @field follow_cwd? boolean
--- @field max_bytes? integer
--- @field position_encoding? 'utf-8'|'utf-16'
--- @field log_level? 'error'|'warn'|'info'|'debug'|'trace'
--- @field server? table
--- @field notify? boolean
--- @field highlight? table

--- @type Abreast.Config
local defaults = {
  cmd = nil,
  env = nil,
  autostart = true,
  root = nil,
  follow_cwd = true,
  attach = nil,
  max_bytes = 16 * 1024 * 1024,
  position_encoding = 'utf-8',
  log_level = 'warn',
  server = {},
  notify = true,
  highlight = {
    enabled = true,
    sign = '▎',
    virtual_text = true,
    clear_after_ms = 30000,
  },
}

--- @type table<string, string[]>
local types = {
  ['cmd'] = { 'nil', 'string', 'table', 'function' },
  ['env'] = { 'nil', 'table' },
  ['autostart'] = { 'boolean' },
  ['root'] = { 'nil', 'string', 'function' },
  ['follow_cwd'] = { 'boolean' },
  ['attach'] = { 'nil', 'function' },
  ['max_bytes'] = { 'number' },
  ['position_encoding'] = { 'string' },
  ['log_level'] = { 'string' },
  ['server'] = { 'table' },
  ['notify'] = { 'boolean' },
  ['highlight'] = { 'table' },
  ['highlight.enabled'] = { 'boolean' },
  ['highlight.sign'] = { 'string' },
  ['highlight.virtual_text'] = { 'boolean' },
  ['highlight.clear_after_ms'] = { 'number' },
}

--- @type table<string, string[]>
local choices = {
  position_encoding = { 'utf-8', 'utf-16' },
  log_level = { 'error', 'warn', 'info', 'debug', 'trace' },
}

--- @param options table
--- @param prefix string
--- @return string? problem
local function check(options, prefix)
  for key, value in pairs(options) do
    local name = prefix .. tostring(key)
    local expected = types[name]
    if not expected then
      return ('there is no option %q; see :help abreast-options'):format(name)
    end
    if not vim.tbl_contains(expected, type(value)) then
      local kinds = table.concat(expected, ' or ')
      return ('option %q must be a %s, not a %s'):format(name, kinds, type(value))
    end
    if choices[name] and not vim.tbl_contains(choices[name], value) then
      local names = table.concat(choices[name], ', ')
      return ('option %q must be one of %s, not %q'):format(name, names, value)
    end
  end
  return type(options.highlight) == 'table'
      and prefix == ''
      and check(options.highlight, 'highlight.')
    or nil
end

--- @type Abreast.Config?
local current

--- Takes the user's options; what is absent has its default.
--- @param options? Abreast.Options
function M.set(options)
  options = options or {}
  local problem = check(options, '')
  if problem then
    error('abreast: ' .. problem, 0)
  end
  local config = vim.tbl_extend('force', defaults, options)
  config.highlight = vim.tbl_extend('force', defaults.highlight, options.highlight or {})
  current = config
end

--- @return Abreast.Config
function M.get()
  if not current then
    local ok, problem = pcall(M.set, vim.g.abreast)
    if not ok then
      M.set()
      vim.schedule(function()
        vim.notify(tostring(problem) .. ' (in g:abreast)', vim.log.levels.ERROR)
      end)
    end
  end
  return assert(current)
end

return M
