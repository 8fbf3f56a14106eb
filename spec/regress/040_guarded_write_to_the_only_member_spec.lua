-- A guarded write was given up after 0.6 s of silence, although it isn't sent again and there
-- was no other member to go to: its caller was told `unavailable` of an etcd that was slow.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local KEY = prefix .. "data"
local SILENCE = 1.5 -- seconds: more than twice what was too long
local ATTEMPT = 3 -- seconds that it has for its answer
local server

before_each(function() server = clients.scripted(suite.endpoint()) end)

after_each(function()
  clients.close_all()
  etcd:ctl("del", prefix, "--prefix")
end)

-- A client that holds "a", and asks nothing by itself now.
local function holding(opts)
  opts.prefix = prefix
  local client = clients.connector(opts)()
  local lock = assert(client:lock "a")
  clients.await_watched(client, lock)
  return client, lock
end

-- Has it write, where etcd's answers are kept; returns the write.
local function write_unheard(client, lock)
  server:hold_back("Txn", -1)
  local write = clients.start_put(client, lock, KEY, "new", 10)
  wait.eventually(function() return server:held "Txn" > 0 end)
  return write
end

local function assert_written(write)
  assert.is_true((write:wait(10)))
  assert.equal("new", (etcd:get(KEY)))
end

it("it waits for the only member's answer", function()
  local write = write_unheard(holding { endpoints = server:endpoint() })
  wait.sleep(SILENCE)
  server:tell "Txn"
  assert_written(write)
end)

it("and with it does what has left together with it", function()
  local client, lock = holding { endpoints = server:endpoint() }
  local asked = {}
  server:hold_back("Txn", 3)
  for i = 1, 2 do -- beside which nothing else leaves
    asked[i] = assert(client:lock_async("b" .. i))
    wait.eventually(function() return server:held "Txn" == i end)
  end
  local write = clients.start_put(client, lock, KEY, "new", 10)
  asked[3] = assert(client:lock_async "b3")
  server:tell "Txn"
  wait.eventually(function() return server:held "Txn" == 1 end)
  wait.sleep(SILENCE)
  server:tell "Txn"
  assert_written(write)
  assert.equal(clients.granted(asked[3]):token(), (select(2, etcd:get(KEY))))
end)

-- Nobody knows what became of it, and its caller is told soon.
local function assert_given_up(opts)
  local from = wait.now()
  local ok, message, code = write_unheard(holding(opts)):wait(10)
  assert.is_false(ok)
  assert.equal("unavailable", code, message)
  assert.is_true(wait.now() - from < ATTEMPT)
end

it("where there is another member it is given up with everything else", function()
  assert_given_up {
    endpoints = { server:endpoint(), clients.scripted(suite.endpoint()):endpoint() },
  }
end)

it("nor does whoever would rather be told at once wait", function()
  assert_given_up { endpoints = server:endpoint(), fail_fast = true }
end)
