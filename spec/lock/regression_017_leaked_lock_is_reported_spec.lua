-- A program that did not keep the result of `lock` lost the lock in the middle of its work, when
-- Lua collected the handle, and nothing reported that.

local clients = require "spec.support.harness.clients"
local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"
local temporary = require "spec.support.harness.temporary"

local prefix = suite.prefix()
local connect = clients.connector { endpoints = suite.endpoint(), prefix = prefix }
local TEXT = 'lock "a" was released because its handle was collected as garbage'

after_each(function()
  clients.close_all()
  temporary.remove_all()
end)

-- Takes a lock of |client|, drops the handle and has Lua collect it.
local function drop_one(client)
  assert(client:lock "a")
  collectgarbage()
  collectgarbage()
end

it("regression 017: each leaked lock is reported to the log function given to connect", function()
  local told = {}
  local client = connect { log = function(message)
    if message.event == "leaked" then told[#told + 1] = tostring(message) end
  end }
  drop_one(client)
  assert.equal(1, client:stats().leaked)
  assert(client:lock "b"):unlock()
  drop_one(client)
  assert(client:lock "b"):unlock()
  assert.equal(2, client:stats().leaked)
  assert.equal(2, #told)
  for _, message in ipairs(told) do assert.matches(TEXT, message, 1, true) end
end)

-- Runs |work|, Lua text, in a program with a client; returns what the program writes to standard
-- output and to standard error.
local function said(work)
  local script = temporary.directory() .. "/script.lua"
  local file = assert(io.open(script, "w"))
  file:write(([[
    local etcdlock = require "etcdlock"
    local options = { endpoints = %q, prefix = %q }
    local client = assert(etcdlock.connect(options))
    local function drop_one()
      assert(client:lock "a")
      collectgarbage()
      collectgarbage()
    end
    %s]]):format(suite.endpoint(), prefix, work))
  file:close()
  local out, code, err = proc.run_lua(script)
  assert.equal(0, code, err)
  return out, err
end

local function assert_lines(count, text)
  assert.equal(count, select(2, text:gsub("\n", "")), text)
end

it("regression 017: without a log, only the first leaked lock is reported on stderr", function()
  local out, err = said [[
    for _ = 1, 3 do drop_one() end
    assert(client:lock "b"):unlock()
    print(client:stats().leaked)]]
  assert.equal("3\n", out)
  assert.matches(TEXT, err, 1, true)
  assert_lines(1, err)
end)

it("regression 017: a leaked lock is reported as soon as Lua collects it", function()
  local _, err = said [[
    drop_one()
    io.stderr:write "the work\n"]]
  assert.matches(TEXT .. ".*\nthe work\n$", err)
  assert_lines(2, err)
end)

it("regression 017: a client with metrics reports a leaked lock and counts its hold", function()
  local out, err = said [[
    client = assert(etcdlock.connect { endpoints = options.endpoints, prefix = options.prefix,
      metrics = true })
    drop_one()
    io.stderr:write "the work\n"
    print(client:metrics():match "etcdlock_hold_seconds_count[^\n]* (%d+)\n")]]
  assert.matches(TEXT .. ".*\nthe work\n$", err)
  assert.equal("1\n", out)
end)

it("regression 017: a leaked lock of a garbage-collected client is reported", function()
  local _, err = said [[
    client = nil
    assert(assert(etcdlock.connect(options)):lock "of nobody's client")
    collectgarbage()
    collectgarbage()]]
  assert.matches('lock "of nobody\'s client" was released because', err, 1, true)
  assert_lines(1, err)
end)

it("regression 017: a lock kept until the program ends is not reported as leaked", function()
  for _, ending in ipairs { "", "os.exit(0, true)", "os.exit(0)" } do
    local _, err = said("kept = assert(client:lock 'kept')\n" .. ending)
    assert.equal("", err, ending)
  end
end)

if _VERSION == "Lua 5.4" then
  it("regression 017: each leaked lock is reported if Lua warnings are on", function()
    local _, err = said [[
      warn "@on"
      for _ = 1, 3 do drop_one() end]]
    assert_lines(3, err)
  end)
end

it("regression 017: a released, lost or never granted lock is not reported as leaked", function()
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
  assert.equal(0, client:stats().leaked)
  assert(client:lock "a"):unlock()
  assert.is_true(held:unlock())
  assert.is_true(told.acquired and told.lost)
  assert.is_nil(told.leaked)
end)
