-- Tests the number of clients in nginx, and their end.
-- Needs: one plain member, no sanitizer.

-- Regression 092. `client:close()` and the garbage collection of a dropped client blocked nginx's
-- worker. If etcd was silent, each of them blocked it for 0.5 s. An idle worker never freed the
-- clients of aborted requests.
describe("in nginx,", function()
  local DROPPED = 7

  with_nginx {
    client = false,
    init_worker = "clients = {}",
    locations = {
      -- Makes clients that hold a lock each, and keeps them.
      ["/connect"] = [[
        for i = 1, tonumber(ngx.var.arg_count) do
          local client = connect()
          clients[i] = { client = client, lock = assert(client:lock("kept/" .. i)) }
        end
        ngx.say "connected"
      ]],
      ["/close"] = [[
        shared:set("closing", 1)
        clients[1].client:close()
        ngx.say "closed"
      ]],
      ["/drop"] = [[
        clients = {}
        local core = require "etcdlock.core"
        local from = core.now()
        collectgarbage()
        collectgarbage()
        ngx.say(core.now() - from)
      ]],
      -- A request with a client of its own, which it does not close.
      ["/own"] = [[
        local lock = assert(connect():lock("own/" .. ngx.var.arg_name))
        ngx.sleep(tonumber(ngx.var.arg_hold))
        ngx.say(lock:token())
      ]],
    },
  }

  after_each(function()
    etcd:resume()
    wait.eventually(function() return #etcd:leases() == 0 end, 20, "no lease is left")
  end)

  it("a worker serves other requests while a client is closed", function()
    assert.equal("connected\n", nginx:get("/connect?count=1").body)
    etcd:pause()
    local closing = nginx:begin "/close"
    nginx:await_value("closing", "1")
    assert.equal("ready\n", nginx:get("/ready").body)
    assert.falsy(closing.done)
    assert.equal("closed\n", closing:wait(5).body)
  end)

  it("collecting clients that were dropped does not block a worker", function()
    assert.equal("connected\n", nginx:get("/connect?count=" .. DROPPED).body)
    etcd:pause()
    local took = tonumber(nginx:get("/drop").body)
    assert.is_true(took < 0.5, took) -- the end of a single client takes as long
  end)

  it("an idle worker collects the clients of requests", function()
    local requests = {}
    local before = #etcd:leases()
    for i = 1, 3 do requests[i] = nginx:begin("/own?hold=100&name=" .. i) end
    etcd:await_keys(prefix .. "own/", 3)
    for i = 1, 3 do requests[i]:abort() end
    assert.equal(before + 3, #etcd:leases())
    wait.eventually(function()
      local leases = #etcd:leases()
      return leases == before, leases .. " leases"
    end, 20, "the leases of the requests are gone")
  end)
end)

-- Regression 111. If all clients of a worker belonged to one nginx request, or to one timer that
-- ran on, dropped clients were never freed, nor were their threads and leases.
describe("in nginx,", function()
  local nginx

  before_each(function()
    nginx = start_nginx {
      client = false,
      init_worker = [[
        function use_and_drop(n)
          for _ = 1, n do assert(connect { ttl = 60 }:lock "a"):unlock() end
        end
      ]],
      locations = {
        ["/one"] = [[ use_and_drop(1) ngx.say "dropped" ]],
        ["/several"] = [[ use_and_drop(5) ngx.say "dropped" ]],
        ["/timer"] = [[
          ngx.timer.at(0, function()
            use_and_drop(5)
            shared:set("dropped", 1)
            while not ngx.worker.exiting() do ngx.sleep(0.1) end
          end)
          await "dropped"
          ngx.say "dropped"
        ]],
      },
    }
  end)

  for path, whose in pairs {
    ["/one"] = "the only client", ["/several"] = "all clients, of one request",
    ["/timer"] = "all clients, of one timer that runs on",
  } do
    it(("a worker collects %s, dropped without close"):format(whose), function()
      local worker = nginx:workers()[1]
      local before = Nginx.usage(worker).threads
      assert.equal("dropped\n", nginx:get(path).body)
      wait.eventually(function()
        local threads, leases = Nginx.usage(worker).threads, #etcd:leases()
        return threads == before and leases == 0, ("%d threads, %d leases"):format(threads, leases)
      end, 10, "no thread and lease is left")
    end)
  end
end)

-- Regression 119. If a program connected in each nginx request, as with redis:new(), the worker
-- handled 42 requests per second instead of 1,376. No message named the cause.
describe("in nginx", function()
  local REQUESTS = 30
  local WARNING = "etcdlock: this process has %d+ clients, each with a thread, a connection to etcd"

  local function count_warnings(nginx) return select(2, nginx:log():gsub(WARNING, "")) end

  local nginx

  local function start(options)
    nginx = start_nginx {
      client = false,
      locations = {
        ["/lock"] = ([[
          local lock = assert(connect { ttl = 60, %s }:lock("a", { timeout = 60 }))
          ngx.say(tostring(lock:unlock()))
        ]]):format(options),
        ["/closing"] = [[ for _ = 1, 10 do connect():close() end ]],
      },
    }
  end

  local function ask_many()
    local requests = {}
    for i = 1, REQUESTS do requests[i] = nginx:begin "/lock" end
    for _, request in ipairs(requests) do assert.equal("true\n", request:wait(60).body) end
  end

  it("a client in each request is reported once per worker, and nothing is left afterwards",
    function()
      start ""
      local worker = nginx:workers()[1]
      local threads = Nginx.usage(worker).threads
      nginx:get "/closing"
      assert.equal(0, count_warnings(nginx))
      wait.eventually(function() return Nginx.usage(worker).threads == threads end)
      local before = Nginx.usage(worker) -- with the descriptors that gRPC keeps
      ask_many()
      assert.equal(1, count_warnings(nginx))
      wait.eventually(function()
        local now, leases = Nginx.usage(worker), #etcd:leases()
        return now.threads == before.threads and now.descriptors <= before.descriptors
          and leases == 0 and #etcd:keys(prefix) == 0,
          ("%d threads, %d descriptors, %d leases"):format(now.threads, now.descriptors, leases)
      end, 15, "nothing is left")
      nginx:assert_no_errors()
    end)

  it('the log function gets "many_clients" in place of the error log', function()
    start [[log = function(event)
      if event.event == "many_clients" then shared:set("told", event.count) end
    end]]
    ask_many()
    assert.is_true(tonumber(nginx:value "told") >= 8)
    assert.equal(0, count_warnings(nginx))
  end)
end)
