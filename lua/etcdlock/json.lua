--- JSON that is the same in every locale.
local dkjson = require "dkjson"

local M = {}

--- Returns `value` as JSON. Raises if JSON cannot represent it.
function M.encode(value)
  return assert(dkjson.encode(value))
end

--- Returns the value of the text `json`; nil if it is not JSON, and for `false` and `null`.
function M.decode(json)
  -- pcall, because dkjson raises if lists are nested too deeply.
  local ok, value = pcall(dkjson.decode, json)
  return ok and value or nil
end

return M
