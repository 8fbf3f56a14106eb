-- Calls etcd's JSON gateway without blocking the loop.

local json = require "dkjson"
local loop = require "spec.stress.loop"
local uv = require "luv"

local REQUEST = "POST %s HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
  .. "Content-Length: %d\r\n\r\n%s"

-- post(port, path, request, seconds) suspends the coroutine until |port| of this host has answered.
-- Returns the answer, or nil and a message.
return function(port, path, request, seconds)
  local body, call = next(request) and json.encode(request) or "{}", { text = "" }
  local socket = uv.new_tcp()
  local function finish(failure)
    call.is_over, call.failure = true, call.failure or failure
    if not socket:is_closing() then socket:close() end
  end
  socket:connect("127.0.0.1", tonumber(port), function(failure)
    if failure then return finish(failure) end
    socket:write(REQUEST:format(path, #body, body))
    socket:read_start(function(reading, data)
      if data then
        call.text = call.text .. data
      else
        finish(reading)
      end
    end)
  end)
  if not loop.await(function() return call.is_over end, loop.now() + seconds) then
    finish "no answer in time"
  end
  local status, answer = call.text:match "^HTTP/1%.%d (%d+).-\r\n\r\n(.*)$"
  if status ~= "200" then return nil, call.failure or answer or "no answer" end
  local ok, result = pcall(json.decode, answer)
  if not ok then return nil, "cut answer" end
  return result
end
