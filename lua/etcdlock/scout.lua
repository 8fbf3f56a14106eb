--- Knows that etcd is out of reach, for those who mustn't find that out each by a wait
-- of their own; and finds out that it is back, by a read that is out until then.
local Scout = {}
Scout.__index = Scout

local LASTS = 5 -- seconds, then it is sent again
local SILENT = "etcd has not answered the last call"

--- One that reads `key`; that it may not is an answer, too.
function Scout.new(core_client, key)
  return setmetatable({ _core = core_client, _key = key }, Scout)
end

--- A call has found etcd out of reach.
function Scout:send()
  if self._out then
    return
  end
  local txn = self._core:txn()
  txn:get(self._key)
  if txn:start(LASTS) then
    self._out = txn
  end
end

--- Was the read that is out answered? nil: not yet.
local function is_answered(self)
  local ok, _, code = self._out:wait(0)
  if ok == false then
    return code ~= "unavailable"
  end
  return ok
end

local function is_away(self)
  if not self._out then
    return self._core:outage() ~= nil
  end
  local is_back = is_answered(self)
  if is_back ~= nil then
    self._out = nil
  end
  return not is_back
end

--- Why etcd is out of reach, as far as is known; nil if it isn't.
function Scout:outage()
  if not is_away(self) then
    return nil
  end
  self:send()
  return self._core:outage() or SILENT
end

return Scout
