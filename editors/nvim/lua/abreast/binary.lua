--- Where the sidecar is.
---
--- Looked for in this order: the option `cmd`, `$PATH`, a build in the repository that this plugin
--- is part of. Invariant: nothing is started here but `--version`, and only when asked for.

local config = require('abreast.config')

local M = {}

--- @class (exact) Abreast.Binary
--- @field cmd string[] Program and arguments that come before ours.
--- @field from string Where it was found, for people.

--- The repository's directory, if this plugin is used from a clone of it.
--- @return string?
function M.repository()
  local source = debug.getinfo(1, 'S').source:sub(2)
  local here = vim.uv.fs_realpath(source)
  -- …/editors/nvim/lua/abreast/binary.lua
  local root = here and vim.fn.fnamemodify(here, ':h:h:h:h:h')
  if root and vim.uv.fs_stat(root .. '/Cargo.toml') then
    return root
  end
end

--- The newest build in the repository.
--- @return string?
local function built()
  local root = M.repository()
  local best, best_time --- @type string?, integer?
  for _, profile in ipairs(root and { 'release', 'debug' } or {}) do
    local path = vim.fn.exepath(('%s/target/%s/abreast'):format(root, profile))
    local stat = path ~= '' and vim.uv.fs_stat(path)
    if stat and (not best_time or stat.mtime.sec > best_time) then
      best, best_time = path, stat.mtime.sec
    end
  end
  return best
end

--- @return string
local function remedy()
  local root = M.repository()
  local build = root and ('run `cargo build --release` in ' .. root)
    or 'run `cargo install --path .` in a clone of the abreast repository'
  return build .. ', or set the option `cmd` (:help abreast-install)'
end

--- @return Abreast.Binary?
--- @return string? problem What is wrong and what to do.
function M.find()
  local cmd = config.get().cmd
  if type(cmd) == 'function' then
    return { cmd = {}, from = 'the option `cmd` (a function)' }
  end
  if cmd then
    local words = type(cmd) == 'table' and vim.deepcopy(cmd) or { cmd }
    --- @cast words string[]
    local path = vim.fn.exepath(vim.fn.expand(words[1] or ''))
    if path == '' then
      local problem = 'the option `cmd` names %q, which is no program that can be run; correct it, '
        .. 'or remove it to have the sidecar looked for'
      return nil, problem:format(tostring(words[1]))
    end
    words[1] = path
    return { cmd = words, from = 'the option `cmd`' }
  end
  local path = vim.fn.exepath('abreast')
  if path ~= '' then
    return { cmd = { path }, from = '$PATH' }
  end
  local build = built()
  if build then
    return { cmd = { build }, from = 'the build in the repository' }
  end
  return nil, 'the sidecar `abreast` is not installed: ' .. remedy()
end

--- Asks the program for its version.
--- @param binary Abreast.Binary
--- @return string? version
--- @return string? problem
function M.version(binary)
  local cmd = vim.list_extend(vim.deepcopy(binary.cmd), { '--version' })
  local ok, result = pcall(function()
    return vim.system(cmd, { text = true, timeout = 3000 }):wait()
  end)
  if not ok then
    return nil, tostring(result)
  end
  local version = result.stdout and result.stdout:match('^abreast (%S+)')
  if not version then
    return nil, ('`%s` does not answer like abreast'):format(table.concat(cmd, ' '))
  end
  return version
end

return M
