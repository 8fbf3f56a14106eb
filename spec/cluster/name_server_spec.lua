-- Tests endpoints with a host name whose name server is slow or silent.
-- Needs: one plain member.

local NameServer = require "spec.support.servers.name_server"

-- Prints for each line of input how long a try took, its code or "granted", and the message.
-- |timeout|: seconds for each try; "": no limit.
local CLIENT = [[
  local endpoint, prefix, timeout = ...
  local core = require "etcdlock.core"
  local client = assert(require("etcdlock").connect {
    endpoints = endpoint, prefix = prefix, ttl = 30, env = false,
  })
  local held
  for line in io.lines() do
    local from = core.now()
    local lock, message, code = client:lock(line, { timeout = tonumber(timeout) })
    held = held or lock
    print(("%.3f %s %s"):format(core.now() - from, code or "granted",
      message or tostring(held:held())))
  end
]]

local names, proxy, child

-- Defines a test that has a name server and a proxy in front of etcd.
local function test(name, story)
  it(name, function()
    names, proxy = NameServer.start(), Swallow.start(suite.endpoint())
    if not names then return pending "this user may not start a name server" end
    story()
  end)
end

local function connect_by_name(hosts, servers, timeout)
  local port = proxy:endpoint():match "%d+$"
  local endpoints = (hosts or "etcd.test"):gsub("[%w.]+", "http://%0:" .. port)
  child = NameServer.client(servers or { names }, CLIENT, endpoints, prefix, timeout or 5)
end

-- Lets the client lock |name|. Returns the seconds that this took, the code, and the message.
local function lock(name)
  child:send(name)
  local seconds, code, message = child:expect("^(%S+) (%S+) (.*)", 20)
  return tonumber(seconds), code, message
end

after_each(function()
  proc.destroy_children()
  if names then names:stop() end
  clear_etcd()
end)

test("a client connects although its name server leaves queries for IPv6 unanswered", function()
  names.is_deaf_to_ipv6 = true
  connect_by_name()
  local seconds, code, message = lock "a"
  assert.equal("granted", code, message)
  assert.is_true(seconds < 3 + wait.SLACK, seconds .. " s")
end)

for _, hosts in ipairs { "etcd.test", "etcd1.test,etcd2.test,etcd3.test" } do
  test("the message of a failed call names the host if its name server is silent: " .. hosts,
    function()
      names.is_silent = true
      connect_by_name(hosts)
      lock "a"
      local _, code, message = lock "a"
      assert.equal("unavailable", code)
      assert.matches("etcd etcd%d?.test:%d+: the host name cannot be resolved", message)
    end)
end

test("a client goes on soon after its name server and etcd were away together", function()
  connect_by_name()
  assert.equal("granted", (select(2, lock "a")))
  proxy:swallow()
  names.is_silent = true
  assert.equal("unavailable", (select(2, lock "b")))
  assert.equal("unavailable", (select(2, lock "b")))
  proxy:forward()
  names.is_silent = false
  local seconds, code, message = lock "b"
  assert.equal("granted", code, message)
  assert.is_true(seconds < 3 + wait.SLACK, seconds .. " s")
  assert.equal("true", message) -- the first hold
end)

-- Regression 194. Each attempt to find the address ended after 2 s. So no lock was granted if the
-- answer took longer, or if the first of two name servers was silent: a resolver asks the second
-- one after 5 s.
-- Regression 230. The first wait without a timeout ended after 5 s, while an attempt was under way.
for _, hosts in ipairs { "etcd.test", "etcd1.test,etcd2.test,etcd3.test" } do
  test("the first wait without a timeout lasts until the second name server answers: " .. hosts,
    function()
      local silent = assert(NameServer.start "127.0.0.154")
      finally(function() silent:stop() end)
      silent.is_silent = true
      connect_by_name(hosts, { silent, names }, "")
      local seconds, code, message = lock "a"
      assert.equal("granted", code, message)
      assert.is_true(seconds < 10 + wait.SLACK, seconds .. " s")
    end)
end

test("the first wait without a timeout ends if no name server answers", function()
  names.is_silent = true
  connect_by_name(nil, nil, "")
  local seconds, code, message = lock "a"
  assert.equal("unavailable", code)
  assert.matches("the host name cannot be resolved", message)
  assert.is_true(seconds < 13 + wait.SLACK, seconds .. " s")
end)
