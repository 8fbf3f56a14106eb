-- Of what was asked for a lock, and answered when another coroutine had let go of it: a read
-- in another owner's hold was an answer, a write in its own was none, and what came too late
-- was told as a loss, of which nothing else knew.

local clients = require "spec.support.harness.clients"
local cqueues = require "cqueues"
local suite = require "spec.support.harness.suite"

local prefix, etcd = suite.prefix(), suite.etcd()
local KEY = prefix .. "x"
local server, client

before_each(function()
  server, client = clients.through_scripted(suite.endpoint(),
    { prefix = prefix, ttl = 60, handoff_time = 60 })
end)

after_each(function()
  clients.close_all()
  etcd:ctl("del", prefix, "--prefix")
end)

-- Runs |fn|(go), and what that lets go on beside it.
local function run(fn)
  local loop = cqueues.new()
  loop:wrap(fn, function(other) loop:wrap(other) end)
  assert(loop:loop())
end

local function until_true(condition)
  while not condition() do cqueues.sleep(0.001) end
end

it("nothing is read for whoever has it then", function()
  local token, code
  run(function(go)
    local first = assert(client:lock "a")
    go(function()
      local second = assert(client:lock "a")
      token = second:token()
      server:tell "Txn"
    end)
    until_true(function() return client:stats().waiting == 1 end)
    clients.await_watched(client, first)
    server:hold_back("Txn", -1) -- also what is asked once more
    go(function() code = select(3, first:get(KEY)) end)
    until_true(function() return server:held "Txn" > 0 end)
    assert(first:unlock())
    until_true(function() return token end)
    assert.equal(first:token(), token)
  end)
  assert.equal("not_held", code)
end)

-- As long as this runs nobody else of the program does, to whom something may be told.
local function ask_at_once()
  local txn = client._core:txn()
  txn:get(KEY)
  assert(txn:start(5))
  assert(txn:wait(5))
end

local WRITES = {
  put = function(lock) return lock:put(KEY, "1") end,
  txn = function(lock) return lock:txn { { "get", KEY }, { "put", KEY, "1" } } end,
}

for name, write in pairs(WRITES) do
  it("what was written is told: " .. name, function()
    local ok, message
    run(function(go)
      local lock = assert(client:lock("a", { linger = 60 }))
      clients.await_watched(client, lock) -- after which it asks nothing by itself
      server:hold_back "Txn"
      go(function() ok, message = write(lock) end)
      until_true(function() return server:held "Txn" == 1 end)
      server:tell "Txn"
      ask_at_once()
      assert(lock:unlock())
    end)
    assert.truthy(ok, message)
  end)
end

it("a read that comes too late is no loss", function()
  local answers = {}
  etcd:put(KEY, "1")
  run(function(go)
    for i = 1, 5 do
      local lock = assert(client:lock("a" .. i))
      server:delay "Txn" -- so that it is asked once more
      local calls = server:calls "Txn"
      go(function()
        local value, _, code = lock:get(KEY)
        answers[i] = value or code
      end)
      until_true(function() return server:calls "Txn" > calls end)
      assert(lock:unlock())
    end
  end)
  for i = 1, 5 do
    -- It may have come before the release.
    assert.is_true(answers[i] == "not_held" or answers[i] == "1", answers[i])
  end
  assert.equal(0, client:stats().lost)
end)
