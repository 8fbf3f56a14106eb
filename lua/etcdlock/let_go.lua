--- What a lock still has of the core's when that was let go of with its key kept: what it
-- was. The rest is another's by then, or nobody's; nor is it kept from being collected.
local LetGo = {}
LetGo.__index = LetGo

function LetGo:token()
  return self._token
end

function LetGo:key()
  return self._key
end

function LetGo:lease()
  return self._lease
end

--- It wasn't lost,
function LetGo.loss() end

--- nor has its request ended first,
function LetGo.is_outlived()
  return false
end

--- but it has ended.
function LetGo.wait_ended()
  return true
end

--- Of a core lock.
return function(core_lock)
  return setmetatable({
    _token = core_lock:token(), _key = core_lock:key(), _lease = core_lock:lease(),
  }, LetGo)
end
