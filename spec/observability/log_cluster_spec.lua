-- Tests the log of a client in a cluster.
-- Needs: one plain member.

it('the log function gets "failover" with address and cause if a member is killed', function()
  local etcd = suite.start { members = 3 }
  local told = {}
  local client = clients.connector { endpoints = etcd:endpoints(), prefix = prefix, ttl = 5 } {
    log = function(event)
      if event.event == "failover" then told[#told + 1] = event end
    end,
  }
  local lock = assert(client:lock("a", { timeout = 20 }))
  etcd:kill(1)
  wait.eventually(function()
    client:try_lock("b")
    return told[1]
  end, 10, "failover")
  local first = etcd:endpoint(1):gsub("^https?://", "")
  assert.equal(first, told[1].from)
  assert.matches(first, told[1].message, 1, true)
  assert.matches("^etcdlock: failover from member " .. first:gsub("%p", "%%%0") .. ": ",
    tostring(told[1]))
  assert.is_true(lock:held())
  assert.is_true(lock:unlock())
end)

-- Both members fail, so the client changes from one member to the other again and again.
it('a lost lock and a failed wait report the same cause as a "failover" event', function()
  local one, two = clients.scripted(), clients.scripted()
  local why = {}
  local client = clients.connector {
    endpoints = { one:endpoint(), two:endpoint() }, prefix = prefix, ttl = 2,
    log = function(event)
      if event.event == "failover" then why[#why + 1] = event.message end
    end,
  } ()
  -- Fails unless |message| ends with a recorded cause that matches |pattern|. `metrics` runs
  -- the log function.
  local function assert_why(pattern, message)
    wait.eventually(function()
      assert(client:metrics())
      for _, text in ipairs(why) do
        if message:sub(-#text) == text and text:find(pattern) then return true end
      end
      return nil, message .. ", but not one of: " .. table.concat(why, ", ")
    end, 5)
  end
  local message
  wait.eventually(function()
    for _, server in ipairs { one, two } do server:pass() end
    local lock = assert(client:lock("a", { timeout = 10 }))
    for _, server in ipairs { one, two } do
      server:answer("LeaseKeepAlive", "never", error_rows.STATUS.UNAVAILABLE)
      server:interrupt("LeaseKeepAlive", error_rows.STATUS.UNAVAILABLE,
        "etcdserver: leader changed")
    end
    assert.equal("expired", lock:wait_lost(10))
    message = assert_fails("lost", lock:check())
    return not message:find "did not run" -- a busy machine may cause that
  end, 5, "a loss by members that were left")
  assert_why("a keepalive was not answered in time$", message)
  for _, server in ipairs { one, two } do
    server:answer("Txn", "before", error_rows.STATUS.UNAVAILABLE, "etcdserver: no leader")
  end
  assert_why("etcdserver: no leader$",
    assert_fails("unavailable", client:lock("b", { timeout = 1 })))
end)
