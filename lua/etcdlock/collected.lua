--- Tells of locks that were held, and that nobody kept: Lua has collected them, and so
-- they were released, perhaps in the middle of the work.
local host = require "etcdlock.wait.host"
local lock_options = require "etcdlock.lock_options"

local M = {}

local TEXT = "etcdlock: lock %q was released because Lua has collected it: nobody kept what"
  .. " client:lock had returned. Keep it until unlock, or use with_lock"

--- As its owner called it: `full` is one name with the prefix, or several.
local function name_of(client, full)
  local names = {}
  for one in (full .. "\0"):gmatch "(.-)%z" do
    names[#names + 1] = one:sub(#client._prefix + 1)
  end
  return lock_options.shown(names)
end

--- Tells of the latest one of `client`, if there is one since the last time: to its
-- `log`; without that the first time on standard error (in nginx its error log), and
-- then by `warn`, where Lua has it (5.4).
function M.tell(client)
  local full = client._core:collected()
  if not full then
    return
  end
  local message = TEXT:format(name_of(client, full))
  if client._log then
    client._log(message)
  elseif not client._has_told then
    client._has_told = true
    host.log(message)
  elseif warn then -- luacheck: ignore warn
    warn(message) -- luacheck: ignore warn
  end
end

return M
