-- Clients in processes of their own, which do what they are told line by line.

local assert = require "luassert"
local cjson = require "cjson"
local proc = require "spec.support.programs.proc"
local wait = require "spec.support.harness.wait"

local M = {}

-- Runs each line as a program with the global `client`, and says how long that
-- took and what it returned, or raised.
local CHILD = [[
  local uv, cjson = require "luv", require "cjson"
  client = assert(require("etcdlock").connect(cjson.decode((...))))
  local function answer(from, ok, ...)
    local words = ok and {} or { "raised" }
    for i = 1, select("#", ...) do
      words[#words + 1] = tostring((select(i, ...))):gsub("[\n|]", " ")
    end
    print(("answer %.6f %s"):format((uv.hrtime() - from) / 1e9, table.concat(words, "|")))
  end
  print "ready"
  for line in io.lines() do
    local program = assert((loadstring or load)(line))
    answer(uv.hrtime(), pcall(program))
  end
]]

-- Starts a client for each of the |options| of connect.
function M.start_all(options)
  local children = {}
  for i, opts in ipairs(options) do children[i] = proc.lua(CHILD, cjson.encode(opts)) end
  for _, child in ipairs(children) do child:expect("^ready", 20) end
  return children
end

-- Starts |count| (1) of them with the same options.
function M.start(opts, count)
  local options = {}
  for i = 1, count or 1 do options[i] = opts end
  return (table.unpack or unpack)(M.start_all(options))
end

-- ---- asking -----------------------------------------------------------------

-- Has |child| run |program|, which may have several lines, but no comments.
function M.send(child, program)
  child:send((program:gsub("\n", " ")))
end

-- Waits for the answer to what was sent; returns its results and the seconds
-- that they took.
function M.answer_of(child, seconds)
  local took, text = child:expect("^answer (%S+) (.*)", seconds or 10)
  local results = {}
  for word in (text .. "|"):gmatch "(.-)|" do results[#results + 1] = word end
  return results, tonumber(took)
end

function M.ask(child, program, seconds)
  M.send(child, program)
  return M.answer_of(child, seconds)
end

-- ---- locks ------------------------------------------------------------------

-- Has |child| take the lock |name|, as its global `lock`, within |seconds| (20).
function M.send_take(child, name, seconds)
  M.send(child, ([[
    lock = assert(client:lock('%s', { timeout = %g }))
    return ('%%.0f'):format(lock:token())
  ]]):format(name, seconds or 20))
end

-- Waits until it has it; returns its token.
function M.taken(child, seconds)
  local results = M.answer_of(child, seconds or 25)
  return tonumber(results[1]) or error(table.concat(results, " "), 2)
end

function M.take(child, name)
  M.send_take(child, name)
  return M.taken(child)
end

function M.release(child)
  assert.same({ "true" }, M.ask(child, "return lock:unlock()"))
end

-- ---- what is seen -----------------------------------------------------------

-- |child| holds what it took, under |token|, and etcd says so too.
function M.assert_held(child, token)
  assert.same({ "true", ("%.0f"):format(token) },
    M.ask(child, "return (lock:held()), ('%.0f'):format(lock:token())"))
  assert.same({ "true" }, M.ask(child, "local ok, _, why = lock:check() return ok or why"))
end

-- |child|'s hold has been proven by etcd since the moment |since|, and before
-- its |ttl| was over: nothing sent earlier can vouch for more than that.
function M.assert_renewed(child, since, ttl)
  wait.eventually(function()
    local now = wait.now()
    local left = tonumber(M.ask(child, "return lock:remaining()")[1])
    return now + left > since + ttl, left .. " s left"
  end, ttl, "a renewed hold")
end

-- What |child| was asked last has not been answered yet.
function M.assert_waits(child)
  assert.is_nil(child.lines[1])
end

function M.assert_within(took, low, high, what)
  local text = "%s took %.3f s, wanted %g to %g"
  assert.is_true(took >= low - 0.005 and took <= high, text:format(what or "it", took, low, high))
end

return M
