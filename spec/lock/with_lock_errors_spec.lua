-- Tests the results of with_lock if the acquisition or the release of its lock fails.

-- Regression 043. When the release of the lock failed, with_lock returned the same as if its
-- function had never run. A caller that then repeated the call did the work twice. The results of
-- the function were lost.
describe("with_lock returns", function()
  before_each(function() scripted_client() end)

  local function deny()
    server:answer("Txn", "before", error_rows.STATUS.PERMISSION_DENIED,
      "etcdserver: permission denied")
  end

  for what, row in pairs {
    ["closed and fn's results if fn closes the client"] =
      { "closed", function() client:close() end, "closed" },
    ["denied and fn's results if etcd denies unlock"] = { "denied", deny, "permission denied" },
  } do
    it(what, function()
      local message, result = clients.assert_ran(row[1], client:with_lock("a", function()
        row[2]()
        return "computed"
      end))
      assert.matches(row[3], message)
      assert.equal("computed", result)
    end)
  end

  it("denied and does not run fn if the lock is denied", function()
    deny()
    assert_fails("denied", client:with_lock("a", error))
  end)
end)
