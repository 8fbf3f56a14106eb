-- Measures handoffs of the lock "handoff" between processes that hold it for 0 ms. Each process
-- prints one line "TOKEN GOT LEFT" per hold: the time at which lock() returned and the time at
-- which unlock() was called, in ns on the monotonic clock that all processes share.

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

-- Starts a process that takes the lock |holds| times once it receives a line. Returns the child
-- when it is ready.
function M.contender(endpoint, holds)
  local child = proc.lua(CONTENDER, endpoint, holds)
  child:expect "^ready"
  return child
end

-- Waits until |child| has ended and returns the lines that it printed, |holds| of them.
function M.holds_of(child, holds)
  local lines = {}
  for i = 1, holds do lines[i] = child:expect("^(%d+ %d+ %d+)$", 60) end
  child:wait()
  return table.concat(lines, "\n")
end

-- |lines_of| maps each process to its lines. Returns a table that maps each process to the list of
-- its handoff times: ms from the unlock() of another process to the return of its own lock().
function M.times(lines_of)
  local holds, to = {}, {}
  for by, text in pairs(lines_of) do
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
