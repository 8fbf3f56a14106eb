--- JSON that does not depend on the locale.
local cjson = require "cjson.safe"

local M = {}

-- cjson looks up the locale's decimal point only when an instance is made. A program may call
-- os.setlocale at any time, so each call makes an instance, which costs 3 µs.

--- The JSON of `value`; raises for what has none.
function M.encode(value)
  return assert(cjson.new().encode(value))
end

--- The value that `json` stands for; nil, message if it is no JSON.
function M.decode(json)
  return cjson.new().decode(json)
end

return M
