-- Tests that jetcd, which uses etcd's Lock and Election services, and etcdlock take part in one
-- lock and in one election.
-- Needs: one plain member.

client_options { ttl = 5 }

local NAME = prefix .. "a"

local _, status, why = proc.run({ "sh", "spec/support/java/build.sh" }, { seconds = 600 })
assert(status == 0 or status == 3, why)

-- A killed program leaves its lease behind.
after_each(function()
  proc.destroy_children()
  etcd:revoke_all()
end)

local function told(text, story)
  it(text, status == 0 and story or function() pending((why:gsub("\n$", ""))) end)
end

local function start()
  local child = proc.talk {
    "java", "-cp", "build/java/classes:build/java/lib/*", "Jetcd", suite.endpoint(), NAME,
  }
  child:expect("^ready", 30)
  return child
end

local function tell(child, what, answer)
  child:send(what)
  return child:expect(answer)
end

local function await_keys(count) etcd:await_keys(NAME .. "/", count) end

describe("jetcd's Lock service and etcdlock", function()
  told("exclude each other, in queue order, with keys of one form", function()
    local first, second = start(), start()
    assert.equal(NAME, tell(first, "lock", "^held (.*)/%x+$"))
    local asked = assert(client:lock_async "a")
    await_keys(2)
    second:send "lock"
    await_keys(3)
    assert.is_false(asked:step())
    assert.same({ true, false, false }, {
      client:queue "a"[1].held, client:queue "a"[2].held, client:queue "a"[3].held,
    })
    tell(first, "unlock", "^unlocked")
    local lock = clients.granted(asked)
    wait.sleep(0.3)
    assert.is_nil(second.lines[1])
    assert.is_true(lock:unlock())
    second:expect "^held"
    assert.is_nil((client:try_lock "a"))
    tell(second, "unlock", "^unlocked")
    assert.is_true(assert(client:try_lock "a"):unlock())
  end)
end)

describe("jetcd's Election service and etcdlock", function()
  told("lead in queue order and see each other's values", function()
    local theirs, watching, election = start(), start(), assert(client:election "a")
    local observer = election:observe()
    watching:send "observe"
    tell(theirs, "campaign a", "^leads")
    assert.equal("a", (election:leader()))
    assert.equal("a", (observer:next(5)))
    tell(theirs, "proclaim b", "^proclaimed")
    assert.equal("b", (observer:next(5)))
    local asked = assert(election:campaign_async("ours", { owner = {} }))
    await_keys(2)
    tell(theirs, "resign", "^resigned")
    local lock = clients.granted(asked)
    watching:expect "^saw ours$"
    tell(theirs, "leader", "^leader ours$")
    assert.is_true(lock:proclaim "ours too")
    watching:expect "^saw ours too$"
    assert.is_true(lock:resign())
    assert.is_false(election:leader())
  end)
end)
