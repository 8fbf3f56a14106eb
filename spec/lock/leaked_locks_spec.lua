-- Tests the report of leaked locks, and the garbage collections that lock calls run.

-- Regression 017. A program that did not keep the result of `lock` lost the lock in the middle of
-- its work, when Lua collected the handle, and nothing reported that.
local TEXT = 'lock "' .. prefix .. 'a" was released because its handle was collected as garbage'

it("each leaked lock is reported to the log function given to connect", function()
  local told = {}
  local client = connect { log = function(message)
    if message.event == "leaked" then told[#told + 1] = message end
  end }
  for i = 1, 2 do
    assert(client:lock "a")
    collectgarbage()
    collectgarbage()
    assert.equal(i, client:stats().leaked)
    assert(client:lock "b"):unlock()
  end
  assert.equal(2, #told)
  for _, message in ipairs(told) do
    assert.same({ prefix .. "a", "lock", "warn" }, { message.name, message.mode, message.level })
    assert.is_number(message.hold)
    assert.matches(TEXT, tostring(message), 1, true)
  end
end)

-- Runs |work|, Lua text, in a program with a client; returns what the program writes to standard
-- output and to standard error.
local function said(work)
  local script = temporary.directory() .. "/script.lua"
  write_file(script, ([[
    local etcdlock = require "etcdlock"
    local options = { endpoints = %q, prefix = %q }
    local client = assert(etcdlock.connect(options))
    local function drop_one()
      assert(client:lock "a")
      collectgarbage()
      collectgarbage()
    end
    %s]]):format(suite.endpoint(), prefix, work))
  local out, code, err = proc.run_lua(script)
  assert.equal(0, code, err)
  return out, err
end

local function assert_lines(count, text)
  assert.equal(count, select(2, text:gsub("\n", "")), text)
end

it("without a log, only the first leaked lock is reported on stderr", function()
  local out, err = said [[
    for _ = 1, 3 do drop_one() end
    assert(client:lock "b"):unlock()
    print(client:stats().leaked)]]
  assert.equal("3\n", out)
  assert.matches(TEXT, err, 1, true)
  assert_lines(1, err)
end)

it("a leaked lock is reported as soon as Lua collects it", function()
  local _, err = said [[
    drop_one()
    io.stderr:write "the work\n"]]
  assert.matches(TEXT .. ".*\nthe work\n$", err)
  assert_lines(2, err)
end)

it("a client with metrics reports a leaked lock and counts its hold", function()
  local out, err = said [[
    client = assert(etcdlock.connect { endpoints = options.endpoints, prefix = options.prefix,
      metrics = true })
    drop_one()
    io.stderr:write "the work\n"
    print(client:metrics():match "etcdlock_hold_seconds_count[^\n]* (%d+)\n")]]
  assert.matches(TEXT .. ".*\nthe work\n$", err)
  assert.equal("1\n", out)
end)

it("a leaked lock of a garbage-collected client is reported", function()
  local _, err = said [[
    client = nil
    assert(assert(etcdlock.connect(options)):lock "of nobody's client")
    collectgarbage()
    collectgarbage()]]
  assert.matches('lock "' .. prefix .. 'of nobody\'s client" was released because', err, 1, true)
  assert_lines(1, err)
end)

it("a lock kept until the program ends is not reported as leaked", function()
  for _, ending in ipairs { "", "os.exit(0, true)", "os.exit(0)" } do
    local _, err = said("kept = assert(client:lock 'kept')\n" .. ending)
    assert.equal("", err, ending)
  end
end)

if coroutine.close then
  it("each leaked lock is reported if Lua warnings are on", function()
    local _, err = said [[
      warn "@on"
      for _ = 1, 3 do drop_one() end]]
    assert_lines(3, err)
  end)
end

it("a released, lost or never granted lock is not reported as leaked", function()
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

-- Regression 034. Each call for a lock that the same process held ran two full garbage collections.
-- In a program with a million tables a try_lock took 116 ms, and an event loop stood still for 0.5
-- s.

-- Connects, and defines collections(fn), which returns how many full collections fn() runs. Lua's
-- own collections are stopped.
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

-- Runs COUNTER and then |program|, with a client of |endpoint| (nil: the suite's). Returns the
-- number that |program| prints as "collections N".
local function counted(program, endpoint)
  local child = proc.lua(COUNTER .. program .. "\nclient:close()",
    endpoint or suite.endpoints(), prefix)
  local count = tonumber((child:expect "^collections (%d+)"))
  assert.equal(0, (child:wait()))
  return count
end

it("try_lock of a name that this process holds runs no full collection", function()
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

it("try_lock that gets no answer from etcd runs no full collection", function()
  local between = clients.scripted()
  between:hold_back("Txn", -1)
  assert.equal(0, counted([[
    print("collections " .. collections(function()
      assert(select(3, client:try_lock "a") == "unavailable")
    end))
  ]], between:endpoint()))
end)

it("a lock call that returns deadlock runs one or two full collections", function()
  local count = counted [[
    local lock = assert(client:lock "a")
    print("collections " .. collections(function()
      assert(select(3, client:lock("a", { owner = "another" })) == "deadlock")
    end))
    lock:unlock()
  ]]
  assert.is_true(count >= 1 and count <= 2, count)
end)

it("waiting for a lock in an event loop runs no full collection", function()
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
