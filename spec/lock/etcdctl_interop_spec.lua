-- Tests that `etcdctl lock`, which uses Go's concurrency.Mutex, and etcdlock share one queue.

-- Takes the lock |name|, prints its token and key, and releases it after a line of input.
local OURS = [[
  local endpoint, prefix, name = ...
  local client = assert(require("etcdlock").connect {
    endpoints = endpoint, prefix = prefix, ttl = 30,
  })
  local lock = assert(client:lock(name))
  print(("held %.0f %s"):format(lock:token(), lock:key()))
  io.read()
  print("unlocked " .. tostring(lock:unlock()))
  client:close()
]]

-- Starts `etcdctl lock` for |name| with a lease of |ttl| seconds (10). The field `text` of the
-- result holds what it has printed: its key, once it holds the lock.
local function etcdctl_lock(name, ttl)
  local pipe = uv.new_pipe(false)
  local ctl = { text = "" }
  ctl.process = proc.spawn({
    "etcdctl", "lock", "--ttl", tostring(ttl or 10), prefix .. name,
  }, { nil, pipe, 2 }, {
    -- etcdctl gets its other settings from the environment of this process. It gets one endpoint
    -- only: with several members etcdctl may send the auth token of one member to another, which
    -- does not know the token yet, and then fails.
    env = { ETCDCTL_ENDPOINTS = suite.endpoint() },
  })
  pipe:read_start(function(_, data)
    if data then
      ctl.text = ctl.text .. data
    else
      ctl.ended = true
      pipe:close()
    end
  end)
  return ctl
end

-- Returns the key of |ctl|, or nil if |ctl| does not hold the lock.
local function holds(ctl) return ctl.text:match "^(.-)\n" end

local function await_hold(ctl)
  return wait.eventually(function() return holds(ctl) end, 5, "etcdctl's hold")
end

-- Ends |ctl| by SIGINT, as Ctrl-C does, which releases the lock. etcdctl leaves its lease, so the
-- lease is revoked here.
local function stop(ctl)
  uv.kill(ctl.process.pid, "sigint")
  proc.wait(ctl.process)
  wait.eventually(function() return ctl.ended end, 5, "end of etcdctl's output")
  etcd:revoke(holds(ctl):match "%x+$")
end

local function connect()
  local client = assert(etcdlock.connect {
    endpoints = etcd:endpoints(), prefix = prefix, ttl = 30,
  })
  finally(function() client:close() end)
  return client
end

describe("etcdlock beside `etcdctl lock`", function()
  it("waits until etcdctl releases the lock; try_lock returns locked", function()
    local client = connect()
    local ctl = etcdctl_lock "theirs"
    local key = await_hold(ctl)
    assert.same({ key }, etcd:keys(prefix .. "theirs/"))
    assert.equal("locked", (select(3, client:try_lock "theirs")))
    assert_fails("timeout",
      clients.answered(client.lock, client, "theirs", { timeout = 1 }))
    local ours = proc.lua(OURS, etcd:endpoints(), prefix, "theirs")
    etcd:await_keys(prefix .. "theirs/", 2)
    wait.sleep(0.2)
    assert.is_nil(ours.lines[1])
    stop(ctl)
    ours:expect("^held", 2)
    ours:send "go"
    ours:expect "^unlocked true"
    assert.equal(0, (ours:wait()))
  end)

  it("makes etcdctl wait until unlock", function()
    local client = connect()
    local lock = assert(client:lock "ours")
    local ctl = etcdctl_lock "ours"
    etcd:await_keys(prefix .. "ours/", 2)
    wait.sleep(0.2)
    assert.is_nil(holds(ctl))
    assert.is_true((lock:check()))
    assert(lock:unlock())
    await_hold(ctl)
    assert.equal("locked", (select(3, client:try_lock "ours")))
    stop(ctl)
    lock = assert(client:try_lock "ours")
    assert(lock:unlock())
  end)

  it("is granted the lock of a killed etcdctl when its lease ends", function()
    local ctl = etcdctl_lock("killed", 3)
    await_hold(ctl)
    local ours = proc.lua(OURS, etcd:endpoints(), prefix, "killed")
    etcd:await_keys(prefix .. "killed/", 2)
    proc.destroy(ctl.process)
    ours:expect("^held", 4)
    ours:send "go"
    ours:expect "^unlocked true"
    ours:wait()
  end)

  it("is granted the lock in queue order, as etcdctl is", function()
    local client = connect()
    local lock = assert(client:lock "mixed")
    local ctls, children = {}, {}
    for i = 1, 3 do
      ctls[i] = etcdctl_lock "mixed"
      etcd:await_keys(prefix .. "mixed/", 2 * i)
      children[i] = proc.lua(OURS, etcd:endpoints(), prefix, "mixed")
      etcd:await_keys(prefix .. "mixed/", 2 * i + 1)
    end
    local places = assert(client:queue "mixed")
    assert(lock:unlock())
    for i = 1, 3 do
      assert.equal(places[2 * i].key, await_hold(ctls[i]))
      for j = i, 3 do
        assert.is_nil(children[j].lines[1])
        assert.is_nil(j > i and holds(ctls[j]) or nil)
      end
      stop(ctls[i])
      local token, key = children[i]:expect("^held (%d+) (.*)", 2)
      assert.equal(places[2 * i + 1].key, key)
      assert.equal(places[2 * i + 1].token, tonumber(token))
      for j = i + 1, 3 do assert.is_nil(holds(ctls[j])) end
      children[i]:send "go"
      children[i]:expect "^unlocked true"
      assert.equal(0, (children[i]:wait()))
    end
    assert.same({}, etcd:keys(prefix .. "mixed/"))
  end)

  it("lists etcdctl's entry without a pid, and break_lock removes it", function()
    local client = connect()
    local ctl = etcdctl_lock "listed"
    local key = await_hold(ctl)
    local ours = proc.lua(OURS, etcd:endpoints(), prefix, "listed")
    etcd:await_keys(prefix .. "listed/", 2)
    local places = assert(client:queue "listed")
    local _, token = etcd:get(key)
    assert.equal(2, #places)
    assert.same({ held = true, token = token, lease = key:match "%x+$", mode = "lock", key = key },
      places[1])
    assert.is_false(places[2].held)
    assert.equal(ours.pid, places[2].pid)

    assert(client:break_lock("listed", token))
    ours:expect("^held", 2)
    ours:send "go"
    ours:wait()
    stop(ctl)
  end)
end)
