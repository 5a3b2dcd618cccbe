--- What goes over the wire to the sidecar: the documents as it knows them, and our requests.
---
--- Neovim's own LSP client says when a buffer is opened, saved and closed; what changes in it is
--- listened for here (`report`). This module stands between the client and the process, and knows
--- exactly which instance and version of each document the sidecar has.
---
--- Invariant: the sidecar can rebuild every open document from what it is sent. Where changes do
--- not say it all, the whole text is sent (a line end that was switched, a change at the end of a
--- text without a final line end, something that nobody reported); and a text that cannot be sent
--- at all is not: the document counts as unsynced, so that nobody writes its file.

local config = require('abreast.config')
local disk = require('abreast.disk')
local reports = require('abreast.report')
local text = require('abreast.text')

local api = vim.api

local M = {}

--- @class (exact) Abreast.Document
--- @field uri string As Neovim spells it.
--- @field bufnr? integer
--- @field is_open boolean The sidecar has it.
--- @field is_unsynced boolean Open here, but it cannot be sent.
--- @field instance integer How often it was opened on this connection.
--- @field version integer What was last sent.
--- @field report? Abreast.Report Of the buffer, while the document is open.
--- @field endofline boolean What was last sent.
--- @field fileformat string What was last sent.
--- @field n_lines integer What was last sent.
--- @field told? table The last `abreast/documentState`.

--- @class Abreast.Wire
--- @field documents table<string, Abreast.Document> By URI.
--- @field client_id? integer
--- @field is_ending boolean Somebody has asked the process to end.
--- @field private rpc table
--- @field private pending table<fun(err: table?, result: any), true>
--- @field private due table<Abreast.Document, true> What has changed since it was sent.
local Wire = {}
Wire.__index = Wire

--- @param rpc table What `vim.lsp.rpc.start` returned.
--- @return Abreast.Wire
function M.new(rpc)
  return setmetatable({
    rpc = rpc,
    documents = {},
    is_ending = false,
    pending = {},
    due = {},
  }, Wire)
end

--- What Neovim's client talks to instead of the process.
--- @param on_initialized fun(err: table?, result: table?): string? Returns a problem, if any.
--- @return table
function Wire:public(on_initialized)
  local rpc = self.rpc
  return {
    is_closing = rpc.is_closing,
    terminate = function()
      self.is_ending = true
      rpc.terminate()
    end,
    notify = function(method, params)
      return self:notify(method, params)
    end,
    request = function(method, params, callback, on_reply)
      self.is_ending = self.is_ending or method == 'shutdown'
      if method ~= 'initialize' then
        return rpc.request(method, params, callback, on_reply)
      end
      return rpc.request(method, params, function(err, result)
        if on_initialized(err, result) then
          rpc.terminate()
          return
        end
        local sync = vim.tbl_get(result, 'capabilities', 'textDocumentSync')
        if type(sync) == 'table' then
          -- Changes are listened for here; Neovim's client keeps no copy of the lines then.
          sync.change = vim.lsp.protocol.TextDocumentSyncKind.None
        end
        callback(err, result)
      end, on_reply)
    end,
  }
end

--- @param uri string
--- @return integer?
local function find_buffer(uri)
  for _, bufnr in ipairs(api.nvim_list_bufs()) do
    if api.nvim_buf_is_loaded(bufnr) and vim.uri_from_bufnr(bufnr) == uri then
      return bufnr
    end
  end
end

--- @param uri string
--- @return boolean
local function is_unnamed(uri)
  return uri == 'file://' or uri == 'file:///'
end

--- @param uri string
--- @return Abreast.Document
function Wire:document(uri)
  local document = self.documents[uri]
  if not document then
    document = {
      uri = uri,
      bufnr = nil,
      is_open = false,
      is_unsynced = false,
      instance = 0,
      version = 0,
      report = nil,
      endofline = true,
      fileformat = 'unix',
      n_lines = 0,
      told = nil,
    }
    self.documents[uri] = document
  end
  return document
end

--- Says which buffer a document is that Neovim is about to open.
--- @param bufnr integer
function Wire:expect(bufnr)
  self:document(vim.uri_from_bufnr(bufnr)).bufnr = bufnr
end

--- The open document under a URI that may be spelled otherwise (`%C3` for `%c3`).
--- @param uri string
--- @return Abreast.Document?
function Wire:find(uri)
  local document = self.documents[uri]
  if document and document.is_open then
    return document
  end
  local ok, path = pcall(vim.uri_to_fname, uri)
  if not ok or not vim.startswith(uri, 'file:') then
    return nil
  end
  document = self.documents[vim.uri_from_fname(path)]
  return document and document.is_open and document or nil
end

--- The loaded buffer that still is the document.
--- @param document Abreast.Document
--- @return integer?
function Wire:buffer(document)
  local function is_it(bufnr)
    return bufnr and api.nvim_buf_is_loaded(bufnr) and vim.uri_from_bufnr(bufnr) == document.uri
  end
  if not is_it(document.bufnr) then
    document.bufnr = find_buffer(document.uri)
  end
  return document.bufnr
end

--- @param bufnr integer
--- @return Abreast.Document?
function Wire:of_buffer(bufnr)
  local document = self.documents[vim.uri_from_bufnr(bufnr)]
  return document and self:buffer(document) == bufnr and document or nil
end

--- Notes that the sidecar has the text as it is.
--- @param document Abreast.Document
--- @param bufnr integer
local function note_sent(document, bufnr)
  document.endofline = vim.bo[bufnr].endofline
  document.fileformat = vim.bo[bufnr].fileformat
  document.n_lines = api.nvim_buf_line_count(bufnr)
end

--- @param document Abreast.Document
--- @param content string
--- @param bufnr integer
--- @return string? why The text cannot be sent.
local function why_unsynced(document, content, bufnr)
  if not text.line_end(bufnr) then
    return document.uri .. " has 'fileformat' mac"
  elseif #content > config.get().max_bytes then
    return document.uri .. ' has more than `max_bytes`'
  elseif not text.is_utf8(content) then
    return document.uri .. ' holds bytes that are no UTF-8'
  end
end

--- Texts from this size on leave so much garbage that collecting it bit by bit slows the next keys
--- down (10 ms each after 14 MB).
local LARGE_BYTES = 1024 * 1024

--- @param content string
local function clean_up_after(content)
  if #content >= LARGE_BYTES then
    vim.schedule(function()
      collectgarbage()
    end)
  end
end

--- @param document Abreast.Document
local function stop_report(document)
  if document.report then
    document.report:stop()
    document.report = nil
  end
end

--- The file is open here, but agents must neither read it from here nor write it.
--- @param document Abreast.Document
--- @param why string
function Wire:unsync(document, why)
  require('abreast.log').add('warn', why .. '; agents cannot write it')
  if document.is_open then
    self.rpc.notify('textDocument/didClose', { textDocument = { uri = document.uri } })
  end
  document.is_open = false
  document.is_unsynced = true
  document.told = nil
  stop_report(document)
  self.rpc.notify('abreast/documentState', { uri = document.uri, unsynced = true })
end

--- Takes back `unsync`.
--- @param document Abreast.Document
function Wire:resync(document)
  if document.is_unsynced then
    document.is_unsynced = false
    self.rpc.notify('abreast/documentState', { uri = document.uri, unsynced = false })
  end
end

--- Tells what the sidecar cannot know otherwise, if it is news.
--- @param document Abreast.Document
function Wire:tell_state(document)
  local bufnr = document.is_open and self:buffer(document)
  if not bufnr then
    return
  end
  local encoding = vim.bo[bufnr].fileencoding
  local state = {
    uri = document.uri,
    encoding = encoding ~= '' and encoding or vim.o.encoding,
    eol = vim.bo[bufnr].fileformat == 'dos' and 'crlf' or 'lf',
    dirty = vim.bo[bufnr].modified,
    readOnly = vim.bo[bufnr].readonly or not vim.bo[bufnr].modifiable,
    conflict = disk.is_conflict(bufnr),
  }
  if not vim.deep_equal(state, document.told) then
    document.told = state
    self.rpc.notify('abreast/documentState', state)
  end
end

--- @param params table
--- @return boolean
function Wire:opened(params)
  local sent = params.textDocument
  local document = self:document(sent.uri)
  local bufnr = self:buffer(document)
  local why = bufnr and why_unsynced(document, sent.text, bufnr)
  if why then
    self:unsync(document, why)
    return true
  end
  if document.is_open then
    self.rpc.notify('textDocument/didClose', { textDocument = { uri = sent.uri } })
  end
  self:resync(document)
  document.is_open = true
  document.instance = document.instance + 1
  document.version = sent.version or 0
  document.told = nil
  stop_report(document)
  if bufnr then
    note_sent(document, bufnr)
    document.report = reports.start(bufnr, function()
      self:flush_soon(document)
    end)
  end
  local is_sent = self.rpc.notify('textDocument/didOpen', {
    textDocument = vim.tbl_extend('force', sent, { version = document.version }),
  })
  self:tell_state(document)
  clean_up_after(sent.text)
  return is_sent
end

--- Opens a document that Neovim's client does not open: one that could not be sent before.
--- @param document Abreast.Document
--- @param bufnr integer
--- @return boolean
function Wire:reopen(document, bufnr)
  return self:opened({
    textDocument = {
      uri = document.uri,
      version = document.version + 1,
      languageId = vim.bo[bufnr].filetype,
      text = text.full(bufnr),
    },
  })
end

--- @param document Abreast.Document
--- @param changes table[]
function Wire:send_changes(document, changes)
  document.version = document.version + 1
  self.rpc.notify('textDocument/didChange', {
    textDocument = { uri = document.uri, version = document.version },
    contentChanges = changes,
  })
end

--- Sends the whole text.
--- @param document Abreast.Document
--- @param bufnr integer
function Wire:send_full(document, bufnr)
  local content = text.full(bufnr)
  local why = why_unsynced(document, content, bufnr)
  if why then
    self:unsync(document, why)
    return
  end
  note_sent(document, bufnr)
  document.report:reset()
  self:send_changes(document, { { text = content } })
  clean_up_after(content)
end

--- Makes the sidecar's text of an open document the buffer's.
--- @param document Abreast.Document
function Wire:settle(document)
  local bufnr = document.is_open and self:buffer(document)
  if not bufnr or not document.report then
    return
  end
  local bo = vim.bo[bufnr]
  local is_same_kind = document.endofline == bo.endofline and document.fileformat == bo.fileformat
  local reported = document.report:take()
  local changes = is_same_kind
    and reported
    and reports.for_wire(reported, document.n_lines, bo.endofline, text.line_end(bufnr))
  if not changes then
    return self:send_full(document, bufnr)
  elseif #changes == 0 then
    return
  end
  for _, change in ipairs(changes) do
    if not text.is_utf8(change.text) then
      return self:unsync(document, document.uri .. ' holds bytes that are no UTF-8')
    end
  end
  note_sent(document, bufnr)
  self:send_changes(document, changes)
end

--- Sends what Neovim has reported, of every document.
function Wire:flush()
  local due = self.due
  self.due = {}
  for document in pairs(due) do
    self:settle(document)
  end
end

--- Sends it as soon as the command that makes the changes is done.
--- @param document Abreast.Document
function Wire:flush_soon(document)
  if not next(self.due) then
    vim.schedule(function()
      self:flush()
    end)
  end
  self.due[document] = true
end

--- @param params table
--- @return boolean
function Wire:closed(params)
  local document = self.documents[params.textDocument.uri]
  if not document or not document.is_open then
    return true
  end
  document.is_open = false
  document.told = nil
  stop_report(document)
  return self.rpc.notify('textDocument/didClose', params)
end

--- @param method string
--- @param params any
--- @return boolean
function Wire:notify(method, params)
  local uri = type(params) == 'table' and vim.tbl_get(params, 'textDocument', 'uri')
  if not uri then
    return self.rpc.notify(method, params)
  elseif is_unnamed(uri) then
    -- Unnamed buffers all have this URI: they cannot be told apart.
    return true
  elseif method == 'textDocument/didOpen' then
    return self:opened(params)
  elseif method == 'textDocument/didClose' then
    return self:closed(params)
  elseif method == 'textDocument/didSave' then
    local document = self.documents[uri]
    if not document or not document.is_open then
      return true
    end
    -- What was saved was typed before.
    self:settle(document)
  end
  return self.rpc.notify(method, params)
end

--- Looks again at the document of an attached buffer: one that was not sent can perhaps be sent
--- now, or the other way round.
--- @param document Abreast.Document
function Wire:review(document)
  local bufnr = self:buffer(document)
  if not bufnr or not vim.lsp.buf_is_attached(bufnr, self.client_id) then
    return
  end
  if not document.is_open and not why_unsynced(document, text.full(bufnr), bufnr) then
    self:reopen(document, bufnr)
  elseif document.is_open and not text.line_end(bufnr) then
    self:settle(document)
  end
end

--- Sends a request of ours. `on_done` is called exactly once, never before this returns.
--- @param method string
--- @param params table
--- @param on_done fun(err: table?, result: any)
--- @return fun() cancel
function Wire:request(method, params, on_done)
  self:flush()
  local finish --- @type fun(err: table?, result: any)
  local is_done = false
  finish = function(err, result)
    if not is_done then
      is_done = true
      self.pending[finish] = nil
      on_done(err, result)
    end
  end
  self.pending[finish] = true
  local is_sent, id = self.rpc.request(method, params, finish, function()
    -- Neovim keeps the answer "cancelled" to itself; it only says that there was one.
    vim.schedule(function()
      finish({ code = -32800, message = 'cancelled' })
    end)
  end)
  if not is_sent then
    vim.schedule(function()
      finish({ code = 'ABREAST_STOPPED', message = 'the sidecar has ended' })
    end)
  end
  return function()
    if id and not is_done then
      self.rpc.notify('$/cancelRequest', { id = id })
    end
  end
end

--- The process has ended: nobody will answer any more.
--- @param message string
function Wire:ended(message)
  for _, document in pairs(self.documents) do
    stop_report(document)
  end
  for _, finish in ipairs(vim.tbl_keys(self.pending)) do
    finish({ code = 'ABREAST_STOPPED', message = message })
  end
end

return M
