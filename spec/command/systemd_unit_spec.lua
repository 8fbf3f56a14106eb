-- Tests the systemd unit in examples/systemd: its syntax, its command line, and its stop.

local NAME = prefix .. "worker"

describe("the systemd unit examples/systemd/worker.service", function()
  local directory, unit, env

  before_each(function()
    directory = temporary.directory()
    env = select(2, command.words())
    command.install(directory)
    temporary.program(directory .. "/worker", [[
      trap 'echo got-TERM; exit 0' TERM
      sleep 60 &
      echo works
      wait
    ]])
    unit = assert(read_file "examples/systemd/worker.service")
      :gsub("/usr/bin/etcdlock", directory .. "/etcdlock")
      :gsub("/usr/local/bin/worker", directory .. "/worker")
  end)

  it("is accepted by systemd-analyze", function()
    if not uv.fs_stat "/usr/bin/systemd-analyze" then pending "there is no systemd-analyze" end
    local file = directory .. "/worker.service"
    assert(io.open(file, "w")):write(unit):close()
    local out, code, err = proc.run { "systemd-analyze", "verify", file }
    assert.same({ "", 0, "" }, { out, code, err })
  end)

  it("runs the worker under the lock, and passes TERM on once when it is stopped", function()
    local line = unit:match "\nExecStart=([^\n]*)\n":gsub(" run worker ", " run " .. NAME .. " ")
    assert.equal("mixed", unit:match "\nKillMode=(%S+)\n")
    local job = proc.talk({ "sh", "-c", "exec " .. line }, env)
    job:expect "^works"
    assert.equal(1, #etcd:keys(NAME .. "/"))
    job:kill "sigterm" -- as systemd does with KillMode=mixed
    job:expect "^got%-TERM"
    assert.equal(0, (job:wait()))
    assert.equal(1, select(2, job.out.text:gsub("got%-TERM", "")))
    assert.same({}, etcd:keys(NAME .. "/"))
  end)
end)
