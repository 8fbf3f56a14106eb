-- Tests etcdlock doctor behind a proxy of etcd.
-- Needs: one plain member.

-- Regression 082. `etcdlock doctor` found no problem behind an `etcd grpc-proxy`, although a waiter
-- gets the lock there only 6 to 10 s after its release.
it("etcdlock doctor reports that a waiter is not woken behind an etcd grpc-proxy", function()
  local address = "127.0.0.1:" .. port.free()
  proc.talk { "etcd", "grpc-proxy", "start", "--listen-addr", address, "--endpoints",
    (etcd:endpoint():gsub("^%w+://", "")), "--data-dir", temporary.directory() }
  wait.eventually(function()
    return command.status { "--endpoints", address, "ls" } == 0
  end, 10, "the proxy")
  local out, status = command.run { "--endpoints", address, "doctor" }
  assert.equal(1, status)
  assert.matches("WRONG  a waiter does not get the lock within 3 s", out, 1, true)
  assert.matches("not an etcd grpc-proxy", out, 1, true)
end)
