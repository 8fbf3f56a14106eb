-- Tests messages that named a wrong cause.

-- Regression 057. Messages about wrong values stated a condition that the value met, or one that
-- did not help the caller. tostring of a client without a session said that etcd was unreachable.

local function assert_raises(text, call) assert.has_error(call, text) end

it("an infinite max_hold is refused with the condition that it fails", function()
  assert.equal("client:lock: max_hold = inf, wanted more than 0 seconds and not inf;"
    .. " leave it out for a hold without end",
    assert_fails("invalid", connect():lock("a", { max_hold = math.huge })))
end)

it("a number of seconds out of range is refused with the range", function()
  local lock = assert(client:lock "a")
  assert_raises("lock:wait_lost: timeout = -1, wanted 0 or more seconds",
    function() lock:wait_lost(-1) end)
  -- Regression 076. expire accepted math.huge.
  for _, seconds in ipairs { -1, 0, math.huge, -math.huge, 0 / 0, "nil" } do
    local text = "lock:expire: seconds = %s, wanted more than 0 seconds and not inf"
    assert_raises(text:format(tostring(seconds)),
      function() lock:expire(seconds ~= "nil" and seconds or nil) end)
  end
  assert.is_true(lock:expire(30))
  assert.is_true(lock:unlock())
end)

describe("the message about a name with a reserved end", function()
  local WHY = ' is reserved: etcdlock keeps the keys of other locks below names that end in "%s";'
    .. " choose another name"

  it("says that the name must not have that end", function()
    for _, name in ipairs { "a/read", "a/write", "a/permit", "a/write/order" } do
      local reserved = name:sub(2)
      assert.equal(('client:lock: name "%s"'):format(name) .. WHY:format(reserved),
        (assert_fails("invalid", connect { prefix = "" }:lock(name))))
    end
  end)

  it("names the prefix where only the prefix makes it one", function()
    local client = connect { prefix = "a/" }
    assert.equal('client:lock: name "read" with the prefix "a/"' .. WHY:format "/read",
      (assert_fails("invalid", client:lock "read")))
  end)
end)

describe("tostring of a client", function()
  local function state(client) return tostring(client):match "%((.*)%)$" end

  it("says that it has no session after a call that takes no lock", function()
    assert(client:ping())
    assert.equal("no session", state(client))
  end)

  it("says unavailable where etcd is out of reach", function()
    local client = connect { endpoints = "127.0.0.1:" .. port.free() }
    assert_fails("unavailable", client:lock("a", { timeout = 1 }))
    assert.equal("unavailable", state(client))
  end)
end)

-- Regression 176. These messages did not name the mistake: a call without its function reported a
-- wrong fn, one without its name a missing function, and a former option was unknown.
describe("the message names the mistake of", function()
  it("a with_lock without its function, or without its name", function()
    assert_raises("client:with_lock: fn = nil, wanted a function",
      function() client:with_lock("a", { timeout = 1 }, nil) end)
    for where, call in pairs {
      client = function() client:with_lock(function() end) end,
      etcdlock = function() etcdlock.with_lock(function() end) end,
    } do
      assert.error_matches(call,
        where .. "[:.]with_lock: name = function: 0x%x+, wanted a string$")
    end
  end)

  it("a call of the client at the module, which has other fields", function()
    assert_raises("etcdlock.lock: it is a call of a client: local client ="
      .. " assert(etcdlock.connect()); client:lock(…)", function() etcdlock.lock "a" end)
    assert.is_nil(etcdlock.Lock)
  end)

  it("the former option delay", function()
    assert_raises(
      'client:lock: option "delay" belongs to etcdlock.connect, which calls it lock_delay',
      function() connect():lock("a", { delay = 1 }) end)
    assert_raises('etcdlock.connect: unknown option "delay"; did you mean lock_delay?',
      function() etcdlock.connect { delay = 1 } end)
  end)

  it("a program that blocks in an old copas without the option loop", function()
    local client, before = connect(), package.loaded.copas
    finally(function() package.loaded.copas = before end)
    clients.keep(assert(client:lock "a"))
    package.loaded.copas = nil
    local function ask() return client:lock("a", { owner = "x" }) end
    assert.is_nil(assert_fails("deadlock", ask()):find "copas")
    package.loaded.copas = { addthread = function() end } -- as copas 2 and 3, without `running`
    assert.matches('which cannot release it while this call waits; with copas before version 4,'
      .. ' connect with loop = "copas"', assert_fails("deadlock", ask()), 1, true)
  end)
end)

-- Regression 177. A timeout named the holder only after a wait of 10 s.
it("a timeout of 1 s names the holder, also if it joins other waiters of its client", function()
  local holder, client = connect(), connect()
  clients.keep(assert(holder:lock("a", { value = "report" })))
  local first = assert(client:lock_async("a", { owner = 1 }))
  wait.eventually(function() return client:stats().looks > 0 end, 5, "a read of the queue")
  for _, timeout in ipairs { 1, 0.1 } do
    local pending = assert(client:lock_async("a", { owner = 2, timeout = timeout }))
    local _, message = clients.ended(pending)
    assert.matches(('^lock "%sa" was not free within %g s; holder[^:]*: this process, pid '
      .. '%d .*, value "report"$'):format(prefix, timeout, core.pid()), message)
  end
  first:cancel()
end)

-- Regression 206. If etcd was written to while the waiter's watch was created, the waiter at once
-- read its queue, but not its holder, and did not read again for 10 s.
it("a timeout names the holder while other clients write to etcd", function()
  local holder, client, busy = connect(), connect(), connect()
  clients.keep(assert(holder:lock "a"))
  local other = clients.keep(assert(busy:lock "b"))
  for _ = 1, 5 do
    local pending = assert(client:lock_async("a", { timeout = 1 }))
    local lock, message
    repeat
      assert(other:put("data", "x"))
      lock, message = pending:step()
    until lock ~= false
    assert.matches("was not free within 1 s; holder", message)
  end
end)

-- Regression 222. A timeout of a candidate named no leader.
it("a timeout of a candidate shows the value of the leader", function()
  clients.keep(assert(connect():election "a":campaign "10.0.0.1:80"))
  local pending = assert(connect():election "a":campaign_async("10.0.0.2:80", { timeout = 1 }))
  local _, message = clients.ended(pending)
  assert.matches('was not free within 1 s; holder[^:]*: value "10.0.0.1:80"$', message)
end)

-- Regressions 178, 270. A timeout named the lock with the client's prefix, and a loss without it.
-- Then all messages named it without the prefix, so the commands did not find that name.
it("messages name a lock by its full name", function()
  local holder, client = connect(), connect()
  local lock = assert(holder:multi_lock { "a", "b" })
  for _, name in ipairs { "a", "b" } do
    assert.equal(('lock "%s%s" is taken'):format(prefix, name),
      assert_fails("locked", client:try_lock(name)))
  end
  assert.equal(('lock "%sb %sa" is taken'):format(prefix, prefix),
    assert_fails("locked", client:try_multi_lock { "b", "a" }))
  assert.is_true(client:break_lock("a", lock:token()))
  lock:wait_lost(5)
  local message = assert_fails("lost", lock:unlock())
  assert.matches(('lock "%sa %sb" was lost: '):format(prefix, prefix), message, 1, true)
end)

it("messages mark a long name that they cut", function()
  local name = ("n"):rep(81 - #prefix)
  clients.keep(assert(connect():lock(name)))
  assert.equal(('lock "%s"... is taken'):format((prefix .. name):sub(1, 80)),
    assert_fails("locked", connect():try_lock(name)))
end)
