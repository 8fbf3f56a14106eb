-- Each ask for a name that this process held ran two full collections: 116 ms for a try in
-- a program with a million tables, and half a second in which an event loop stood still.

local clients = require "spec.support.harness.clients"
local loops = require "spec.support.programs.loops"
local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"

local prefix = suite.prefix()

-- Counts the full collections while Lua collects nothing by itself.
local COUNTER = [[
  local endpoints, prefix = ...
  local client = assert(require("etcdlock").connect { endpoints = endpoints, prefix = prefix })
  local count = 0
  local function watch()
    setmetatable({}, { __gc = function() count = count + 1; watch() end })
  end
  if newproxy then -- Lua 5.1 has no __gc of tables
    function watch()
      getmetatable(newproxy(true)).__gc = function() count = count + 1; watch() end
    end
  end
  collectgarbage "stop"
  watch()
  local function collections(run)
    local before = count
    run()
    return count - before
  end
]]

local function counted(program, endpoint)
  local child = proc.lua(COUNTER .. program .. "\nclient:close()",
    endpoint or suite.endpoints(), prefix)
  local count = tonumber((child:expect "^collections (%d+)"))
  assert.equal(0, (child:wait()))
  return count
end

after_each(function()
  proc.destroy_children()
  clients.close_all()
end)

it("a try of what this process holds collects nothing", function()
  assert.equal(0, counted [[
    local lock = assert(client:lock "a")
    print("collections " .. collections(function()
      for _ = 1, 20 do
        assert(select(3, client:try_lock("a", { owner = "another" })) == "locked")
      end
    end))
    lock:unlock()
  ]])
end)

it("nor does a try of which etcd says nothing", function()
  local between = clients.scripted(suite.endpoint())
  between:hold_back("Txn", -1)
  assert.equal(0, counted([[
    print("collections " .. collections(function()
      assert(select(3, client:try_lock "a") == "unavailable")
    end))
  ]], between:endpoint()))
end)

it("an answer deadlock is looked for once, which is two full collections at most", function()
  local count = counted [[
    local lock = assert(client:lock "a")
    print("collections " .. collections(function()
      assert(select(3, client:lock("a", { owner = "another" })) == "deadlock")
    end))
    lock:unlock()
  ]]
  assert.is_true(count >= 1 and count <= 2, count)
end)

it("in an event loop nothing is collected for whoever waits", function()
  local missing = loops.missing "cqueues"
  if missing then return pending(missing) end
  assert.equal(0, counted [[
    local cqueues = require "cqueues"
    local loop = cqueues.new()
    print("collections " .. collections(function()
      for i = 1, 5 do
        loop:wrap(function()
          for _ = 1, 3 do
            assert(client:with_lock("a", function() cqueues.sleep(0.01) end))
            client:try_lock "a/b"
          end
        end)
      end
      assert(loop:loop())
    end))
  ]])
end)
