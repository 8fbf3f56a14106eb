-- Calls etcd's JSON gateway without blocking the loop.

local http = require "spec.support.servers.http"
local json = require "dkjson"
local loop = require "spec.stress.loop"

-- post(port, path, request, seconds) suspends the coroutine until |port| of this host has answered.
-- Returns the answer, or nil and a message.
return function(port, path, request, seconds)
  local call = http.start(port, path, { body = next(request) and json.encode(request) or "{}" })
  if not loop.await(function() return call.done end, loop.now() + seconds) then
    call:abort()
    return nil, "no answer in time"
  end
  if call.status ~= 200 then return nil, call.failure or call.body end
  local answer = json.decode(call.body)
  return answer, not answer and "cut answer" or nil
end
