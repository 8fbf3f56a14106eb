-- Tests messages that named a wrong cause.

-- Regression 057. Messages about wrong values stated a condition that the value met, or one that
-- did not help the caller. tostring of a client without a session said that etcd was unreachable.

-- Asserts that |call| raises a message that ends in |text|.
local function assert_raises(text, call)
  local ok, message = pcall(call)
  assert.is_false(ok)
  assert.equal(text, message:sub(-#text))
end

it("an infinite max_hold is refused with the condition that it fails", function()
  assert.equal("client:lock: max_hold = inf, wanted more than 0 seconds and not inf;"
    .. " leave it out for a hold without end",
    assert_fails("invalid", connect():lock("a", { max_hold = math.huge })))
end)

it("a number of seconds out of range is refused with the range", function()
  local client = connect()
  local lock = assert(client:lock "a")
  assert_raises("lock:wait_lost: timeout = -1, wanted 0 or more seconds",
    function() lock:wait_lost(-1) end)
  for _, seconds in ipairs { -1, 0 } do
    local text = "lock:expire: seconds = %d, wanted more than 0 seconds and not inf"
    assert_raises(text:format(seconds), function() lock:expire(seconds) end)
  end
  assert_raises("lock:expire: seconds = nil, wanted more than 0 seconds and not inf",
    function() lock:expire() end)
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

it("a name given twice to multi_lock is refused as given twice", function()
  local client = connect()
  assert.equal('client:multi_lock: names[2] = "a", wanted each name once, and it is names[1]',
    assert_fails("invalid", client:multi_lock { "a", "a" }))
  assert.equal("client:multi_lock: #names = 0, wanted 1 to 60 names",
    assert_fails("invalid", client:multi_lock {}))
end)

describe("tostring of a client", function()
  local function state(client) return tostring(client):match "%((.*)%)$" end

  it("says that it has not connected yet before the first call", function()
    assert.equal("not connected yet", state(connect()))
  end)

  it("says that it has no session after a call that takes no lock", function()
    local client = connect()
    assert(client:ping())
    assert.equal("no session", state(client))
  end)

  it("says unavailable where etcd is out of reach", function()
    local client = connect { endpoints = "127.0.0.1:" .. port.free() }
    assert_fails("unavailable", client:lock("a", { timeout = 1 }))
    assert.equal("unavailable", state(client))
  end)
end)
