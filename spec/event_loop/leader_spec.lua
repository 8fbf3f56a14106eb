-- Tests that a Lua thread that blocks drives the client's event loop itself, and that the I/O
-- thread takes over while the Lua thread does other things.

client_options { ttl = 4 }

-- Makes the Lua thread drive the loop in its next wait, as it does right after an answer.
local function lead() assert.is_true(assert(client:lock "first"):unlock()) end

describe("a client", function()
  it("keeps its lease during a wait and during work that are longer than the TTL", function()
    -- The lock is kept, because Lua would collect a lock without a reference during so long a wait.
    clients.keep(assert(other:lock("a", { max_hold = 4.2 })))
    lead()
    local lock = assert(client:lock "a")
    wait.sleep(4.2)
    assert.is_true(lock:check())
    assert.is_true(lock:unlock())
  end)

  it("carries out lock_async and expire although the program does not wait for them", function()
    lead()
    local lock = assert(client:lock "a")
    clients.keep(assert(client:lock_async("b")))
    etcd:await_keys(prefix .. "b", 1)
    assert.is_true(lock:unlock())
    local held = assert(client:lock "c")
    assert(held:expire(0.1))
    etcd:await_keys(prefix .. "c", 0)
  end)

  it("notices that its key was deleted while the program does not wait", function()
    local lock = assert(client:lock "a")
    wait.sleep(0.1) -- the client watches the key only after 50 ms of a hold
    etcd:del(lock:key())
    wait.eventually(function() return not lock:held() end, 5, "the loss")
    assert.equal("deleted", lock:wait_lost(0)) -- reported by the watch, not by the hold deadline
  end)

  -- A watchdog or a profiler may send signals at this rate.
  it("keeps its hold and the timeout of a wait while a signal arrives every 10 ms", function()
    local child = proc.lua([[
      local endpoint, prefix = ...
      local wait = require "spec.support.harness.wait"
      require "luv".new_signal():start("sigusr1", function() end)
      local client = assert(require("etcdlock").connect {
        endpoints = endpoint, prefix = prefix, ttl = 4 })
      local held = assert(client:lock "b")
      print "held"
      local from = wait.now()
      print("asked", select(3, client:lock("a", { timeout = 5 })))
      print("took", wait.now() - from)
      print("held", held:check())
      client:close()
    ]], etcd:endpoints(), prefix)
    clients.keep(assert(other:lock "a"))
    child:expect "^held$"
    etcd:await_keys(prefix .. "a", 2)
    repeat
      child:kill "sigusr1"
      wait.sleep(0.01)
    until child.out.text:find "asked"
    assert.equal("timeout", (child:expect "^asked\t(%a+)$"))
    assert.is_true(tonumber((child:expect "^took\t(%S+)$")) < 5 + wait.SLACK)
    child:expect "^held\ttrue"
    assert.equal(0, (child:wait()))
  end)

  it("closes within 1 s directly after an answer, when no thread drives the loop", function()
    wait.eventually(function()
      local one, from = connect(), wait.now()
      assert.is_true(assert(one:lock "a"):unlock())
      one:close()
      return wait.now() - from < 1 -- repeated, as a busy machine may take longer
    end, 5, "an end at once")
  end)

  it("ends a wait for a lock at its timeout if the Lua thread drives the loop", function()
    clients.keep(assert(other:lock "a"))
    for _, timeout in ipairs { 0.05, 0.5 } do
      lead()
      local from = wait.now()
      local lock, message, code = client:lock("a", { timeout = timeout })
      local took = wait.now() - from
      -- The code is "unavailable" if etcd sent nothing within so short a time.
      assert_fails(code == "unavailable" and code or "timeout", lock, message, code)
      assert.is_true(took >= timeout and took < timeout + wait.SLACK, took)
    end
  end)

  -- wait_lost needs no timer of the client, unlike lock.
  it("ends wait_lost at its timeout, 50 times, if the Lua thread drives the loop", function()
    local lock, took = assert(client:lock "a"), 0
    for _ = 1, 50 do
      lead()
      local from = wait.now()
      assert_fails("timeout", lock:wait_lost(0.02))
      took = took + wait.now() - from
    end
    assert.is_true(took < 50 * 0.02 + wait.SLACK, took)
  end)
end)
