-- Tests client:lock_async and the pending lock that it returns, which a program with its own
-- event loop polls and steps.
-- Needs: cqueues.

local socket = require "socket"

local function assert_queued(count, name)
  wait.eventually(function()
    local places = #other:queue(name)
    return places == count, places .. " in the queue"
  end)
end

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
    local lock = clients.ended(asked)
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
    assert.is_true(clients.ended(asked):unlock())
    assert.matches("decided", tostring(asked), 1, true)
  end)

  it('returns "timeout" when its timeout is over, and leaves the queue', function()
    local held = assert(other:lock "a")
    local from
    assert_fails("timeout", clients.answered(function()
      from = wait.now()
      return clients.ended(client:lock_async("a", { timeout = 1 }))
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
    for i = 40, 21, -1 do assert_fails("timeout", clients.ended(asked[i])) end
    assert.is_true(wait.now() - from < 0.42 + wait.SLACK)
    for i = 1, 20 do
      assert.is_false((asked[i]:step()))
      asked[i]:cancel()
    end
    assert.is_true(held:check())
  end)

  it('tries once with timeout 0, and returns the lock or "locked"', function()
    local lock = clients.ended(client:lock_async("a", { timeout = 0 }))
    assert.is_true(lock:check())
    assert_fails("locked", clients.ended(other:lock_async("a", { timeout = 0 })))
    assert_fails("locked", clients.ended(client:lock_async("a", { timeout = 0, owner = "x" })))
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
    assert.equal(asked, socket.select({ asked }, nil, 5)[1])
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
    local again = clients.ended(asked)
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
    local lock = clients.ended(asked)
    assert_fails("deadlock", client:lock "a")
    coroutine.resume(thread)
    assert.equal(lock, mine)
  end)
end)

describe("cancel of a pending lock", function()
  it('removes its key from the queue, and step returns "cancelled"', function()
    -- The garbage collector must not remove the key instead.
    finally(function() collectgarbage "restart" end)
    collectgarbage "stop"
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

  it("returns false and keeps the lock after step has returned it", function()
    local asked = assert(client:lock_async "a")
    local lock = clients.ended(asked)
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
end)

describe("a pending lock in cqueues", function()
  local function in_cqueues(source)
    return loops.test("cqueues", [[
      local function finish(asked)
        while asked:step() == false do cqueues.poll(asked) end
        return asked:step()
      end
    ]] .. source)
  end

  it("can be polled outside a loop", in_cqueues [[
    local held = assert(other:lock "a")
    local asked = assert(client:lock_async "a")
    assert(cqueues.poll(asked, 0.05) ~= asked and asked:step() == false)
    held:unlock()
    assert(finish(asked):check())
  ]])

  it("can be polled while other coroutines wait in lock", in_cqueues [[
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
  ]])

  it("does not keep the loop running if it is not polled", in_cqueues [[
    local held = assert(other:lock "a")
    local asked = assert(client:lock_async "a")
    controller:wrap(function() assert(client:lock "b"):unlock() end)
    assert(controller:loop(10))
    assert(controller:empty())
    assert(asked:cancel() and held:unlock())
  ]])

  it("can be polled on a descriptor number that a closed client had", in_cqueues [[
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
  ]])
end)

describe("copas.receive", function()
  local missing = loops.missing "copas"
  if missing then return pending(missing) end

  it("returns the lock or failure of a pending lock while other coroutines wait",
    loops.test("copas", [[
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
      -- When the client watches its predecessor, the wait with the short timeout below needs no
      -- answer from etcd.
      while client:stats().watches == 0 do copas.step(0.01) end
      copas.addthread(function()
        code = select(3, copas.receive(assert(client:lock_async("a", { timeout = 0.05 }))))
        assert(client:stats().waiting >= 10)
        assert(held:unlock())
      end)
      while got < 10 do copas.step(5) end
      assert(code == "timeout", code)
    ]]))
end)

-- Regression 006. In an event loop, a call that had to wait raised an error if the process had no
-- free descriptor, instead of returning "nomem". Even unlock did so. A wait with a closed client
-- raised an error as well.
for _, loop in ipairs { "cqueues", "luv", "copas" } do
  local missing = loops.missing(loop)

  it('lock, queue and unlock without a descriptor return "nomem" in ' .. loop,
    missing and function() pending(missing) end or loops.test(loop, [[
      local function sockets()
        local count, scan = 0, assert(uv.fs_scandir "/proc/self/fd")
        for fd in function() return uv.fs_scandir_next(scan) end do
          local target = uv.fs_readlink("/proc/self/fd/" .. fd) or ""
          if target:find "^socket:" then count = count + 1 end
        end
        return count
      end
      local TRIES = 50
      local locks = {}
      for i = 1, TRIES do locks[i] = assert(client:lock("a" .. i)) end
      local before = sockets()
      local closed = connect()
      local left = assert(closed:lock "b")
      closed:close()
      go(function()
        -- gRPC may need a moment more for the connection of a closed client.
        while sockets() > before do sleep(0.01) end
        fails("closed", left:wait_lost(1))
        -- Room for the files that are open, and a few more.
        os.execute(("prlimit --pid %d --nofile=%d:"):format(core.pid(), descriptors() + 8))
        local files = {}
        -- gRPC's threads may close a descriptor at any time. Then the call is repeated.
        local function starves(call)
          for _ = 1, TRIES do
            repeat
              local file = io.open "/dev/null"
              files[#files + 1] = file
            until not file
            local got, message, code = call()
            if not got then return fails("nomem", got, message, code) end
            sleep(0.02)
          end
          error "there is always one left"
        end
        starves(function()
          local got, message, code = client:lock "c"
          if got then got:unlock() end
          return got, message, code
        end)
        starves(function() return client:queue "c" end)
        starves(function() return table.remove(locks):unlock() end)
        for _, file in ipairs(files) do file:close() end
        for _, lock in ipairs(locks) do assert(lock:unlock()) end
        for i = 1, TRIES do assert(client:lock("a" .. i)):unlock() end
        assert(client:lock "c"):unlock()
        equal(0, client:stats().held)
      end)
      run()
    ]]))
end

-- Regression 008. A lock was granted to a coroutine that no longer ran, and stayed held while other
-- clients waited. The object that watches for the end of a wait kept the coroutine from being
-- collected.
it("a wait in a dropped cqueues controller ends at garbage collection",
  loops.test("cqueues", [[
  local held = assert(other:lock "a")
  local job = cqueues.new()
  job:wrap(function() client:with_lock("a", error) end)
  job:loop(0.1)
  job = nil
  held:unlock()
  go(function()
    collectgarbage()
    collectgarbage()
    local from = core.now()
    assert(client:lock("a", { timeout = 5 })):unlock()
    took(0, from)
  end)
  run()
]]))

it("coroutine.close removes the entry of a waiting coroutine from the queue",
  not coroutine.close and function() pending "coroutine.close came with Lua 5.4" end
    or loops.test("luv", [[
      local held, waiting = assert(other:lock "a"), nil
      go(function()
        waiting = coroutine.running()
        client:with_lock("a", error)
      end)
      go(function()
        repeat sleep(0.01) until #other:queue "a" == 2
        assert(coroutine.close(waiting))
        live = live - 1 -- it doesn't end by itself
        repeat sleep(0.01) until #other:queue "a" == 1
        equal(0, client:stats().waiting)
      end)
      run()
      assert(held:unlock())
    ]]))

it("coroutine.close ends the wait of a coroutine that yields in an on_lost handler",
  not coroutine.close and function() pending "coroutine.close came with Lua 5.4" end
    or loops.test("luv", [[
      local held, waiting, told = assert(other:lock "a"), nil, false
      go(function()
        waiting = coroutine.running()
        local mine = assert(client:lock("b", { max_hold = 0.1 }))
        mine:on_lost(function()
          told = true
          coroutine.yield()
        end)
        client:lock "a"
      end)
      go(function()
        repeat sleep(0.01) until told
        assert(coroutine.close(waiting))
        live = live - 1
        repeat sleep(0.01) until #other:queue "a" == 1
      end)
      run()
      assert(held:unlock())
    ]]))

-- Regression 009. Pending locks of one client share a descriptor. A step of one pending lock
-- consumed the wakeup of another one, and a coroutine that polled the other one waited forever.
it("step of a pending lock does not consume the wakeup of another",
  loops.test("cqueues", [[
  local held = { a = assert(other:lock "a"), b = assert(other:lock "b") }
  local b = assert(client:lock_async "b")
  local from
  go(function()
    local a = assert(client:lock_async "a")
    while a:step() == false do cqueues.poll(a) end
    assert(a:step():unlock())
    took(0, from)
  end)
  go(function()
    sleep(0.05)
    held.a._core:release() -- does not wait, so no other coroutine runs meanwhile
    repeat until client:stats().held == 1
    from = core.now()
    assert(b:step() == false)
  end)
  run()
  assert(b:cancel() and held.b:unlock())
]]))

-- Regression 010. In an event loop, each unlock of a lock with an on_lost handler left an entry in
-- the client's tables. Besides, the wakeup for a loss could go to a coroutine that waited in
-- unlock. unlock calls no handlers, so the handler ran late.
it("unlock of a lock with an on_lost handler leaves no table entry",
  loops.test("cqueues", [[
  local locks = {} -- not for the collector to forget
  local function entries()
    local n, losses = 0, client._loss_listeners
    for _, list in ipairs { client._wakeups._expected, losses._waiters, losses.locks } do
      for _ in pairs(list) do n = n + 1 end
    end
    return n
  end
  go(function()
    for _ = 1, 50 do
      assert(client:with_lock("a", function(lock)
        locks[#locks + 1] = lock
        lock:on_lost(error)
        fails("timeout", lock:wait_lost(0.001)) -- so that the core is asked for the news
        return true
      end))
    end
    collectgarbage()
    equal(0, entries())
  end)
  run()
]]))

it("a dropped coroutine leaves no entry among the waits that a loss wakes",
  loops.test("cqueues", [[
  local lock = assert(client:lock "a")
  lock:on_lost(function() end)
  local waited = assert(other:lock "b")
  for _ = 1, 5 do
    local job = cqueues.new()
    job:wrap(function() client:lock "b" end)
    job:loop(0.05)
  end
  for _ = 1, 2 do collectgarbage() end
  while client:stats().waiting > 0 do uv.sleep(5) end
  client._wakeups:deliver()
  equal(nil, next(client._loss_listeners._waiters))
  assert(waited:unlock())
  assert(lock:unlock())
]]))

it("a loss wakes a coroutine in wait_lost, not only those in unlock", function()
  local etcd = suite.start()
  local child = loops.start("cqueues", [[
    go(function()
      local watched, told = assert(client:lock "watched"), nil
      watched:on_lost(function() told = core.now() end)
      local waited, others = assert(client:lock "a"), {}
      for i = 1, 9 do others[i] = assert(client:lock("b" .. i)) end
      print "ready"
      io.read()
      local from = core.now()
      assert(watched:expire(0.3))
      go(function() waited:wait_lost(3) end)
      for i = 1, 9 do go(function() others[i]:unlock() end) end
      while not told and core.now() < from + 3 do sleep(0.01) end
      equal(true, told ~= nil)
      assert(told - from < 1.9, told - from) -- an unlock waits for 2 s
      print "told"
      io.read()
    end)
    run()
  ]], etcd)
  child:expect "^ready"
  etcd:pause()
  child:send "go"
  child:expect("^told", 5)
  etcd:resume()
  child:send "end"
  child:expect "^done"
  child:wait() -- otherwise the child is killed during its leak check
end)

it("the on_lost handler runs for a loss before a wait, or beside a dropped wait",
  loops.test("cqueues", [[
  local forgotten, job = assert(client:lock("f", { owner = "x" })), cqueues.new()
  job:wrap(function() forgotten:wait_lost() end)
  job:loop(0.05)
  job = nil
  local function on_loss_of(name, lose)
    go(function()
      local lock, told = assert(client:lock(name)), nil
      local waited = assert(client:lock(name .. "2"))
      lock:on_lost(function() told = true end)
      lose(lock, name)
      go(function()
        local from = core.now()
        while not told and core.now() < from + 10 do sleep(0.01) end
        equal(true, told)
        assert(waited:unlock())
      end)
      fails("not_held", waited:wait_lost(20))
    end)
    run()
  end
  on_loss_of("before", function(lock)
    assert(lock:expire(0.02))
    local ends = core.now() + 0.05
    repeat until core.now() > ends
  end)
  on_loss_of("beside", function(lock, name)
    go(function() assert(other:break_lock(name, lock:token())) end)
  end)
  assert(forgotten:unlock())
]]))

-- Regression 139. Each lock_async that was cancelled kept 105 bytes until a later wait.
it("cancelled waits leave no memory", function()
  clients.keep(assert(client:lock "a"))
  local function cancel_many()
    for i = 1, 2000 do assert(client:lock_async("a", { owner = i })):cancel() end
    collectgarbage()
    collectgarbage()
    return collectgarbage "count"
  end
  cancel_many()
  local before = cancel_many()
  assert.is_true(cancel_many() - before < 20)
end)
