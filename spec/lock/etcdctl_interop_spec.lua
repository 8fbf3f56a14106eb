-- Tests that `etcdctl lock`, which uses Go's concurrency.Mutex, and etcdlock share one queue.

local options = { endpoints = etcd:endpoints(), prefix = prefix, ttl = 30 }
client_options(options)

-- Starts `etcdctl lock` for |name|, which prints its key when it holds the lock. It gets its other
-- settings from the environment of this process. It gets one endpoint only: with several members
-- etcdctl may send the auth token of one member to another, which does not know the token yet, and
-- then fails.
local function etcdctl_lock(name)
  return proc.talk({ "etcdctl", "lock", "--ttl", "10", prefix .. name },
    { ETCDCTL_ENDPOINTS = suite.endpoint() })
end

-- Returns the key of |ctl|, or nil if |ctl| does not hold the lock.
local function holds(ctl) return ctl.lines[1] end

local function await_hold(ctl)
  return wait.eventually(function() return holds(ctl) end, 5, "etcdctl's hold")
end

-- Ends |ctl| by SIGINT, as Ctrl-C does, which releases the lock. etcdctl leaves its lease, so the
-- lease is revoked here.
local function stop(ctl)
  ctl:kill "sigint"
  ctl:wait()
  etcd:revoke(holds(ctl):match "%x+$")
end

-- Starts a process that asks for the lock |name|.
local function ask(name)
  local child = remote.start(options)
  remote.send_take(child, name)
  return child
end

describe("etcdlock beside `etcdctl lock`", function()
  it("waits until etcdctl releases the lock; try_lock returns locked", function()
    local ctl = etcdctl_lock "theirs"
    local key = await_hold(ctl)
    assert.same({ key }, etcd:keys(prefix .. "theirs/"))
    assert.equal("locked", (select(3, client:try_lock "theirs")))
    assert_fails("timeout",
      clients.answered(client.lock, client, "theirs", { timeout = 1 }))
    local ours = ask "theirs"
    etcd:await_keys(prefix .. "theirs/", 2)
    wait.sleep(0.2)
    remote.assert_waits(ours)
    stop(ctl)
    remote.taken(ours, 2)
    remote.release(ours)
    ours:wait()
  end)

  it("is granted the lock in queue order, as etcdctl is", function()
    local lock = assert(client:lock "mixed")
    local ctls, children = {}, {}
    for i = 1, 3 do
      ctls[i] = etcdctl_lock "mixed"
      etcd:await_keys(prefix .. "mixed/", 2 * i)
      children[i] = ask "mixed"
      etcd:await_keys(prefix .. "mixed/", 2 * i + 1)
    end
    local places = assert(client:queue "mixed")
    assert(lock:unlock())
    for i = 1, 3 do
      assert.equal(places[2 * i].key, await_hold(ctls[i]))
      for j = i, 3 do
        remote.assert_waits(children[j])
        assert.is_nil(j > i and holds(ctls[j]) or nil)
      end
      stop(ctls[i])
      assert.equal(places[2 * i + 1].token, remote.taken(children[i], 2))
      for j = i + 1, 3 do assert.is_nil(holds(ctls[j])) end
      remote.release(children[i])
      children[i]:wait()
    end
    assert.same({}, etcd:keys(prefix .. "mixed/"))
  end)

  it("lists etcdctl's entry without a pid, and break_lock removes it", function()
    local ctl = etcdctl_lock "listed"
    local key = await_hold(ctl)
    local ours = ask "listed"
    etcd:await_keys(prefix .. "listed/", 2)
    local places = assert(client:queue "listed")
    local _, token = etcd:get(key)
    assert.equal(2, #places)
    assert.same({ held = true, token = token, lease = key:match "%x+$", mode = "lock", key = key },
      places[1])
    assert.is_false(places[2].held)
    assert.equal(ours.pid, places[2].pid)

    assert(client:break_lock("listed", token))
    remote.taken(ours, 2)
    remote.release(ours)
    ours:wait()
    stop(ctl)
  end)
end)
