--- `:checkhealth abreast`.

local binary = require('abreast.binary')
local client = require('abreast.client')
local config = require('abreast.config')

local health = vim.health

local M = {}

local function check_neovim()
  health.start('Neovim')
  local version = tostring(vim.version())
  if vim.fn.has('nvim-0.10') == 1 then
    health.ok('version ' .. version)
  else
    health.error('version ' .. version, 'update Neovim to 0.10 or newer')
  end
  if vim.o.autoread then
    health.ok("'autoread' is on: a file that changed on disk is reloaded before an agent reads it")
  else
    health.warn("'autoread' is off: a file that changed on disk counts as a conflict", {
      'set autoread, or reload such files yourself with :checktime',
    })
  end
  if vim.o.encoding == 'utf-8' then
    health.ok("'encoding' is utf-8")
  else
    health.error("'encoding' is " .. vim.o.encoding, 'set it to utf-8')
  end
end

local function check_sidecar()
  health.start('Sidecar')
  local found, problem = binary.find()
  if not found then
    health.error(problem, 'see :help abreast-install')
    return
  end
  if #found.cmd > 0 then
    local version, why = binary.version(found)
    local name = table.concat(found.cmd, ' ')
    if version then
      health.ok(('%s, version %s (from %s)'):format(name, version, found.from))
    else
      health.error(('%s: %s'):format(name, why), 'reinstall it; see :help abreast-install')
    end
  end
  local it = client.get()
  if it.state == 'running' then
    local server = assert(it.server)
    health.ok(('it runs, and speaks version %d of the protocol'):format(server.protocol))
  elseif it.state == 'failed' then
    health.error('it does not run: ' .. tostring(it.problem), 'then :Abreast restart')
  elseif it.is_stopped_by_user then
    health.info('it was stopped; :Abreast restart starts it')
  else
    health.info('it does not run yet; the first file or the first session starts it')
  end
end

local function check_options()
  for _, problem in ipairs(config.problems) do
    health.error(problem, 'correct it; until then the default holds')
  end
  for _, warning in ipairs(client.get().warnings) do
    health.warn('the sidecar warned: ' .. warning, ':Abreast log shows all that it says')
  end
end

--- @param folders table[]
local function check_containment(folders)
  local server = client.get().used.server
  if server.containment == 'readOnly' then
    health.ok('agents may write nothing (`server.containment` is "readOnly")')
    return
  elseif server.containment == 'none' then
    health.warn('agents may write everywhere (`server.containment` is "none")')
  else
    local roots = vim.tbl_map(function(folder)
      return vim.uri_to_fname(folder.uri)
    end, folders)
    vim.list_extend(roots, server.extraRoots or {})
    local env = client.get().used.env or {}
    table.insert(roots, env.TMPDIR or vim.env.TMPDIR or '/tmp')
    for _, root in ipairs(roots) do
      health.ok('agents may write below ' .. root)
    end
  end
  local globs = server.protected or { '**/.git/**' }
  if #globs > 0 then
    health.ok('but not what matches ' .. table.concat(globs, ', '))
  end
end

local function check_guard()
  local lsp_client = client.lsp_client()
  if not lsp_client or client.get().state ~= 'running' then
    return
  end
  health.start('Guard')
  local handler = lsp_client.handlers['workspace/applyEdit']
  local source = handler and debug.getinfo(handler, 'S').source or ''
  if source:find('abreast[/\\]handlers.lua$') then
    health.ok('edits of agents are checked by the strict handler')
  else
    health.error('another plugin replaced the handler of workspace/applyEdit', {
      'find the plugin that changes handlers of all LSP clients, and exclude "abreast"',
    })
  end
  local encoding = lsp_client.offset_encoding
  if encoding == config.get().position_encoding then
    health.ok('positions are counted in ' .. encoding)
  else
    health.warn(
      ('positions are counted in %s, not %s'):format(encoding, config.get().position_encoding)
    )
  end
  check_containment(lsp_client.workspace_folders or {})
end

local function check_documents()
  local status = require('abreast').status()
  if status.state ~= 'running' then
    return
  end
  health.start('Documents')
  health.ok(('%d shared with agents'):format(status.documents))
  for _, uri in ipairs(status.unsynced) do
    health.warn(uri .. ' is open and cannot be shared; agents cannot write it', {
      ':Abreast log says why; :help abreast-limits',
    })
  end
  local wire = assert(client.get().wire)
  for uri, document in pairs(wire.documents) do
    if document.is_open and document.told and document.told.conflict then
      local where = document.told.dirty and 'on disk and in the buffer' or 'on disk'
      health.warn(('%s changed %s; agents cannot change it'):format(uri, where), {
        'write it with :w! or reload it with :e!',
      })
    end
  end
end

function M.check()
  check_neovim()
  check_sidecar()
  check_options()
  check_guard()
  check_documents()
end

return M
