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

--- What is wrong with an option, if anything.
--- @param name string
--- @param value any
--- @return string? problem
local function problem_of(name, value)
  local expected = types[name]
  if not expected then
    return ('there is no option %q; see :help abreast-options'):format(name)
  elseif not vim.tbl_contains(expected, type(value)) then
    local kinds = table.concat(expected, ' or ')
    return ('option %q must be a %s, not a %s'):format(name, kinds, type(value))
  elseif choices[name] and not vim.tbl_contains(choices[name], value) then
    local names = table.concat(choices[name], ', ')
    return ('option %q must be one of %s, not %q'):format(name, names, value)
  end
end

--- Takes over what is right.
--- @param config table
--- @param options table
--- @param prefix string
--- @param problems string[] What is not is added here.
local function take(config, options, prefix, problems)
  for key, value in pairs(options) do
    local name = prefix .. tostring(key)
    local problem = problem_of(name, value)
    if problem then
      table.insert(problems, problem)
    elseif name == 'highlight' then
      take(config.highlight, value, 'highlight.', problems)
    else
      config[key] = value
    end
  end
end

--- @type Abreast.Config?
local current

--- What was wrong with the options.
--- @type string[]
M.problems = {}

--- Takes the user's options; what is absent or wrong has its default. A mistake must not end the
--- rest of the user's configuration, so it is only shown.
--- @param options? Abreast.Options
function M.set(options)
  local config = vim.deepcopy(defaults)
  local problems = {}
  if type(options or {}) == 'table' then
    take(config, options or {}, '', problems)
  else
    table.insert(problems, ('the options must be a table, not a %s'):format(type(options)))
  end
  table.sort(problems)
  current, M.problems = config, problems
  for _, problem in ipairs(problems) do
    vim.schedule(function()
      vim.notify('abreast: ' .. problem, vim.log.levels.ERROR)
    end)
  end
end

--- @return Abreast.Config
function M.get()
  if not current then
    M.set(vim.g.abreast)
  end
  return assert(current)
end

return M
