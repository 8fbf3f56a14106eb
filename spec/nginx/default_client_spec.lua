-- Tests the default client of the libraries in nginx.
-- Needs: no sanitizer.

-- Regression 027. A worker that used etcdlock.with_lock and resty.etcdlock had two clients for one
-- etcd. `connect` of resty.etcdlock accepted unknown options, and two libraries that called it
-- overwrote the options of each other.
local nginx

-- Returns Lua code of a library that calls connect; its function |name| makes a lock object.
local function library(name)
  return ([[
    local resty_lock = require("resty.etcdlock").connect {
      endpoints = "%s", prefix = "%s%s/", ttl = 5,
    }
    function %s() return assert(resty_lock:new "cache") end
  ]]):format(etcd:endpoint(), prefix, name, name)
end

before_each(function()
  nginx = Nginx.start {
    main = ("env ETCDCTL_ENDPOINTS=%s;"):format(etcd:endpoint()),
    init = library "one" .. library "other",
    locations = {
      ["/defaults"] = ([[
        local resty_lock = require "resty.etcdlock"
        local name = "%s"
        local ok, told = etcdlock.with_lock(name .. "defaults/a", function()
          local lock = assert(resty_lock:new(name .. "defaults"))
          return assert(lock:lock "b") == 0 and assert(lock:unlock())
        end)
        ngx.say(tostring(ok), " ", tostring(told))
      ]]):format(prefix),
      ["/libraries"] = [[
        local mine, theirs = one(), other()
        local elapsed = mine:lock "x" + theirs:lock "x"
        await "go"
        ngx.say(elapsed, " ", mine:unlock(), " ", theirs:unlock())
      ]],
      ["/mistakes"] = [[
        local resty_lock = require "resty.etcdlock"
        ngx.say(select(2, pcall(function() resty_lock.connect { endpoint = "127.0.0.1:1" } end)))
        ngx.say(select(2, pcall(function() resty_lock.connect { ttl = "5" } end)))
        ngx.say(select(2, pcall(function() resty_lock:connect { ttl = 5 } end)))
      ]],
    },
  }
end)

-- Returns the number of clients in the worker: each client has one I/O thread.
local function clients()
  local count = 0
  for _, comm in pairs(tasks(nginx:workers()[1], "comm")) do
    if comm == "etcdlock-io\n" then count = count + 1 end
  end
  return count
end

it("etcdlock.with_lock and resty.etcdlock share one default client", function()
  assert.equal("true 1\n", nginx:get("/defaults").body)
  assert.equal(1, clients())
end)

it("each library that calls connect in init_by_lua has its own client", function()
  local request = nginx:begin "/libraries"
  for _, name in ipairs { "one", "other" } do
    etcd:await_keys(prefix .. name .. "/cache/x/", 1)
  end
  assert.equal(2, clients())
  nginx:set_value("go", "now")
  assert.equal("0 1 1\n", request:wait(5).body)
end)

it("connect raises misuse errors with the line of its caller", function()
  local place = 'content_by_lua[^ ]*:%d+: resty.etcdlock.connect: '
  local lines = {}
  for line in nginx:get("/mistakes").body:gmatch "[^\n]+" do lines[#lines + 1] = line end
  assert.matches(place .. 'unknown option "endpoint"; did you mean endpoints%?$', lines[1])
  assert.matches(place .. 'ttl = "5", wanted a number$', lines[2])
  assert.matches(place .. "call it with a dot", lines[3])
end)
