--- What goes over the wire to the sidecar: the documents as it knows them, and our requests.
---
--- Neovim's own LSP client tracks the buffers. This module stands between it and the process, sees
--- each message, and so knows exactly which instance and version of each document the sidecar has.
---
--- Invariant: the sidecar can rebuild every open document from what it is sent. Where Neovim's
--- messages do not allow it, they are completed (a document that was renamed, a line end that was
--- switched, a change at the end of a text without a final line end), and a text that cannot be
--- sent at all is not: the document counts as unsynced, so that nobody writes its file.

local config = require('abreast.config')
local disk = require('abreast.disk')
local text = require('abreast.text')

local api = vim.api

local M = {}

--- A notification that only makes Neovim send what is pending; it does not reach the sidecar.
local FLUSH = '$/abreast/flush'

--- @class (exact) Abreast.Document
--- @field uri string As Neovim spells it.
--- @field bufnr? integer
--- @field is_open boolean The sidecar has it.
--- @field is_unsynced boolean Open here, but it cannot be sent.
--- @field instance integer How often it was opened on this connection.
--- @field version integer What was last sent.
--- @field tick integer What Neovim called it: its own number for that version.
--- @field is_ahead boolean What was sent has changes in it that Neovim has yet to report.
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
local Wire = {}
Wire.__index = Wire

--- @param rpc table What `vim.lsp.rpc.start` returned.
--- @return Abreast.Wire
function M.new(rpc)
  return setmetatable({ rpc = rpc, documents = {}, is_ending = false, pending = {} }, Wire)
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
        else
          callback(err, result)
        end
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
      tick = 0,
      is_ahead = false,
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

--- Neovim's number for the text as it is, sent or held back.
--- @param bufnr integer
--- @return integer?
local function tick_of(bufnr)
  return vim.tbl_get(vim.lsp.util, 'buf_versions', bufnr)
end

--- Notes that the sidecar has the text as it is.
--- @param document Abreast.Document
--- @param bufnr integer
local function note_sent(document, bufnr)
  document.tick = tick_of(bufnr) or document.tick
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
  document.is_ahead = false
  if bufnr then
    note_sent(document, bufnr)
  end
  local is_sent = self.rpc.notify('textDocument/didOpen', {
    textDocument = vim.tbl_extend('force', sent, { version = document.version }),
  })
  self:tell_state(document)
  return is_sent
end

--- Opens a document that Neovim only changes: one that got its name behind our back, or that could
--- not be sent before.
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

--- Sends the whole text. What is pending must have been sent before.
--- @param document Abreast.Document
--- @param bufnr integer
--- @return boolean
function Wire:send_full(document, bufnr)
  local content = text.full(bufnr)
  local why = why_unsynced(document, content, bufnr)
  if why then
    self:unsync(document, why)
    return true
  end
  document.version = document.version + 1
  document.is_ahead = document.is_ahead or (tick_of(bufnr) or document.tick) ~= document.tick
  note_sent(document, bufnr)
  return self.rpc.notify('textDocument/didChange', {
    textDocument = { uri = document.uri, version = document.version },
    contentChanges = { { text = content } },
  })
end

--- Neovim reports changes as if every text had a final line end. Where there is none, a position in
--- the line after the last means nothing.
--- @param document Abreast.Document
--- @param changes table[]
--- @return boolean
local function reach_past_end(document, changes)
  local n_lines = document.n_lines
  for _, change in ipairs(changes) do
    local range = change.range
    if not range or range['end'].line >= n_lines then
      return true
    end
    local _, n_breaks = change.text:gsub('\n', '')
    n_lines = n_lines + n_breaks - (range['end'].line - range.start.line)
  end
  return false
end

--- @param params table
--- @return boolean
function Wire:changed(params)
  local sent = params.textDocument
  local document = self:document(sent.uri)
  local bufnr = self:buffer(document)
  if document.is_unsynced or not bufnr then
    return true
  end
  if not document.is_open then
    return self:reopen(document, bufnr)
  end
  document.tick = sent.version or document.tick
  local is_usual = not document.is_ahead
    and document.endofline == vim.bo[bufnr].endofline
    and document.fileformat == vim.bo[bufnr].fileformat
    and (document.endofline or not reach_past_end(document, params.contentChanges))
  if not is_usual then
    document.is_ahead = false
    return self:send_full(document, bufnr)
  end
  for _, change in ipairs(params.contentChanges) do
    if not text.is_utf8(change.text) then
      self:unsync(document, document.uri .. ' holds bytes that are no UTF-8')
      return true
    end
  end
  -- Versions have to grow, also past one that we gave out ourselves.
  document.version = math.max(sent.version or 0, document.version + 1)
  note_sent(document, bufnr)
  return self.rpc.notify('textDocument/didChange', {
    textDocument = { uri = sent.uri, version = document.version },
    contentChanges = params.contentChanges,
  })
end

--- @param params table
--- @return boolean
function Wire:closed(params)
  local document = self.documents[params.textDocument.uri]
  if not document then
    return true
  end
  self:resync(document)
  if not document.is_open then
    return true
  end
  document.is_open = false
  document.told = nil
  return self.rpc.notify('textDocument/didClose', params)
end

--- @param method string
--- @param params any
--- @return boolean
function Wire:notify(method, params)
  if method == FLUSH then
    return true
  end
  local uri = type(params) == 'table' and vim.tbl_get(params, 'textDocument', 'uri')
  if not uri then
    return self.rpc.notify(method, params)
  elseif is_unnamed(uri) then
    -- Unnamed buffers all have this URI: they cannot be told apart.
    return true
  elseif method == 'textDocument/didOpen' then
    return self:opened(params)
  elseif method == 'textDocument/didChange' then
    return self:changed(params)
  elseif method == 'textDocument/didClose' then
    return self:closed(params)
  elseif method == 'textDocument/didSave' then
    local document = self.documents[uri]
    return not (document and document.is_open) or self.rpc.notify(method, params)
  end
  return self.rpc.notify(method, params)
end

--- Sends every change that Neovim still holds back, of any document.
function Wire:flush()
  local client = self.client_id and vim.lsp.get_client_by_id(self.client_id)
  if not client or not client.initialized then
    return
  end
  -- Public API: a notification flushes first. Its own name is never sent.
  if vim.fn.has('nvim-0.11') == 1 then
    client:notify(FLUSH)
  else
    client.notify(FLUSH)
  end
end

--- Makes the sidecar's text of an open document the buffer's, after `flush`: there may have been
--- a change that Neovim does not report, or a flush that did not send everything.
--- @param document Abreast.Document
function Wire:settle(document)
  local bufnr = self:buffer(document)
  if not bufnr then
    return
  end
  local bo = vim.bo[bufnr]
  local is_sent = (tick_of(bufnr) or document.tick) == document.tick
  local is_same_kind = document.endofline == bo.endofline and document.fileformat == bo.fileformat
  if not is_sent or not is_same_kind then
    self:send_full(document, bufnr)
  end
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
    -- What is held back is part of the text that is sent now.
    self:flush()
    self:reopen(document, bufnr)
  elseif document.is_open and not text.line_end(bufnr) then
    self:flush()
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
  for _, finish in ipairs(vim.tbl_keys(self.pending)) do
    finish({ code = 'ABREAST_STOPPED', message = message })
  end
end

return M
