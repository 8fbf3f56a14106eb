-- Tests that a client finds out that luv's loop runs, and how it shares luv with its program.

-- Regression 250. Without loop = "luv" each wait stopped the whole loop, and a wait for another
-- coroutine of the same program failed with "deadlock". If a program had closed all its handles,
-- later waits did not end.
local other

before_each(function()
  client_options { ttl = 10 }
  other = connect { elsewhere = true }
end)

-- Runs |main| in a coroutine that a callback of luv starts, and waits until it has returned.
local function run_in_loop(main)
  local timer, has_returned, failure = uv.new_timer(), false, nil
  local thread = coroutine.create(function()
    main()
    has_returned = true
  end)
  timer:start(0, 0, function()
    timer:close()
    local ok, err = coroutine.resume(thread)
    failure = not ok and err -- an error here would end the process
  end)
  wait.eventually(function() return coroutine.status(thread) == "dead" end, 20, "the coroutine")
  assert.is_true(has_returned, failure)
end

local function sleep(seconds)
  local thread, timer = coroutine.running(), uv.new_timer()
  timer:start(seconds * 1000, 0, function()
    timer:close()
    coroutine.resume(thread)
  end)
  coroutine.yield()
end

describe("in a callback of luv, without the option loop,", function()
  it("a wait for another client lets the loop run", function()
    local client, ticks, ticker = connect(), 0, uv.new_timer()
    local held = assert(other:lock "a")
    ticker:start(5, 5, function()
      ticks = ticks + 1
      if ticks == 20 then assert(held:unlock()) end
    end)
    finally(function() ticker:close() end)
    run_in_loop(function() assert(client:lock("a", { timeout = 10 })):unlock() end)
    assert.is_true(ticks >= 20)
  end)

  it("a wait for another coroutine of the same client ends", function()
    local client, order = connect(), {}
    run_in_loop(function()
      local lock = assert(client:lock "a")
      coroutine.wrap(function()
        local next_one = assert(client:lock("a", { timeout = 10 }))
        order[#order + 1] = "second"
        next_one:unlock()
      end)()
      sleep(0.05)
      order[#order + 1] = "first"
      assert(lock:unlock())
      while #order < 2 do sleep(0.01) end
    end)
    assert.same({ "first", "second" }, order)
  end)

  it('a wait blocks with loop = "none", and outside of the loop', function()
    local client = connect { loop = "none" }
    run_in_loop(function() assert(client:lock "a"):unlock() end)
    local main = connect()
    local is_over
    coroutine.wrap(function()
      assert(main:lock "b"):unlock()
      is_over = true
    end)()
    assert.is_true(is_over)
  end)

  it("the program may watch the descriptor of its pending locks, too", function()
    local held = assert(other:lock "b")
    local pending = assert(client:lock_async("b", { owner = "me" }))
    run_in_loop(function()
      assert(client:lock "a"):unlock()
      local poll = assert(uv.new_poll(pending:pollfd()))
      local lock
      poll:start("r", function() lock = pending:step() end)
      assert(held:unlock())
      while not lock do sleep(0.01) end
      poll:close()
      assert(lock:unlock())
    end)
  end)

  it("a wait ends after the program has closed all handles", function()
    local held = assert(other:lock "a")
    local child = proc.lua([[
      local endpoint, prefix = ...
      local uv = require "luv"
      local client = assert(require("etcdlock").connect {
        endpoints = endpoint, env = false, prefix = prefix, ttl = 2,
      })
      local timer = uv.new_timer()
      timer:start(0, 0, function()
        coroutine.wrap(function() client:lock("a", { timeout = 20 }) end)() -- does not end
        uv.walk(function(handle) handle:close() end)
        coroutine.wrap(function()
          assert(client:lock("b", { timeout = 10 })):unlock()
          print "locked"
          os.exit(0, false)
        end)()
      end)
      uv.run()
    ]], etcd:endpoint(), prefix)
    child:expect("^locked$", 8)
    assert.equal(0, (child:wait(8)))
    assert.equal("", child:errors())
    assert.is_true(held:unlock())
  end)
end)
