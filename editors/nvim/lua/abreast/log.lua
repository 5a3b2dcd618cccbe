--- What happened lately, for `:Abreast log`.
---
--- Invariant: file content never gets here; and no more than the last `MAX_ENTRIES` are kept.

local M = {}

local MAX_ENTRIES = 1000

--- @class (exact) Abreast.LogEntry
--- @field time integer Unix seconds.
--- @field level 'error'|'warn'|'info'|'debug'
--- @field message string

--- @type Abreast.LogEntry[]
local entries = {}

--- @param level 'error'|'warn'|'info'|'debug'
--- @param message string
function M.add(level, message)
  table.insert(entries, { time = os.time(), level = level, message = message })
  if #entries > MAX_ENTRIES then
    table.remove(entries, 1)
  end
end

--- @return Abreast.LogEntry[]
function M.entries()
  return entries
end

--- @return string[]
function M.lines()
  return vim.tbl_map(function(entry)
    local message = entry.message:gsub('%s*\n%s*', ' ')
    return ('%s %-5s %s'):format(os.date('%H:%M:%S', entry.time), entry.level, message)
  end, entries)
end

return M
