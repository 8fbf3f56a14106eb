-- Tests the message about an unreachable default endpoint in nginx. A worker uses the default
-- endpoint if nginx hides ETCDCTL_ENDPOINTS from it.
-- Needs: one plain member, no sanitizer.

local NOTE = "etcd 127.0.0.1:2379 (default; nginx hides ETCDCTL_ENDPOINTS): Connection refused"

local LOCK = [[
  local client = assert(etcdlock.connect(%s))
  local lock, message, code = client:lock("a", { timeout = 0.5 })
  ngx.say(code, ": ", message)
  client:close()
]]

describe("in nginx the message about an unreachable etcd", function()
  with_nginx { client = false, locations = {
    ["/default"] = LOCK:format "",
    ["/fast"] = LOCK:format "{ fail_fast = true }",
    ["/given"] = LOCK:format '{ endpoints = "127.0.0.1:2379" }',
    ["/without"] = LOCK:format "{ env = false }",
  } }

  it("says that the endpoint is the default, and that nginx hides the variable", function()
    if http.get(2379, "/").failure ~= "ECONNREFUSED" then
      return pending "a program listens at 127.0.0.1:2379"
    end
    for path, has_note in pairs { default = true, fast = true, given = false, without = false } do
      local body = nginx:get("/" .. path).body
      assert.matches("^unavailable: .*Connection refused\n$", body)
      assert.equal(has_note, body:find(NOTE, 1, true) ~= nil, path .. ": " .. body)
    end
  end)
end)
