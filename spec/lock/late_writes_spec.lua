-- Tests guarded writes that reach etcd late, after their caller has been told that their outcome is
-- unknown.
-- Needs: one plain member.

-- Regression 014. A guarded write of unknown outcome reached etcd late and overwrote a newer write
-- of the same hold.
local STATUS = error_rows.STATUS

local KEY = prefix .. "data"
scripted_client { ttl = 60 } -- no lease proof, which could take a scripted answer, is due in a test
local lock

-- Takes a hold by |call|, a method of the client. Write holds order their guarded writes by a
-- separate marker key, other holds by their own key. (Read holds do not write.)
local function hold(call)
  lock = assert(client[call](client, call == "multi_lock" and { "a", "b" } or "a"))
  clients.await_watched(client, lock)
end

-- Starts a write that fails for the caller; server:deliver carries it out later.
local function write_late()
  server:delay "Txn"
  assert_fails("unavailable", lock:put(KEY, "late"))
end

local function assert_value(value)
  assert.equal(value, (etcd:get(KEY)))
  assert.is_true(lock:check())
end

for _, call in ipairs { "lock", "write_lock", "multi_lock" } do
  describe("a late write under " .. call, function()
    before_each(function() hold(call) end)

    it("is applied if the hold wrote nothing else", function()
      write_late()
      assert.equal(1, server:deliver "Txn")
      assert_value "late"
    end)

    it("changes nothing after a newer put of the hold", function()
      write_late()
      assert.is_true(lock:put(KEY, "next"))
      assert.equal(1, server:deliver "Txn")
      assert_value "next"
      assert.is_true(lock:put(KEY, "last"))
      assert_value "last"
      -- Go's RWMutex does not wait for a key that was rewritten, so the client must not rewrite the
      -- key of a writer.
      if call == "write_lock" then
        assert.equal(lock:token(), tonumber(etcd.gateway:range(lock:key())[1].mod_revision))
        local marker = ("%sa/write/order/%x"):format(prefix, lock:token())
        assert.same({ lock:key(), marker, KEY }, etcd:keys(prefix))
        assert.is_true(lock:unlock())
        assert.same({ KEY }, etcd:keys(prefix))
      end
    end)

    it("changes nothing after newer puts, and neither does a second one", function()
      write_late()
      assert.is_true(lock:put(KEY, "one"))
      write_late()
      assert.is_true(lock:put(KEY, "two"))
      assert.equal(2, server:deliver "Txn")
      assert_value "two"
    end)

    it("changes nothing after a newer delete or txn", function()
      write_late()
      assert.is_true(lock:delete(KEY))
      assert.equal(1, server:deliver "Txn")
      assert_value(nil)
      write_late()
      assert(lock:txn { { "put", KEY, "txn" }, { "get", KEY } })
      assert.equal(1, server:deliver "Txn")
      assert_value "txn"
    end)

    it("changes nothing if the next marker key writes are late, too", function()
      write_late()
      server:delay("Txn", 2)
      assert.is_true(lock:put(KEY, "next"))
      assert.equal(3, server:deliver "Txn")
      assert_value "next"
      assert.is_true(lock:put(KEY, "last"))
      assert_value "last"
    end)

    it("fails the next put unsent if etcd denies the marker key write", function()
      write_late()
      server:answer("Txn", "before", STATUS.PERMISSION_DENIED, "etcdserver: permission denied", 1)
      assert_fails("denied", lock:put(KEY, "refused"))
      assert_value(nil)
      assert.is_true(lock:put(KEY, "next"))
      assert.equal(1, server:deliver "Txn")
      assert_value "next"
    end)
  end)
end

describe("a hold", function()
  before_each(function() hold "lock" end)

  it("keeps its queue entry unchanged when its key is rewritten", function()
    local before = client:queue "a"
    write_late()
    assert.is_true(lock:put(KEY, "next"))
    assert.same(before, client:queue "a")
    assert.is_true(lock:unlock())
    assert.equal(1, server:deliver "Txn")
    assert.equal("next", (etcd:get(KEY)))
  end)

  it("needs at most 110 transactions for 100 writes after a late one", function()
    local program = [[
      local cqueues = require "cqueues"
      local endpoint, prefix, key = ...
      local client = assert(require("etcdlock").connect {
        endpoints = endpoint, prefix = prefix, ttl = 60,
      })
      local loop = cqueues.new()
      loop:wrap(function()
        local lock = assert(client:lock "b")
        print "ready"
        io.read "*l"
        for i = 1, 10 do
          loop:wrap(function()
            for n = 1, 10 do
              local ok, message, code
              repeat
                ok, message, code = lock:put(key .. i, tostring(n))
                assert(ok or code == "unavailable", message)
              until ok
            end
          end)
        end
        while client:stats().calls < 100 do cqueues.sleep(0.01) end
      end)
      assert(loop:loop())
      print("done " .. client:stats().calls)
      client:close()
    ]]
    local missing = loops.missing "cqueues"
    if missing then return pending(missing) end
    local child = proc.lua(program, server:endpoint(), prefix, KEY)
    child:expect "^ready"
    server:delay "Txn"
    child:send "go"
    local calls = tonumber((child:expect "^done (%d+)"))
    assert.is_true(calls <= 110, calls .. " requests for 100 writes")
    server:deliver "Txn"
    for i = 1, 10 do assert.equal("10", (etcd:get(KEY .. i))) end
  end)
end)

-- Regression 038. A key lingered although a write of its holder had an unknown outcome. The next
-- holder took over the same key, and the late write changed data that this holder had already read.
describe("a key", function()
  before_each(function()
    lock = assert(client:lock("a", { linger = 60 }))
    clients.await_watched(client, lock)
  end)

  -- Asserts that the next holder gets a new key, and that the late write of |lock| is not applied.
  local function assert_let_go()
    local heir = assert(client:lock("a", { owner = "next", timeout = 10 }))
    assert.is_true(heir:token() > lock:token())
    server:deliver "Txn"
    assert.is_nil((etcd:get(KEY)))
    assert.is_true(heir:unlock())
  end

  it("does not linger after a write of unknown outcome", function()
    write_late()
    assert.is_true(lock:unlock())
    assert_let_go()
  end)

  it("does not linger while a write is in flight", function()
    server:delay "Txn"
    local write = clients.start_put(client, lock, KEY, "late", 5)
    assert.is_true(lock:unlock())
    assert_let_go()
    wait.eventually(function() return write:wait(0) ~= nil end, 10, "the end of the write")
  end)

  it("lingers if a put succeeds after a write of unknown outcome", function()
    write_late()
    assert.is_true(lock:put(KEY, "next"))
    assert.is_true(lock:unlock())
    local heir = assert(client:lock("a", { owner = "next" }))
    assert.equal(lock:token(), heir:token())
    server:deliver "Txn"
    assert.equal("next", (etcd:get(KEY)))
    assert.is_true(heir:unlock())
  end)
end)
