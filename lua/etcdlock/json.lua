--- JSON that does not depend on the locale.
local cjson = require "cjson.safe"
local core = require "etcdlock.core"

local M = {}

-- An instance of cjson reads and writes numbers with the decimal point that the locale had when the
-- instance was made, and a program may call os.setlocale at any time.
local instance, instance_point

local function current()
  local point = core.decimal_point()
  if not instance or point ~= instance_point then
    -- cjson aborts the process if it makes an instance while the point has several bytes (ps_AF).
    instance = #point == 1 and cjson.new() or instance or cjson
    instance_point = point
  end
  return instance
end

--- The JSON of `value`; raises for what has none.
function M.encode(value)
  return assert(current().encode(value))
end

--- The value that `json` stands for; nil, message if it is no JSON.
function M.decode(json)
  return current().decode(json)
end

return M
