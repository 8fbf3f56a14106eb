-- etcdlock run --once-per compared the time of a recorded run with its own start, not with the
-- current time. In a wait of more than two periods, for example in an outage, another machine could
-- run the command. etcdlock then reported a wrong clock, with exit status 1. Besides, a record
-- could contain a process ID or a host name of any length, which the message repeated.
-- Needs: one plain member.

local cjson = require "cjson"
local command = require "spec.support.programs.command"
local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local etcd = suite.etcd()
local NAME = suite.prefix() .. "a"
local RECORD = NAME:gsub("/", "%%2F") .. ".last-run"

after_each(function()
  proc.destroy_children()
  etcd:del(RECORD)
end)

describe("regression 127: etcdlock run --once-per", function()
  it("has nothing to do if another machine has run the command periods later", function()
    local holder = command.start { "run", NAME, "sh", "-c", "echo ready; read line" }
    holder:expect "^ready"
    local waiter = command.start { "run", NAME, "--once-per=1", "--timeout=60", "echo",
      "ran" }
    etcd:await_keys(NAME .. "/", 2)
    local started = os.time()
    wait.eventually(function() return os.time() >= started + 3 end)
    etcd:put(RECORD, cjson.encode { started = os.time(), host = "web-9", pid = 4711 })
    holder:send "go"
    assert.equal(75, (waiter:wait()))
    assert.equal("", waiter.out.text)
    assert.matches("nothing to do in this period", waiter:errors())
    assert.equal(0, (holder:wait()))
  end)

  it("takes a value with an impossible process ID or host name for no record", function()
    for _, text in ipairs {
      '{"started":4000000000,"host":"a","pid":1e308}',
      '{"started":4000000000,"host":"a","pid":-1}',
      ('{"started":4000000000,"host":"%s","pid":1}'):format(("a"):rep(256)),
    } do
      etcd:put(RECORD, text)
      local out, status, err = command.run { "run", NAME, "--once-per=1d", "echo", "ran" }
      assert.same({ "", 1 }, { out, status })
      assert.matches("is not a record of %-%-once%-per", err)
    end
  end)
end)
