-- Tests entries whose text is written by hostile clients.

-- Regression 085. Text that other clients wrote into their keys broke the calls that show or remove
-- entries. Names of 1.4 MB, or names that the user may not read, made queue, queues and break_lock
-- fail. An infinite lock_delay made "ls --json" raise an error.
after_each(clear_etcd)

local HUGE = 1400 * 1000 -- bytes; etcd accepts requests up to 1.5 MB
-- A key like those of a multi-lock.
local KEY = prefix .. "order/77-1"

-- Returns a label with the further |fields|, in JSON.
local function label(fields) return '{"host":"h","pid":1,"since":2,' .. fields .. "}" end

-- Fails unless queue and queues return one entry, which is a holder and shows no other names.
-- Returns the entry.
local function assert_listed(client)
  local entry = assert(client:queue "order")[1]
  assert.is_true(entry.held)
  assert.is_nil(entry.names)
  assert.same({ entry }, assert(client:queues())[1].entries)
  return entry
end

local env -- of the commands that run starts

local function run(...)
  local out, status, err = command.run({ ... }, env)
  assert.same({ 0, "" }, { status, err }, out)
  return out
end

local NAME_OF_1_4_MB = '"' .. ("x"):rep(HUGE) .. '"'
-- Labels of an entry that is first in its queue, by what they contain.
local INVALID = {
  ["a first name of 1.4 MB"] = label('"first":' .. NAME_OF_1_4_MB),
  ["a name of 1.4 MB"] = label('"names":["' .. prefix .. 'order",' .. NAME_OF_1_4_MB .. "]"),
  ["an empty first name"] = label '"first":""',
  ["an empty name"] = label('"names":["' .. prefix .. 'order",""]'),
  ["a name 60 times"] =
    label('"names":["' .. prefix .. ('order","' .. prefix):rep(59) .. 'order"]'),
  ["an infinite lock_delay"] = label '"lock_delay":1e999',
  ["a lock_delay that is no number"] = label '"lock_delay":nan',
  ["a host of 1.4 MB"] = '{"host":' .. NAME_OF_1_4_MB .. ',"pid":1,"since":2}',
  ["a value of 1.4 MB of blanks"] = label('"value":"' .. (" "):rep(HUGE - 100) .. '."'),
  ["a time in the far future"] = '{"host":"h","pid":1e300,"since":9007199254740992}',
}

describe("a key that contains", function()
  for what, says in pairs(INVALID) do
    it(what .. " does not break queue, queues, ls, doctor and break", function()
      etcd:put_entry(KEY, says)
      local entry = assert_listed(client)
      assert.is_nil(entry.lock_delay)
      assert.matches("order +%l+ +holds", run("ls", prefix))
      assert.matches('"name":"' .. prefix .. 'order"', run("ls", prefix, "--json"), 1, true)
      assert.matches('may list the names below "' .. prefix .. '": 1 lock',
        run("doctor", "--prefix", prefix), 1, true)
      run("break", prefix .. "order", ("%d"):format(entry.token))
      assert.same({}, etcd:keys(prefix))
    end)
  end
end)

-- Regression 140. An entry whose label named a key that does not exist could not be removed.
it("break removes an entry whose label names a key that does not exist", function()
  etcd:put_entry(KEY, label('"first":"' .. prefix .. 'missing"'))
  local entry = assert(client:queue "order")[1]
  assert.is_nil(entry.held)
  assert_fails("locked", client:try_lock "order")
  assert.is_true(client:break_lock("order", entry.token))
  assert.is_true(assert(client:try_lock "order"):unlock())
end)

it("a key of 1.4 MB is no entry, and does not break queues and ls", function()
  local lock = assert(client:lock "order")
  etcd:put_entry(prefix .. ("x"):rep(HUGE) .. "/77", "")
  assert.same({ "order" }, { assert(client:queues())[1].name })
  assert.equal(1, #client:queues())
  assert.matches("order +lock +holds", run("ls", prefix))
  assert.is_true(lock:unlock())
end)

describe("a multi-lock with names that the user may not read", function()
  local secure
  setup(function() secure = secured.start(prefix) end)

  it("is listed without held, and break_lock deletes its key below the readable name", function()
    local client = clients.connector(secured.options(secure, prefix)) {}
    for _, says in ipairs {
      label('"first":"/elsewhere"'),
      label('"names":["' .. prefix .. 'order","/elsewhere"]'),
    } do
      secure:put_entry(KEY, says)
      local entry = assert(client:queue "order")[1]
      assert.is_nil(entry.held)
      assert.same({ entry }, assert(client:queues())[1].entries)
      assert_fails("locked", client:try_lock "order")
      assert.is_true(client:break_lock("order", entry.token))
      assert.is_true(assert(client:try_lock "order"):unlock())
    end
  end)

  it("has the state unknown in ls, and break frees the lock", function()
    secure:put_entry(KEY, label '"first":"/elsewhere"')
    local _, token = secure:get(KEY)
    env = { ETCDCTL_ENDPOINTS = secure:endpoints(), ETCDCTL_USER = "locker",
      ETCDCTL_PASSWORD = secured.PASSWORD }
    finally(function() env = nil end)
    assert.matches('^No lock whose name begins with ".*" is held', run("ls", prefix .. "other"))
    assert.matches("order +multi +unknown", run("ls", prefix))
    run("break", prefix .. "order", ("%d"):format(token))
    assert.same({}, secure:keys(prefix))
  end)
end)

describe("a multi-lock with 1,100 other keys below one of its names", function()
  it("is listed as holder if they are younger, and without held if they are older", function()
    local function assert_held(held, name)
      local entry = assert(other:queue(name))[1]
      assert.equal(held, entry.held)
    end
    local lock = assert(client:multi_lock { "order", "big" })
    local from = lock:token()
    for page = 1, 11 do
      local puts = {}
      for i = 1, 100 do puts[i] = { "put", ("%sbig/%d.%d"):format(prefix, page, i), "x" } end
      assert(lock:txn(puts))
    end
    assert_held(true, "order")
    assert_held(true, "big")
    assert.is_true(lock:unlock())
    lock = assert(client:multi_lock { "order", "big" })
    assert.is_true(lock:token() > from)
    assert_held(nil, "order")
    assert.is_true(other:break_lock("order", lock:token()))
    assert.equal("deleted", lock:wait_lost(5))
    etcd:await_keys(prefix .. "order/", 0)
  end)
end)
