--- Why a call failed, in one form: whatever failed, callers branch on `code`.

local M = {}

--- @class Abreast.Error
--- @field code Abreast.ErrorCode|string
--- @field message string For people and models, with the remedy.
--- @field data table Details, as in the sidecar's protocol.md; may be empty.

--- @alias Abreast.ErrorCode
--- | 'FS_NOT_OBSERVED' the session has to read the file first
--- | 'FS_STALE_VERSION' somebody changed the file since; read it again
--- | 'FS_NOT_FOUND'
--- | 'FS_EDIT_NOT_FOUND' `oldString` is not in the file
--- | 'FS_AMBIGUOUS_EDIT' `oldString` is there more than once
--- | 'FS_EDITOR_REJECTED' the human is in the middle of something
--- | 'FS_CONFLICT' the buffer and the file on disk both changed
--- | 'FS_ABORTED' the call was cancelled
--- | 'SESSION_IN_USE'
--- | 'UNKNOWN_SESSION'
--- | 'INVALID_PARAMS'
--- | 'METHOD_NOT_FOUND' this sidecar does not have the method
--- | 'ABREAST_NOT_RUNNING' the sidecar could not be started, or was stopped
--- | 'ABREAST_STOPPED' the sidecar ended before it answered

local metatable = {
  __tostring = function(err)
    return ('%s: %s'):format(err.code, err.message)
  end,
}

--- @type table<integer, string>
local names = {
  [-32602] = 'INVALID_PARAMS',
  [-32601] = 'METHOD_NOT_FOUND',
  [-32800] = 'FS_ABORTED',
}

--- @param code string
--- @param message string
--- @param data? table
--- @return Abreast.Error
function M.new(code, message, data)
  return setmetatable({ code = code, message = message, data = data or {} }, metatable)
end

--- From what came over the wire.
--- @param err table
--- @param method string What was asked.
--- @return Abreast.Error
function M.from_wire(err, method)
  local data = type(err.data) == 'table' and err.data or {}
  local code = data.code or names[err.code]
  if not code then
    code = type(err.code) == 'string' and err.code or 'RPC_' .. tostring(err.code)
  end
  local message = err.message or 'no message'
  if code == 'METHOD_NOT_FOUND' then
    message = ('this sidecar does not have `%s` (yet); do without it, or update it'):format(method)
  end
  return M.new(code, message, data)
end

return M
