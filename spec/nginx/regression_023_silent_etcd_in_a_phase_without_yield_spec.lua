-- In a phase where nginx cannot wait, each `try_lock` on a silent etcd blocked the whole worker
-- for 2 s. After five of them, another request got its answer after 10 s.
-- Needs: no sanitizer.
local Nginx = require "spec.support.servers.nginx"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local COUNT = 5
local prefix, etcd = suite.prefix(), suite.etcd()
local nginx

setup(function()
  nginx = Nginx.start {
    client = { endpoints = etcd:endpoint(), prefix = prefix, ttl = 5 },
    locations = {
      ["/lock"] = [[ ngx.say(client:with_lock("a", function() end)) ]],
      ["/try"] = {
        content = [[ ngx.say "tried below" ]],
        log = [[
          local core = require "etcdlock.core"
          local from = core.now()
          local lock, message, code = client:try_lock "a"
          local took = core.now() - from
          shared:rpush("tries", ("%.3f %s %s"):format(took, code or "held", message or "-"))
          if lock then lock:unlock() end
        ]],
      },
      ["/ping"] = [[ ngx.say "pong" ]],
      ["/told"] = [[ ngx.say(shared:lpop "tries" or "nothing") ]],
    },
  }
end)

-- Returns the duration of the next try in seconds, its code and its message.
local function next_try()
  local told = wait.eventually(function()
    local body = nginx:get("/told").body
    return body ~= "nothing\n" and body
  end, 5, "a try")
  local took, code, message = told:match "^(%S+) (%S+) (.*)\n"
  return tonumber(took), code, message
end

it("regression 023: a silent etcd delays only one try_lock in log_by_lua, by 0.1 s", function()
  assert.equal("true\n", nginx:get("/lock").body)
  etcd:pause()
  finally(function() etcd:resume() end)
  local from = wait.now()
  for _ = 1, COUNT do nginx:get "/try" end
  assert.equal("pong\n", nginx:get("/ping").body)
  local all = wait.now() - from
  local took, code, message = next_try()
  assert.equal("unavailable", code)
  assert.matches("no answer from etcd", message)
  assert.is_true(took > 0.09, took)
  for _ = 2, COUNT do
    took, code, message = next_try()
    assert.equal("unavailable", code)
    assert.matches('^lock "a": etcd', message)
    assert.is_true(took < 0.09, took)
  end
  assert.is_true(all < 0.1 + wait.SLACK, all)

  etcd:resume()
  wait.eventually(function()
    nginx:get "/try"
    local _, now, why = next_try()
    return now == "held", why
  end, 5, "etcd is heard")
end)
