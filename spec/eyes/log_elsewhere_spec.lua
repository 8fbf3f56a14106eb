-- The log where others go on meanwhile: in event loops, in nginx, in a cluster.

local Nginx = require "spec.support.servers.nginx"
local clients = require "spec.support.harness.clients"
local cjson = require "cjson"
local loops = require "spec.support.programs.loops"
local rows = require "spec.support.harness.error_rows"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix = suite.prefix()

after_each(clients.close_all)

for _, name in ipairs { "cqueues", "luv", "copas" } do
  describe("in " .. name, function()
    local missing = loops.missing(name)
    if missing then return pending(missing) end

    it("the log is told of a wait while it lasts", loops.test(name, [[
      local told = {}
      local watched = connect { log = function(event) told[#told + 1] = event.event end }
      local held = assert(other:lock "a")
      go(function()
        local lock = assert(watched:lock("a", { timeout = 60 }))
        sleep(0.001)
        assert(lock:unlock())
      end)
      go(function()
        while told[1] ~= "waiting" do sleep(0.005) end
        assert(held:unlock())
      end)
      run()
      equal("waiting acquired released", table.concat(told, " "))
      watched:close()
    ]]))
  end)
end

describe("in nginx", function()
  local nginx

  setup(function()
    nginx = Nginx.start {
      init_worker = ([[
        local cjson = require "cjson"
        client = assert(etcdlock.connect { endpoints = %q, prefix = %q, ttl = 5,
          log = function(event)
            shared:rpush("told", cjson.encode(event))
            if event.name == "sleepy" then ngx.sleep(0.001) end
          end })
      ]]):format(suite.endpoint(), prefix),
      locations = {
        ["/lock"] = [[
          local lock = assert(client:lock(ngx.var.arg_name, { timeout = 60 }))
          ngx.sleep(0)
          ngx.say(tostring(lock:unlock()))
        ]],
        ["/keep"] = [[ ngx.say(assert(client:lock "kept"):token()) ]],
        ["/told"] = [[
          pcall(client.try_lock, client, "told")
          ngx.say(shared:lpop "told" or "")
        ]],
      },
    }
  end)

  teardown(function() nginx:stop() end)

  -- The next event of the lock |name|.
  local function next_of(name)
    local event
    wait.eventually(function()
      local text = nginx:get("/told").body
      event = text ~= "\n" and cjson.decode(text)
      return event and event.name == name
    end, 5, "an event of " .. name)
    return event
  end

  it("the log is told of a wait while it lasts, and of what came of it", function()
    local held = assert(clients.connector { endpoints = suite.endpoint(), prefix = prefix }()
      :lock "a")
    local request = nginx:begin "/lock?name=a"
    assert.equal("waiting", next_of "a".event)
    held:unlock()
    assert.equal("true\n", request:wait(10).body)
    assert.equal("acquired", next_of "a".event)
    assert.equal("released", next_of "a".event)
  end)

  it("the log is told of a lock that has ended with its request", function()
    local token = tonumber(nginx:get("/keep").body)
    assert.equal("acquired", next_of "kept".event)
    local released = next_of "kept"
    assert.same({ "released", "request", token }, { released.event, released.by, released.token })
  end)

  it("a log that would wait breaks no lock", function()
    assert.equal("true\n", nginx:get("/lock?name=sleepy").body)
    assert.equal("acquired", next_of "sleepy".event)
    assert.equal("released", next_of "sleepy".event)
    assert.matches("the log of this client has failed, which is told once: .*yield", nginx:log())
    nginx:assert_no_errors()
  end)
end)

it("in a cluster the log is told of a member that was left, and why", function()
  local etcd = suite.start { members = 3 }
  finally(function() etcd:stop() end)
  local told = {}
  local client = clients.connector { endpoints = etcd:endpoints(), prefix = prefix, ttl = 5 } {
    log = function(event)
      if event.event == "member_left" then told[#told + 1] = event end
    end,
  }
  local lock = assert(client:lock("a", { timeout = 20 }))
  etcd:kill(1)
  wait.eventually(function()
    client:try_lock("b")
    return told[1]
  end, 10, "member_left")
  local first = etcd:endpoint(1):gsub("^https?://", "")
  assert.equal(first, told[1].member)
  assert.matches(first, told[1].message, 1, true)
  assert.matches("^etcdlock: member " .. first:gsub("%p", "%%%0") .. " of etcd left for another: ",
    tostring(told[1]))
  assert.is_true(lock:held())
  assert.is_true(lock:unlock())
end)

-- Each of the two members is left for the other one again and again.
it("why members were left is also told of a lock that is lost by it, and of a wait", function()
  local one, two = clients.scripted(suite.endpoint()), clients.scripted(suite.endpoint())
  local why = {}
  local client = clients.connector {
    endpoints = { one:endpoint(), two:endpoint() }, prefix = prefix, ttl = 2,
    log = function(event)
      if event.event == "member_left" then why[#why + 1] = event.message end
    end,
  } ()
  -- Is it one of these that |message| ends with?
  local function assert_why(pattern, message)
    for _, text in ipairs(why) do
      if message:sub(-#text) == text and text:find(pattern) then return end
    end
    error(message .. ", but not one of: " .. table.concat(why, ", "))
  end
  local lock = assert(client:lock "a")
  for _, server in ipairs { one, two } do
    server:answer("LeaseKeepAlive", "never", rows.STATUS.UNAVAILABLE)
  end
  one:interrupt("LeaseKeepAlive", rows.STATUS.UNAVAILABLE, "etcdserver: leader changed")
  assert.equal("expired", lock:wait_lost(10))
  assert_why("a keepalive was not answered in time$", clients.assert_fails("lost", lock:check()))
  for _, server in ipairs { one, two } do
    server:answer("Txn", "before", rows.STATUS.UNAVAILABLE, "etcdserver: no leader")
  end
  assert_why("etcdserver: no leader$",
    clients.assert_fails("unavailable", client:lock("b", { timeout = 1 })))
end)
