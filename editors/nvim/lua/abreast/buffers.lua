--- Which buffers are shared with the sidecar, and what is told of them beside their text.
---
--- Invariant: a buffer is shared under the name it has, or not at all.

local calm = require('abreast.calm')
local config = require('abreast.config')
local disk = require('abreast.disk')
local reports = require('abreast.report')

local api = vim.api

local M = {}

local function client()
  return require('abreast.client')
end

--- @return Abreast.ClientState
local function state()
  return client().get()
end

--- @param bufnr integer
--- @return boolean
local function is_file(bufnr)
  if not api.nvim_buf_is_loaded(bufnr) or vim.bo[bufnr].buftype ~= '' then
    return false
  end
  local name = api.nvim_buf_get_name(bufnr)
  return name ~= ''
    and vim.startswith(vim.uri_from_bufnr(bufnr), 'file:')
    and vim.fn.isdirectory(name) == 0
end

--- @param bufnr integer
--- @return string? why It is not to be shared.
local function why_not(bufnr)
  local options = config.get()
  if options.attach and not options.attach(bufnr) then
    return 'is left out by the option `attach`'
  end
  local n_bytes = api.nvim_buf_get_offset(bufnr, api.nvim_buf_line_count(bufnr))
  if n_bytes > options.max_bytes then
    return 'has more than `max_bytes`'
  end
end

--- @param bufnr integer
local function attach(bufnr)
  local wire = assert(state().wire)
  wire:expect(bufnr)
  disk.note_late(bufnr)
  local document = wire:document(vim.uri_from_bufnr(bufnr))
  local why = why_not(bufnr)
  if why then
    if not document.is_unsynced then
      wire:unsync(document, document.uri .. ' ' .. why)
    end
  elseif vim.lsp.buf_attach_client(bufnr, assert(state().client_id)) then
    -- It may have been attached before it had a name.
    wire:review(document)
  end
end

--- Shares a buffer, if it is a file; starts the sidecar with the first.
--- @param bufnr integer
function M.on_buffer(bufnr)
  if not is_file(bufnr) then
    return
  end
  local it = state()
  if it.state == 'running' then
    attach(bufnr)
  elseif it.state == 'stopped' and config.get().autostart and not it.is_stopped_by_user then
    -- Not before the file is on the screen.
    vim.schedule(function()
      if it.state == 'stopped' and not it.is_stopped_by_user then
        client().start()
      end
    end)
  end
end

function M.on_buffers()
  for _, bufnr in ipairs(api.nvim_list_bufs()) do
    M.on_buffer(bufnr)
  end
end

--- @param bufnr integer
--- @return Abreast.Wire?
--- @return Abreast.Document? document The buffer's, if it was ever shared.
local function document_of(bufnr)
  local wire = state().wire
  local document = wire and wire:of_buffer(bufnr)
  if document then
    return wire, document
  end
end

--- Buffers that are about to be unloaded or renamed.
--- @type table<integer, true>
local is_leaving = {}

--- @param bufnr integer
local function leaves(bufnr)
  is_leaving[bufnr] = true
  vim.schedule(function()
    is_leaving[bufnr] = nil
  end)
end

--- Neovim would close the document under its new name.
--- @param bufnr integer
local function before_rename(bufnr)
  local wire, document = document_of(bufnr)
  if wire and document then
    wire:settle(document)
    wire:resync(document)
  end
  leaves(bufnr)
  local client_id = state().client_id
  if client_id and vim.lsp.buf_is_attached(bufnr, client_id) then
    vim.lsp.buf_detach_client(bufnr, client_id)
  elseif not document then
    return
  end
  disk.forget(bufnr)
  -- BufFilePost attaches it again, and does not come if the renaming fails.
  vim.schedule(function()
    if api.nvim_buf_is_valid(bufnr) then
      M.on_buffer(bufnr)
    end
  end)
end

--- @param bufnr integer
local function tell_state(bufnr)
  local wire, document = document_of(bufnr)
  if wire and document then
    wire:review(document)
    wire:tell_state(document)
  end
end

--- @param bufnr integer
local function on_unload(bufnr)
  leaves(bufnr)
  disk.forget(bufnr)
  local wire, document = document_of(bufnr)
  if wire and document then
    wire:settle(document)
    wire:resync(document)
  end
end

--- Somebody has detached our client from a buffer that stays: its file is not to be written under
--- it. Neovim detaches it by itself when the buffer goes or gets another name.
--- @param bufnr integer
local function on_detach(bufnr)
  local wire, document = document_of(bufnr)
  if wire and document and document.is_open and is_file(bufnr) and not is_leaving[bufnr] then
    wire:unsync(document, document.uri .. ' was detached from the client "abreast"')
  end
end

--- The workspace folder for a directory.
--- @param dir string
--- @return string
function M.root_of(dir)
  local root = config.get().root
  if type(root) == 'function' then
    root = root()
  end
  return vim.fs.normalize(root or vim.fs.root(dir, '.git') or dir)
end

--- @param dir string
local function add_folder(dir)
  local lsp_client = client().lsp_client()
  if not lsp_client or state().state ~= 'running' or not config.get().follow_cwd then
    return
  end
  local root = M.root_of(dir)
  local folders = lsp_client.workspace_folders or {}
  for _, folder in ipairs(folders) do
    local path = vim.uri_to_fname(folder.uri)
    if root == path or vim.startswith(root, path == '/' and path or path .. '/') then
      return
    end
  end
  local folder = { uri = vim.uri_from_fname(root), name = root }
  lsp_client.workspace_folders = vim.list_extend({ folder }, folders)
  assert(state().wire):notify('workspace/didChangeWorkspaceFolders', {
    event = { added = { folder }, removed = {} },
  })
end

--- Follows what happens to buffers, once the sidecar is wanted.
function M.watch()
  local group = api.nvim_create_augroup('abreast.client', {})
  local function on(events, pattern, callback)
    api.nvim_create_autocmd(events, { group = group, pattern = pattern, callback = callback })
  end
  calm.watch(group)
  reports.watch(group)
  on('BufReadPre', '*', function(args)
    disk.note(args.buf)
  end)
  on('BufNewFile', '*', function(args)
    disk.note(args.buf)
  end)
  on('BufFilePre', '*', function(args)
    before_rename(args.buf)
  end)
  on('BufWritePost', '*', function(args)
    -- `:w other` writes another file.
    if vim.fs.normalize(args.match) == vim.fs.normalize(api.nvim_buf_get_name(args.buf)) then
      disk.note(args.buf)
    end
    tell_state(args.buf)
  end)
  on({ 'BufModifiedSet', 'FileChangedShellPost' }, '*', function(args)
    tell_state(args.buf)
  end)
  on('OptionSet', { 'readonly', 'modifiable', 'fileencoding', 'fileformat' }, function(args)
    tell_state(args.buf ~= 0 and args.buf or api.nvim_get_current_buf())
  end)
  on('BufUnload', '*', function(args)
    on_unload(args.buf)
  end)
  on('LspDetach', '*', function(args)
    if args.data.client_id == state().client_id then
      on_detach(args.buf)
    end
  end)
  on('DirChanged', 'global', function()
    add_folder(vim.fn.getcwd(-1, -1))
  end)
end

return M
