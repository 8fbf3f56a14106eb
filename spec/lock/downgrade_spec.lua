-- A writer who only reads on, and keys of readers and writers that linger.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"

local prefix, etcd = suite.prefix(), suite.etcd()
local connect = clients.connector { endpoints = etcd:endpoints(), prefix = prefix }
local assert_fails = clients.assert_fails
local client, other, third

before_each(function()
  client, other, third = connect(), connect { elsewhere = true }, connect { elsewhere = true }
end)

after_each(clients.close_all)

-- Asks |of| for the lock "a" in |mode|, for an owner of its own.
local function ask(of, mode, opts)
  return assert(of[mode .. "_lock_async"](of, "a", clients.with({ owner = {} }, opts)))
end

local granted = clients.granted

-- None of them gets it in a time in which one that could would have had it.
local function assert_wait(...)
  for _ = 1, 5 do
    for _, one in ipairs { client, other, third } do assert(one:ping()) end
  end
  for _, asked in ipairs { ... } do assert.is_false(asked:step()) end
end

-- The modes of those who hold "a" now.
local function modes_held()
  local modes = {}
  for i, place in ipairs(assert(third:queue "a")) do
    modes[i] = place.held and place.mode or nil
  end
  return modes
end

describe("a writer who only reads on", function()
  it("lets readers in, and no writer in between", function()
    local writer = assert(client:write_lock "a")
    local token, key = writer:token(), writer:key()
    local reader = ask(other, "read")
    etcd:await_keys(prefix, 2)
    local next_one = ask(third, "write")
    etcd:await_keys(prefix, 3)
    assert_wait(reader, next_one)
    assert.is_true(writer:downgrade())
    assert.equal("read", writer:mode())
    assert.is_true(writer:downgrade()) -- as it is already
    reader = granted(reader)
    assert_wait(next_one)
    assert.same({ "read", "read" }, modes_held())
    assert.is_true(writer:check())
    assert.same({ token, key }, { writer:token(), writer:key() })
    assert.is_true(writer:unlock())
    assert_wait(next_one)
    assert.is_true(reader:unlock())
    assert.is_true(granted(next_one):unlock())
    assert.same({}, etcd:keys(prefix))
  end)

  it("is found so by those who come later", function()
    local writer = assert(client:write_lock "a")
    assert.is_true(writer:downgrade())
    assert.is_true(assert(other:read_lock("a", { timeout = 5 })):unlock())
    assert.is_true(assert(other:try_read_lock "a"):unlock())
    assert_fails("locked", other:try_write_lock "a")
    assert.is_true(assert(client:read_lock("a", { owner = 2 })):unlock())
    assert_fails("locked", client:try_write_lock("a", { owner = 2 }))
    assert.is_true(writer:unlock())
    assert.same({}, etcd:keys(prefix))
  end)

  it("may read again, and to write would wait for himself", function()
    local writer = assert(client:write_lock "a")
    assert.is_true(writer:downgrade())
    assert.equal(writer, client:read_lock "a")
    assert_fails("deadlock", client:write_lock "a")
    assert.is_true(writer:unlock())
    assert.is_true(writer:unlock())
  end)

  it("can't be one while others count on his writing, nor with a plain lock", function()
    local writer = assert(client:write_lock "a")
    assert.equal(writer, client:write_lock "a")
    assert.matches("held 2 times", assert_fails("invalid", writer:downgrade()))
    assert.equal("write", writer:mode())
    assert.is_true(writer:unlock())
    assert.is_true(writer:downgrade())
    assert.is_true(writer:unlock())
    local plain = assert(client:lock "b")
    assert.has_error(function() plain:downgrade() end,
      'lock:downgrade: lock "b" is no writer\'s, wanted one of write_lock')
    assert_fails("not_held", writer:downgrade())
    etcd:del(assert(client:write_lock "c"):key())
    local lost = assert(client:write_lock "d")
    etcd:del(lost:key())
    assert_fails("lost", lost:downgrade())
  end)

  it("hands nothing on to the next writer here, and doesn't linger as one", function()
    local writer = assert(client:write_lock("a", { linger = 60 }))
    local next_one = ask(client, "write")
    assert_wait(next_one)
    assert.is_true(writer:downgrade())
    assert.is_true(writer:unlock())
    next_one = granted(next_one)
    assert.is_true(next_one:token() > writer:token())
    assert.is_true(next_one:unlock())
    local alone = assert(other:write_lock("a", { linger = 60 }))
    clients.await_watched(other, alone)
    assert.is_true(alone:downgrade())
    assert.is_true(alone:unlock())
    assert.same({}, etcd:keys(prefix))
  end)

  it("is no longer in the way of the next writer here, who queues before others do", function()
    local patient = connect { handoff_time = 60 }
    local writer = assert(patient:write_lock "a")
    local next_one = ask(patient, "write")
    assert_wait(next_one)
    assert.equal(1, #etcd:keys(prefix))
    assert.is_true(writer:downgrade())
    etcd:await_keys(prefix, 3) -- and the note
    local theirs = ask(other, "write")
    etcd:await_keys(prefix, 4)
    local last = ask(patient, "write")
    assert_wait(next_one, theirs, last)
    assert.is_true(writer:unlock())
    next_one = granted(next_one)
    assert_wait(theirs, last)
    last:cancel()
    assert.is_true(next_one:unlock())
    assert.is_true(granted(theirs):unlock())
    assert.same({}, etcd:keys(prefix))
  end)

  it("leaves nothing behind when his key is taken away", function()
    local writer = assert(client:write_lock "a")
    assert.is_true(writer:downgrade())
    assert.equal(2, #etcd:keys(prefix))
    etcd:del(writer:key())
    assert.equal("deleted", writer:wait_lost(5))
    etcd:await_keys(prefix, 0) -- nor the note
    local again = assert(client:write_lock("a", { timeout = 5 }))
    assert_fails("locked", other:try_read_lock "a")
    assert.is_true(again:unlock())
  end)
end)

describe("a key that lingers", function()
  it("is there for its own mode, and leaves for the others of the same client", function()
    for _, modes in ipairs { { "write", "read" }, { "read", "write" } } do
      local lock = assert(client[modes[1] .. "_lock"](client, "a", { linger = 60 }))
      assert.is_true(lock:unlock())
      assert.equal(1, #etcd:keys(prefix))
      local again = assert(client[modes[1] .. "_lock"](client, "a", { linger = 60 }))
      assert.equal(lock:token(), again:token())
      assert.is_true(again:unlock())
      local another = assert(client[modes[2] .. "_lock"](client, "a", { timeout = 5 }))
      assert.is_true(another:token() > lock:token())
      assert.is_true(another:unlock())
      assert.same({}, etcd:keys(prefix))
    end
    assert.is_true(assert(client:lock("a", { linger = 60 })):unlock())
    assert.is_true(assert(client:write_lock("a", { timeout = 5 })):unlock())
    assert.same({}, etcd:keys(prefix))
  end)

  it("and is a reader's stays when readers come, and leaves for a writer", function()
    local lock = assert(client:read_lock("a", { linger = 60 }))
    clients.await_watched(client, lock)
    assert.is_true(lock:unlock())
    assert.is_true(assert(other:read_lock "a"):unlock())
    assert_wait() -- while the news of it comes
    local again = assert(client:read_lock("a", { owner = 2, linger = 60 }))
    assert.equal(lock:token(), again:token())
    assert.is_true(again:unlock())
    assert.is_true(assert(other:write_lock("a", { timeout = 5 })):unlock())
    assert.same({}, etcd:keys(prefix))
  end)
end)
