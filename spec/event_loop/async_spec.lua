-- Tests client:lock_async and the pending lock that it returns, which a program with its own
-- event loop polls and steps.

local clients = require "spec.support.harness.clients"
local loops = require "spec.support.programs.loops"
local proc = require "spec.support.programs.proc"
local socket = require "socket"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local connect = clients.connector { endpoints = etcd:endpoints(), prefix = prefix }
local assert_fails = clients.assert_fails
local client, other

-- Steps |pending_lock| until it is decided, for |seconds| (5) at most. Returns the first three
-- results of the last step.
local function finish(pending_lock, seconds)
  local results
  wait.eventually(function()
    results = { pending_lock:step() }
    return results[1] ~= false
  end, seconds)
  return results[1], results[2], results[3]
end

local function assert_queued(count, name)
  wait.eventually(function()
    local places = #other:queue(name)
    return places == count, places .. " in the queue"
  end)
end

before_each(function() client, other = connect(), connect() end)

after_each(clients.close_all)

describe("a pending lock", function()
  it("has a readable descriptor if the lock is refused without a request", function()
    local held = assert(client:lock("a", { owner = "one" }))
    local asked = assert(client:lock_async("a", { owner = "another", timeout = 0 }))
    local fd = asked:pollfd()
    local readable = socket.select({ { getfd = function() return fd end } }, nil, 5)
    assert.equal(1, #readable)
    assert_fails("locked", asked:step())
    assert.is_true(held:unlock())
  end)

  it("has a readable descriptor if the lock is granted without a request", function()
    local held = assert(client:lock("a", { linger = 60 }))
    for _, event in ipairs { "held", "lingering" } do
      if event == "lingering" then assert.is_true(held:unlock()) end
      local asked = assert(client:lock_async("a", { linger = 60 }))
      local fd, lock = asked:pollfd(), nil
      -- The descriptor may be readable only because of the unlock before. In this case, the test
      -- polls again.
      wait.eventually(function()
        assert.equal(1, #socket.select({ { getfd = function() return fd end } }, nil, 5), event)
        lock = asked:step()
        return lock ~= false
      end)
      assert.is_true(lock:unlock())
    end
  end)

  it("returns the same lock from each step after the grant, and counts it once", function()
    local asked = assert(client:lock_async "a")
    local lock = finish(asked)
    assert.is_true(lock:check())
    assert.equal("a", lock:name())
    assert.equal(lock, (asked:step())) -- a repeated step does not increment the count
    assert.equal(1, lock:count())
    assert.is_true(lock:unlock())
  end)

  it("does not block in step while another client holds the lock", function()
    local held = assert(other:lock "a")
    local asked = assert(client:lock_async "a")
    local from = wait.now()
    for _ = 1, 100 do assert.is_false(asked:step()) end
    assert.is_true(wait.now() - from < 1)
    assert.matches("waiting", tostring(asked), 1, true)
    held:unlock()
    assert.is_true(finish(asked):unlock())
    assert.matches("decided", tostring(asked), 1, true)
  end)

  it('returns "timeout" when its timeout is over, and leaves the queue', function()
    local held = assert(other:lock "a")
    local from
    assert_fails("timeout", clients.answered(function()
      from = wait.now()
      return finish(client:lock_async("a", { timeout = 1 }))
    end))
    local took = wait.now() - from
    assert.is_true(took >= 0.99 and took < 1 + wait.SLACK, took .. " s")
    assert_queued(1, "a")
    assert.is_true(held:check())
  end)

  it("keeps its own timeout among 40 pending locks of one client", function()
    local patient = connect { ttl = 300 }
    local held, asked = assert(other:lock "a"), {}
    for i = 1, 20 do
      asked[i] = assert(patient:lock_async("a", { timeout = 60 + i }))
    end
    -- When the client watches its predecessor, the waits with the short timeouts below need no
    -- answer from etcd.
    wait.eventually(function() return patient:stats().watches > 0 end, 5, "the place")
    local from = wait.now()
    for i = 1, 20 do
      asked[20 + i] = assert(patient:lock_async("a", { timeout = 0.42 - 0.02 * i }))
    end
    for i = 40, 21, -1 do assert_fails("timeout", finish(asked[i])) end
    assert.is_true(wait.now() - from < 0.42 + wait.SLACK)
    for i = 1, 20 do
      assert.is_false((asked[i]:step()))
      asked[i]:cancel()
    end
    assert.is_true(held:check())
  end)

  it('tries once with timeout 0, and returns the lock or "locked"', function()
    local lock = finish(client:lock_async("a", { timeout = 0 }))
    assert.is_true(lock:check())
    assert_fails("locked", finish(other:lock_async("a", { timeout = 0 })))
    assert_fails("locked", finish(client:lock_async("a", { timeout = 0, owner = "x" })))
  end)

  it("is not created for an invalid name, an unknown option or a closed client", function()
    assert_fails("invalid", client:lock_async "")
    assert.has_error(function() client:lock_async("a", { timout = 1 }) end)
    client:close()
    assert_fails("closed", client:lock_async "a")
  end)

  it('is decided with "closed" when the client is closed', function()
    local held = assert(other:lock "a")
    local asked = assert(client:lock_async "a")
    client:close()
    assert.is_true(asked:dirty())
    assert.equal(0, asked:timeout())
    assert_fails("closed", asked:step())
    assert.is_true(held:check())
  end)
end)

describe("lock_async", function()
  it("of a lock that its owner holds increments the count at the first step only", function()
    local lock = assert(client:lock "a")
    local asked = assert(client:lock_async "a")
    assert.equal(1, lock:count())
    assert.is_true(asked:dirty())
    assert.equal(lock, (asked:step()))
    assert.equal(lock, (asked:step()))
    assert.equal(2, lock:count())
  end)

  it("of a lock that its owner holds has no effect if cancelled or dropped before step", function()
    local lock = assert(client:lock "a")
    assert.is_true(client:lock_async("a"):cancel())
    assert(client:lock_async "a")
    assert.equal(1, lock:count())
    assert.is_true(lock:unlock())
    assert.is_false((lock:held()))
  end)

  it("acquires the lock anew if its owner unlocks it before the first step", function()
    local lock = assert(client:lock "a")
    local token = lock:token()
    local asked = assert(client:lock_async "a")
    lock:unlock()
    local again = finish(asked)
    assert.is_true(again:token() > token)
    assert.equal(1, again:count())
  end)

  it("makes the coroutine that called it the owner, also if another one steps", function()
    local asked, mine
    local thread = coroutine.create(function()
      asked = client:lock_async "a"
      coroutine.yield()
      mine = client:lock "a"
    end)
    coroutine.resume(thread)
    local lock = finish(asked)
    assert_fails("deadlock", client:lock "a")
    coroutine.resume(thread)
    assert.equal(lock, mine)
  end)
end)

describe("cancel of a pending lock", function()
  it('removes its key from the queue, and step returns "cancelled"', function()
    local held = assert(other:lock "a")
    local asked = assert(client:lock_async "a")
    assert_queued(2, "a")
    assert.is_true(asked:cancel())
    assert_fails("cancelled", asked:step())
    assert.is_false(asked:cancel())
    assert_queued(1, "a")
    assert.is_true(held:check())
  end)

  it("releases a lock that is granted but not yet returned by step", function()
    -- The garbage collector must not release the lock instead.
    finally(function() collectgarbage "restart" end)
    collectgarbage "stop"
    local asked = assert(client:lock_async "a")
    wait.eventually(function() return asked:dirty() end)
    assert.is_true(asked:cancel())
    assert_fails("cancelled", asked:step())
    assert_queued(0, "a")
  end)

  it("removes a waiting key from the queue without garbage collection", function()
    finally(function() collectgarbage "restart" end)
    collectgarbage "stop"
    local held = assert(other:lock "a")
    local asked = assert(client:lock_async "a")
    assert_queued(2, "a")
    assert.is_true(asked:cancel())
    assert_queued(1, "a")
    assert.is_true(held:unlock())
  end)

  it("returns false and keeps the lock after step has returned it", function()
    local asked = assert(client:lock_async "a")
    local lock = finish(asked)
    assert.is_false(asked:cancel())
    assert.is_true(lock:check())
  end)

  it("happens when the pending lock is garbage-collected, waiting or granted", function()
    local held = assert(other:lock "a")
    local asked = { client:lock_async "a", client:lock_async("b") }
    assert_queued(2, "a")
    wait.eventually(function() return asked[2]:dirty() end)
    asked = nil -- luacheck: ignore 311
    collectgarbage()
    collectgarbage()
    assert_queued(1, "a")
    assert_queued(0, "b")
    assert.is_true(held:check())
  end)
end)

-- Polls |pendings| (a list) with select until all are granted. Returns their locks, in order.
local function select_all(pendings)
  local locks, left, deadline = {}, #pendings, wait.now() + 10
  while left > 0 do
    assert(wait.now() < deadline, "not decided")
    local open = {}
    for i, asked in ipairs(pendings) do
      if not locks[i] then open[#open + 1] = asked end
    end
    local readable = socket.select(open, nil, 5)
    assert.is_true(#readable > 0)
    for _, asked in ipairs(readable) do
      local lock = assert.is_not_nil(asked:step()) and asked:step()
      for i, each in ipairs(pendings) do
        if each == asked and lock and not locks[i] then
          locks[i] = lock
          left = left - 1
        end
      end
    end
  end
  return locks
end

describe("a pending lock in luasocket's select", function()
  it("is returned once the lock is granted, and not before", function()
    local held = assert(other:lock "a")
    local asked = assert(client:lock_async "a")
    assert.same({}, (socket.select({ asked }, nil, 0.05)))
    assert.is_false(asked:step())
    held:unlock()
    assert.is_true(select_all({ asked })[1]:check())
    assert.equal(asked, socket.select({ asked }, nil, 0)[1])
  end)

  it("shares one descriptor with the others of its client", function()
    local held = assert(other:lock "a")
    local pendings = {}
    for i = 1, 5 do pendings[i] = assert(client:lock_async("x" .. i)) end
    pendings[6] = assert(client:lock_async "a")
    for i = 2, 6 do assert.equal(pendings[1]:getfd(), pendings[i]:getfd()) end
    held:unlock()
    local locks = select_all(pendings)
    for i = 1, 6 do assert.is_true(locks[i]:check()) end
  end)

  it("is returned at once if its client is closed", function()
    local held = assert(other:lock "a")
    local asked = assert(client:lock_async "a")
    client:close()
    assert.equal(asked, socket.select({ asked }, nil, 5)[1])
    assert_fails("closed", asked:step())
    assert.is_true(held:check())
  end)
end)

-- Runs |source| in a process of its own, because etcdlock waits differently once the module of
-- an event loop is loaded.
local function run(source)
  local child = proc.lua([[
    local endpoint, prefix = ...
    local etcdlock = require "etcdlock"
    local function connect()
      return assert(etcdlock.connect { endpoints = endpoint, prefix = prefix })
    end
    local client, other = connect(), connect()
  ]] .. source .. [[
    client:close()
    other:close()
    print "done"
  ]], etcd:endpoints(), prefix)
  child:expect "^done$"
  child:wait()
end

describe("a pending lock in cqueues", function()
  local function in_cqueues(source)
    run([[
      local cqueues = require "cqueues"
      local controller = cqueues.new()
      local function finish(asked)
        while asked:step() == false do cqueues.poll(asked) end
        return asked:step()
      end
    ]] .. source)
  end

  it("can be polled outside a loop", function()
    in_cqueues [[
      local held = assert(other:lock "a")
      local asked = assert(client:lock_async "a")
      assert(cqueues.poll(asked, 0.05) ~= asked and asked:step() == false)
      held:unlock()
      assert(finish(asked):check())
    ]]
  end)

  it("can be polled while other coroutines wait in lock", function()
    in_cqueues [[
      local held, got = assert(other:lock "a"), 0
      for i = 1, 5 do
        controller:wrap(function()
          local lock = assert(finish(assert(client:lock_async "a")))
          got = got + 1
          assert(lock:unlock())
        end)
        controller:wrap(function()
          assert(client:lock "a"):unlock()
          got = got + 1
        end)
      end
      controller:wrap(function()
        while client:stats().waiting < 10 do cqueues.sleep(0.005) end
        assert(held:unlock())
      end)
      assert(controller:loop(10))
      assert(controller:empty() and got == 10, got)
    ]]
  end)

  it("does not keep the loop running if it is not polled", function()
    in_cqueues [[
      local held = assert(other:lock "a")
      local asked = assert(client:lock_async "a")
      controller:wrap(function() assert(client:lock "b"):unlock() end)
      assert(controller:loop(10))
      assert(controller:empty())
      assert(asked:cancel() and held:unlock())
    ]]
  end)

  it('is decided with "closed" if the client is closed during the poll', function()
    in_cqueues [[
      local one, held, code = connect(), assert(other:lock "a"), nil
      controller:wrap(function()
        local asked = assert(one:lock_async "a")
        code = select(3, finish(asked))
      end)
      controller:wrap(function()
        while one:stats().waiting < 1 do cqueues.sleep(0.005) end
        cqueues.sleep(0.01)
        one:close()
      end)
      assert(controller:loop(10))
      assert(controller:empty() and code == "closed", code)
      assert(held:unlock())
    ]]
  end)

  it("can be polled on a descriptor number that a closed client had", function()
    in_cqueues [[
      local numbers, again, rounds = {}, false, 0
      controller:wrap(function()
        while rounds < 5 or not again and rounds < 50 do
          rounds = rounds + 1
          local one = connect()
          local held = assert(other:lock "a")
          local asked = assert(one:lock_async "a")
          again = again or numbers[asked:pollfd()]
          numbers[asked:pollfd()] = true
          controller:wrap(function()
            cqueues.sleep(0.05)
            assert(held:unlock())
          end)
          assert(finish(asked):unlock())
          one:close()
          one, asked = nil, nil
          collectgarbage()
        end
      end)
      assert(controller:loop(10))
      assert(controller:empty())
      assert(again, "no number was used again: this tests nothing")
    ]]
  end)
end)

describe("copas.receive", function()
  local missing = loops.missing "copas"
  if missing then return pending(missing) end

  it("returns the lock or failure of a pending lock while other coroutines wait", function()
    run [[
      local copas = require "copas"
      client = assert(etcdlock.connect {
        endpoints = endpoint, prefix = prefix, loop = "copas",
      })
      local held, got, code = assert(other:lock "a"), 0, nil
      for _ = 1, 5 do
        copas.addthread(function()
          local lock = assert(copas.receive(assert(client:lock_async "a")))
          got = got + 1
          assert(lock:unlock())
        end)
        copas.addthread(function()
          assert(client:lock "a"):unlock()
          got = got + 1
        end)
      end
      -- The timeout is too short for an answer of etcd: the waiter is in the local queue already.
      while client:stats().watches == 0 do copas.step(0.01) end
      copas.addthread(function()
        code = select(3, copas.receive(assert(client:lock_async("a", { timeout = 0.05 }))))
        assert(client:stats().waiting >= 10)
        assert(held:unlock())
      end)
      while got < 10 do copas.step(5) end
      assert(code == "timeout", code)
    ]]
  end)
end)
