-- Runs clients in child processes, which execute Lua code that the test sends.

local assert = require "luassert"
local json = require "dkjson"
local proc = require "spec.support.programs.proc"
local wait = require "spec.support.harness.wait"

local M = {}

-- Runs each line of its input as Lua code with the global `client`. Prints how long the code took,
-- and its results or the error that it raised.
local CHILD = [[
  local uv, json = require "luv", require "dkjson"
  client = assert(require("etcdlock").connect(json.decode((...))))
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

-- Starts one child for each entry of |options|, the options of its connect. |envs|: by child, its
-- environment for proc (nil: that of the suite). Returns the children.
function M.start_all(options, envs)
  local children = {}
  for i, opts in ipairs(options) do
    children[i] = proc.talk_lua("spec/support/programs/child.lua", { CHILD, json.encode(opts) },
      envs and envs[i])
  end
  for _, child in ipairs(children) do child:expect("^ready", 20) end
  return children
end

-- Starts |count| (1) children with the same options |opts|. Returns them as separate results.
function M.start(opts, count)
  local options = {}
  for i = 1, count or 1 do options[i] = opts end
  return (table.unpack or unpack)(M.start_all(options))
end

-- ---- calls ------------------------------------------------------------------

-- Makes |child| run |program|, which may have several lines but no comments.
function M.send(child, program)
  child:send((program:gsub("\n", " ")))
end

-- Waits at most |seconds| (10) for the results of the program sent last. Returns the list of
-- results as strings, and the seconds that the program took.
function M.answer_of(child, seconds)
  local took, text = child:expect("^answer (%S+) (.*)", seconds or 10)
  local results = {}
  for word in (text .. "|"):gmatch "(.-)|" do results[#results + 1] = word end
  return results, tonumber(took)
end

-- Makes |child| run |program| and waits for it; results as those of answer_of.
function M.ask(child, program, seconds)
  M.send(child, program)
  return M.answer_of(child, seconds)
end

-- ---- locks ------------------------------------------------------------------

-- Makes |child| take the lock |name| into its global `lock`, with a timeout of |seconds| (20).
function M.send_take(child, name, seconds)
  M.send(child, ([[
    lock = assert(client:lock('%s', { timeout = %g }))
    return ('%%.0f'):format(lock:token())
  ]]):format(name, seconds or 20))
end

-- Waits at most |seconds| (25) until |child| holds the lock of send_take. Returns the token.
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

-- ---- assertions -------------------------------------------------------------

-- Fails unless |child| holds its lock under |token|, and etcd confirms the hold.
function M.assert_held(child, token)
  assert.same({ "true", ("%.0f"):format(token) },
    M.ask(child, "return (lock:held()), ('%.0f'):format(lock:token())"))
  assert.same({ "true" }, M.ask(child, "local ok, _, why = lock:check() return ok or why"))
end

-- Fails unless etcd proves the hold of |child| after the time |since|, within |ttl| seconds. A
-- request sent before |since| cannot move the hold deadline beyond |since| + |ttl|.
function M.assert_renewed(child, since, ttl)
  wait.eventually(function()
    local now = wait.now()
    local left = tonumber(M.ask(child, "return lock:remaining()")[1])
    return now + left > since + ttl, left .. " s left"
  end, ttl, "a renewed hold")
end

-- Fails if |child| has answered the program sent last.
function M.assert_waits(child)
  assert.is_nil(child.lines[1])
end

-- Fails unless |took| is between |low| and |high|, all in seconds; |what| is for the message.
function M.assert_within(took, low, high, what)
  local text = "%s took %.3f s, wanted %g to %g"
  assert.is_true(took >= low - 0.005 and took <= high, text:format(what or "it", took, low, high))
end

return M
