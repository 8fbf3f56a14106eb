-- Tests that the example scheduled_job does not run a minute's job again when it is started late.

local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"

local KEY = "last-run/report"
local etcd = suite.etcd()

setup(function()
  etcd:allow "report/"
  etcd:allow(KEY)
end)

-- Returns what the job of the minute |minute| prints.
local function job(minute)
  local out, code, err = proc.run_lua("examples/scheduled_job.lua", { minute },
    { env = { ETCDCTL_ENDPOINTS = suite.endpoints() } })
  assert.same({ 0, "" }, { code, err })
  return out
end

describe("regression 116: a scheduled job that is started late", function()
  it("does not run again, and does not set the record of the last run back", function()
    finally(function() etcd:del(KEY) end)
    job "12:00"
    assert.equal("running the report of 12:01\n", job "12:01")
    assert.equal("skipped: another machine has done the report of 12:01\n", job "12:00")
    assert.equal("12:01", (etcd:get(KEY)))
    assert.equal("skipped: another machine has done the report of 12:01\n", job "12:01")
  end)
end)
