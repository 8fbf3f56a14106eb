-- Hand-offs of the lock "handoff" between contenders that hold it for 0 ms. Each
-- tells of its holds in lines "TOKEN GOT LEFT": when lock() returned and when
-- unlock() was called, in ns on the clock that all processes share.

local proc = require "spec.support.programs.proc"

local M = {}

local CONTENDER = [[
  local endpoint, holds = ...
  local uv = require "luv"
  local client = assert(require("etcdlock").connect { endpoints = endpoint })
  assert(client:ping())
  local lines = {}
  print "ready"
  io.read()
  for i = 1, tonumber(holds) do
    local lock = assert(client:lock "handoff")
    local got = uv.hrtime()
    local token = lock:token()
    local left = uv.hrtime()
    assert(lock:unlock())
    lines[i] = ("%.0f %.0f %.0f"):format(token, got, left)
  end
  print(table.concat(lines, "\n"))
  client:close()
]]

-- A contender that is ready to take the lock |holds| times: send it a line.
function M.contender(endpoint, holds)
  local child = proc.lua(CONTENDER, endpoint, holds)
  child:expect "^ready"
  return child
end

-- What it tells, when it is done.
function M.holds_of(child, holds)
  local lines = {}
  for i = 1, holds do lines[i] = child:expect("^(%d+ %d+ %d+)$", 60) end
  child:wait()
  return table.concat(lines, "\n")
end

-- |told|: contender -> its lines. Returns contender -> list of the ms that passed
-- from another's unlock() to its lock().
function M.times(told)
  local holds, to = {}, {}
  for by, text in pairs(told) do
    to[by] = {}
    for token, got, left in text:gmatch "(%d+) (%d+) (%d+)" do
      holds[#holds + 1] = {
        by = by, token = tonumber(token), got = tonumber(got), left = tonumber(left),
      }
    end
  end
  table.sort(holds, function(a, b) return a.token < b.token end)
  for i = 2, #holds do
    local now, before = holds[i], holds[i - 1]
    if now.by ~= before.by then
      table.insert(to[now.by], (now.got - before.left) / 1e6)
    end
  end
  return to
end

return M
