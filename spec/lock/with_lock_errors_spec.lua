-- Tests the results of with_lock if the acquisition or the release of its lock fails.

-- Regression 043. When the release of the lock failed, with_lock returned the same as if its
-- function had never run. A caller that then repeated the call did the work twice. The results of
-- the function were lost.
local assert_ran = clients.assert_ran

scripted_client()

it("with_lock returns closed and fn's results if fn closes the client", function()
  local _, result = assert_ran("closed", client:with_lock("a", function()
    client:close()
    return "computed"
  end))
  assert.equal("computed", result)
end)

it("with_lock returns denied and fn's results if etcd denies unlock", function()
  local message, result = assert_ran("denied", client:with_lock("a", function()
    server:answer("Txn", "before", error_rows.STATUS.PERMISSION_DENIED,
      "etcdserver: permission denied")
    return "computed"
  end))
  assert.matches("permission denied", message)
  assert.equal("computed", result)
  server:pass()
end)

it("with_lock returns denied and does not run fn if the lock is denied", function()
  server:answer("Txn", "before", error_rows.STATUS.PERMISSION_DENIED,
    "etcdserver: permission denied")
  assert_fails("denied", client:with_lock("a", error))
  server:pass()
end)
