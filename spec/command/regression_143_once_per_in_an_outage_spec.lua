-- etcdlock run --once-per gave up after 5 s if etcd was away at the start, and at once if etcd had
-- ended the lease of a waiting start. In both cases no machine ran the command in that period. A
-- start that waited longer than its period ran the command in the next one, a second time.
-- Needs: one plain member.

local Etcd = require "spec.support.servers.etcd"
local command = require "spec.support.programs.command"
local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local etcd = suite.etcd()
local NAME = suite.prefix() .. "a"
local RECORD = NAME:gsub("/", "%%2F") .. ".last-run"
local LONG = "--once-per=10000d" -- no such period ends during a test

-- Starts a command that keeps the lock until it gets a line.
local function start_holder()
  local holder = command.start { "run", NAME, "sh", "-c", "echo ready; read line" }
  holder:expect "^ready"
  return holder
end

local function lease_of(key) return key:match "/(%x+)$" end

after_each(function()
  proc.destroy_children()
  etcd:del(RECORD)
end)

describe("regression 143: etcdlock run --once-per", function()
  it("waits for an etcd that is away at its start", function()
    local own = Etcd.start()
    finally(function() own:stop() end)
    own:pause()
    local run = command.start { "run", NAME, LONG, "--endpoints=" .. own:endpoint(), "echo", "ran" }
    local from = wait.now()
    wait.eventually(function() return wait.now() > from + 6 end, 10)
    own:resume()
    assert.equal(0, (run:wait()))
    assert.equal("ran\n", run.out.text)
  end)

  it("waits again if etcd has ended its lease", function()
    local holder = start_holder()
    local first = etcd:keys(NAME .. "/")
    local waiter = command.start { "run", NAME, LONG, "echo", "ran" }
    etcd:await_keys(NAME .. "/", 2)
    local before = etcd:keys(NAME .. "/")
    for _, key in ipairs(before) do
      if key ~= first[1] then etcd:revoke(lease_of(key)) end
    end
    wait.eventually(function()
      local keys = etcd:keys(NAME .. "/")
      return #keys == 2 and table.concat(keys) ~= table.concat(before)
    end)
    holder:send "go"
    assert.equal(0, (holder:wait()))
    assert.equal(0, (waiter:wait()))
    assert.equal("ran\n", waiter.out.text)
  end)

  it("waits until its period ends, and no longer", function()
    local holder = start_holder()
    local out, status, err = command.run { "run", NAME, "--once-per=2", "echo", "ran" }
    assert.same({ "", 75 }, { out, status })
    assert.matches("was not free within [%d.]+ s", err)
    holder:send "go"
    assert.equal(0, (holder:wait()))
  end)
end)
