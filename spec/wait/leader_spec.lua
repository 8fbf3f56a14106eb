-- A thread that blocks runs the client's loop itself, and leaves it to the client's own
-- thread when it doesn't come back.

local clients = require "spec.support.harness.clients"
local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local connect = clients.connector { endpoints = etcd:endpoints(), prefix = prefix }
local client, other

before_each(function()
  client, other = connect { ttl = 4 }, connect { elsewhere = true }
end)

after_each(clients.close_all)

-- Has the program lead in what it waits for next: it has just had an answer.
local function lead()
  assert.is_true(assert(client:lock "first"):unlock())
end

describe("a client whose program blocks", function()
  it("keeps a lock alive that was waited for long, once it works", function()
    -- Kept, as so long a wait has what was dropped collected.
    clients.keep(assert(other:lock("a", { max_hold = 4.2 })))
    lead()
    local lock = assert(client:lock "a")
    wait.sleep(4.2)
    assert.is_true(lock:check())
    assert.is_true(lock:unlock())
  end)

  it("does what its program asks for and doesn't wait for", function()
    lead()
    local lock = assert(client:lock "a")
    assert(client:lock_async("b"))
    etcd:await_keys(prefix .. "b", 1)
    assert.is_true(lock:unlock())
    local held = assert(client:lock "c")
    assert(held:expire(0.1))
    etcd:await_keys(prefix .. "c", 0)
  end)

  it("hears of a loss while its program does other things", function()
    local lock = assert(client:lock "a")
    wait.sleep(0.1) -- a short hold isn't watched
    etcd:del(lock:key())
    wait.eventually(function() return not lock:held() end, 5, "the loss")
    assert.equal("deleted", lock:wait_lost(0)) -- by the watch, not by the end of the claim
  end)

  -- What a watchdog or a profiler does.
  it("keeps its locks and its time where many signals come", function()
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

  it("ends when it is closed, at once, also right after an answer, when nobody leads", function()
    wait.eventually(function()
      local one, from = connect(), wait.now()
      assert.is_true(assert(one:lock "a"):unlock())
      one:close()
      return wait.now() - from < 1 -- if the machine isn't too busy for that
    end, 5, "an end at once")
  end)

  it("waits no longer than it was told", function()
    clients.keep(assert(other:lock "a"))
    for _, timeout in ipairs { 0.05, 0.5 } do
      lead()
      local from = wait.now()
      local lock, message, code = client:lock("a", { timeout = timeout })
      local took = wait.now() - from
      -- etcd may have been silent for so short a time.
      clients.assert_fails(code == "unavailable" and code or "timeout", lock, message, code)
      assert.is_true(took >= timeout and took < timeout + wait.SLACK, took)
    end
  end)

  -- What needs no timer of the client's.
  it("has looked for news no longer than it was told, however often", function()
    local lock, took = assert(client:lock "a"), 0
    for _ = 1, 50 do
      lead()
      local from = wait.now()
      clients.assert_fails("timeout", lock:wait_lost(0.02))
      took = took + wait.now() - from
    end
    assert.is_true(took < 50 * 0.02 + wait.SLACK, took)
  end)
end)
