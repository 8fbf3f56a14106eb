-- Tests that clients and processes end quickly and leave no key, lease, thread or descriptor.
-- Runs alone: it measures how long close takes.

-- Seconds. BUDGET: how long close waits for etcd's answers. SLACK: how much later it may return.
local BUDGET, SLACK = 0.5, wait.SLACK

-- TTL in seconds; so long that no key disappears with its lease during a test.
local LONG = 60

local function connect(endpoint, loop)
  return assert(etcdlock.connect {
    endpoints = endpoint or suite.endpoints(), prefix = prefix, ttl = LONG, loop = loop,
  })
end

-- Asserts that etcd has no key of this file and no lease now.
local function assert_etcd_clean()
  assert.same({}, etcd:keys(prefix))
  assert.same({}, etcd:leases())
end

-- Asserts that this process soon has no more threads and descriptors than |before|. gRPC's own
-- threads may live for up to 1 s after close, as long as their connection or attempt to connect.
local function assert_none_left_here(before) leaks.assert_none_left(before, nil, nil, 2) end

-- Defines a test that checks etcd right after the end of a client. story(timed) wraps the end in
-- timed(fn). If the story fails because etcd was silent meanwhile, the test repeats the story.
local function test(name, story)
  it(name, function() rounds.undisturbed(story, proc.destroy_children) end)
end

describe("a closed client", function()
  local before

  setup(suite.etcd)
  before_each(function() before = leaks.snapshot() end)

  local function assert_nothing_left()
    assert_etcd_clean()
    assert_none_left_here(before)
  end

  test("leaves no key, no lease, no thread and no descriptor", function(timed)
    local client = connect()
    local a, b = assert(client:lock "a"), assert(client:lock "b")
    assert(client:lock "a")
    assert(a:put(prefix .. "data", "x"))
    assert(a:delete(prefix .. "data"))
    assert(b:unlock())
    assert.is_true(timed(function() return client:close() end))
    assert_nothing_left()
    for _, lock in ipairs { a, b } do assert.is_false((lock:held())) end
    assert.equal("closed", (select(2, a:held())))
    assert.equal("closed", (select(3, client:lock "a")))
  end)

  test("can be closed again, and leaves nothing after its locks are collected", function(timed)
    local client = connect()
    local lock = assert(client:lock "a")
    timed(function() client:close() end)
    client:close()
    assert.is_nil((lock:unlock()))
    lock, client = nil, nil -- luacheck: ignore 311
    collectgarbage()
    collectgarbage()
    assert_nothing_left()
  end)

  it("leaves nothing if it was never used", function()
    connect():close()
    connect("127.0.0.1:1"):close()
    assert_nothing_left()
  end)

  test("leaves nothing if it is closed right after lock or unlock", function(timed)
    for i = 1, 20 do
      local client = connect()
      local lock = assert(client:lock "quick")
      if i % 2 == 0 then assert(lock:unlock()) end
      timed(function() client:close() end)
    end
    assert_nothing_left()
  end)

  test("does not release the locks of other clients", function(timed)
    local one, other = connect(), connect()
    assert(one:lock "one")
    local lock = assert(other:lock "other")
    timed(function() one:close() end)
    assert.is_true((lock:check()))
    timed(function() other:close() end)
    assert_nothing_left()
  end)
end)

-- A program that holds three locks, and waits for one of them and for one of another process. When
-- it gets a line of input, it requests a new lock, releases one, and ends as the line says. It
-- waits through the core, where waits do not block.
local BUSY = [[
  local endpoint, prefix, ttl = ...
  local core = require "etcdlock.core"
  client = assert(require("etcdlock").connect {
    endpoints = endpoint, prefix = prefix, ttl = tonumber(ttl),
  })
  held = { assert(client:lock "held/1"), assert(client:lock "held/2") }
  fourth = assert(client:lock "released")
  pending = { client._core:lock(prefix .. "held/1", ""), client._core:lock(prefix .. "theirs", "") }
  print "ready"
  local program = assert((loadstring or load)(io.read()))
  pending[3] = client._core:lock(prefix .. "new", "")
  fourth._core:release()
  program()
]]


describe("a process with held and pending locks that ends", function()
  local ENDS = {
    { "at the end of its program", "return", 0, "^$" },
    { "by an error", "error 'on purpose'", 1, "on purpose" },
    { "after close", "client:close()", 0, "^$" },
    { "after its client and locks are collected",
      "client, held, fourth, pending = nil collectgarbage() collectgarbage()", 0,
      '^etcdlock: lock "' .. prefix .. '%a+[/%d]*" was released because '
        .. 'its handle was collected as garbage[^\n]*\n$' },
  }
  -- os.exit of Lua 5.1 cannot close the state.
  if _VERSION ~= "Lua 5.1" or jit then
    table.insert(ENDS, { "by os.exit that closes the state", "os.exit(0, true)", 0, "^$" })
  end

  for _, case in ipairs(ENDS) do
    local how, program, wanted, says = case[1], case[2], case[3], case[4]
    test(how .. " leaves no key and no lease", function(timed)
      -- a process that holds the lock for which the busy one waits
      local theirs = remote.start { endpoints = etcd:endpoints(), prefix = prefix, ttl = LONG }
      remote.take(theirs, "theirs")
      local busy = proc.lua(BUSY, etcd:endpoints(), prefix, LONG)
      busy:expect "^ready"
      etcd:await_keys(prefix, 5) -- four keys of the busy process and one of the other
      local took, code, signal = timed(function()
        local from = wait.now()
        busy:send(program)
        local code, signal = busy:wait(5)
        return wait.now() - from, code, signal
      end)
      assert.same({ wanted, 0 }, { code, signal })
      assert.is_true(took <= BUDGET + SLACK, "after " .. took .. " s")
      local keys = etcd:keys(prefix)
      assert.equal(1, #keys, table.concat(keys, " "))
      assert.matches("/theirs/", keys[1])
      assert.equal(1, #etcd:leases())
      assert.matches(says, busy:errors())
      timed(function()
        assert.same({ "true", "true" }, remote.ask(theirs, "return lock:check(), client:close()"))
        theirs:wait()
      end)
      assert_etcd_clean()
    end)
  end
end)

describe("close", function()
  -- Starts an etcd and processes that end in different ways after silence(etcd); asserts that
  -- each ends within about |BUDGET| s, and returns the etcd.
  local function gone_within_bound(silence)
    local etcd = suite.start()
    local programs = { "return", "client:close()", "error 'on purpose'" }
    local list = {}
    for i, program in ipairs(programs) do
      local child = proc.lua(BUSY, etcd:endpoints(), prefix .. i .. "/", 2)
      child:expect "^ready"
      list[i] = { child = child, program = program }
    end
    silence(etcd)
    local from = wait.now()
    for _, one in ipairs(list) do one.child:send(one.program) end
    for _, one in ipairs(list) do
      local code, signal = one.child:wait(5)
      local took = wait.now() - from
      assert.equal(0, signal)
      assert.equal(one.program:find "error" and 1 or 0, code)
      assert.is_true(took <= BUDGET + 2 * SLACK, one.program .. " took " .. took .. " s")
    end
    return etcd
  end

  for state, ways in pairs {
    paused = { Etcd.pause, Etcd.resume }, down = { Etcd.kill, Etcd.restart },
  } do
    it("takes at most 0.5 s at the end of a process if etcd is " .. state .. "; the leases expire",
      function()
        local silence, wake = (table.unpack or unpack)(ways)
        local etcd = gone_within_bound(silence)
        wake(etcd)
        wait.eventually(function() return #etcd:leases() == 0 and #etcd:keys(prefix) == 0 end, 8,
          "end of the leases")
      end)
  end

  it("takes at most 0.5 s if etcd is paused, and leaves no thread and no descriptor", function()
    local etcd = suite.start()
    local before = leaks.snapshot()
    local function close(client)
      local from = wait.now()
      client:close()
      local took = wait.now() - from
      assert.is_true(took <= BUDGET + SLACK, "after " .. took .. " s")
      assert_none_left_here(before)
    end
    local client = connect(etcd:endpoints())
    local lock = assert(client:lock "held")
    etcd:pause()
    close(client)
    assert.equal("closed", (select(2, lock:held())))
    local unheard = connect(etcd:endpoints())
    assert.is_nil((unheard:lock("never", { timeout = 0.2 })))
    close(unheard)
  end)

  -- Regression 321. Such a write failed with "closed", from which a program concludes that nothing
  -- was written.
  it('makes a guarded write whose request is in flight fail with "unavailable"', function()
    local key = prefix .. "data"
    local client = connect(server:endpoint(), "luv")
    local lock = assert(client:lock "held")
    clients.await_watched(client, lock)
    server:hold_back "Txn"
    local results
    coroutine.wrap(function() results = { lock:put(key, "x") } end)()
    clients.await_held(server, client)
    client:close()
    wait.eventually(function()
      uv.run "nowait"
      return results
    end, 5, "the end of the write")
    assert_fails("unavailable", (table.unpack or unpack)(results, 1, 3))
    assert.equal("x", etcd:get(key))
  end)
end)
