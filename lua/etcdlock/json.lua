--- JSON that is the same in every locale.
local cjson = require "cjson.safe"
local core = require "etcdlock.core"

local M = {}

-- An instance of cjson reads and writes numbers with the decimal point of the locale in which the
-- instance was created. A program may call os.setlocale at any time, so get_instance makes a new
-- instance when the decimal point (`instance_point`) has changed.
local instance, instance_point

local function get_instance()
  local point = core.decimal_point()
  if not instance or point ~= instance_point then
    -- If the decimal point has several bytes (locale ps_AF), cjson.new would abort the process. So
    -- the last instance stays in use; if there is none, the module cjson is the instance.
    instance = #point == 1 and cjson.new() or instance or cjson
    instance_point = point
  end
  return instance
end

--- Returns `value` as JSON. Raises if JSON cannot represent it.
function M.encode(value)
  return assert(get_instance().encode(value))
end

--- Returns the value of the text `json`; nil, message if it is not JSON.
function M.decode(json)
  return get_instance().decode(json)
end

return M
