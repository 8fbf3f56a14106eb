-- A lock whose result nobody kept was released in the middle of the work, as soon as
-- Lua collected it, and nothing told of that.

local clients = require "spec.support.harness.clients"
local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"
local temporary = require "spec.support.harness.temporary"

local prefix = suite.prefix()
local connect = clients.connector { endpoints = suite.endpoint(), prefix = prefix }
local TEXT = 'lock "a" was released because Lua has collected it'

after_each(function()
  clients.close_all()
  temporary.remove_all()
end)

-- The trap.
local function drop_one(client)
  assert(client:lock "a")
  collectgarbage()
  collectgarbage()
end

it("a lock that nobody keeps is told of, to the log that connect was given", function()
  local told = {}
  local client = connect { log = function(message)
    if message.event == "collected" then told[#told + 1] = tostring(message) end
  end }
  drop_one(client)
  assert.equal(1, client:stats().collected)
  assert(client:lock "b"):unlock()
  drop_one(client)
  assert(client:lock "b"):unlock()
  assert.equal(2, client:stats().collected)
  assert.equal(2, #told)
  for _, message in ipairs(told) do assert.matches(TEXT, message, 1, true) end
end)

it("without a log it is told on standard error, once", function()
  local script = temporary.directory() .. "/script.lua"
  local file = assert(io.open(script, "w"))
  file:write(([[
    local client = assert(require("etcdlock").connect { endpoints = %q, prefix = %q })
    for _ = 1, 3 do
      assert(client:lock "a")
      collectgarbage()
      collectgarbage()
    end
    assert(client:lock "b"):unlock()
    print(client:stats().collected)
    local kept = client:lock "kept"
  ]]):format(suite.endpoint(), prefix))
  file:close()
  local out, code, err = proc.run_lua(script)
  assert.same({ "3\n", 0 }, { out, code }, err)
  assert.matches(TEXT, err, 1, true)
  assert.equal(1, select(2, err:gsub("\n", "")))
end)

it("nothing is told of what was let go before, was lost, or was only waited for", function()
  local told, other = {}, connect()
  local client = connect { log = function(message) told[message.event] = true end }
  assert(client:lock "a"):unlock()
  local held = assert(other:lock "b")
  client:lock("b", { timeout = 0.05 })
  client:try_lock "b"
  client:lock_async "b"
  local broken = assert(client:lock "c")
  assert(other:break_lock("c", broken:token()))
  assert.equal("deleted", (broken:wait_lost(5)))
  broken = nil -- luacheck: ignore
  collectgarbage()
  collectgarbage()
  assert.equal(0, client:stats().collected)
  assert(client:lock "a"):unlock()
  assert.is_true(held:unlock())
  assert.is_true(told.acquired and told.lost)
  assert.is_nil(told.collected)
end)
