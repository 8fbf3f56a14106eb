-- Tests the restart of a member with TLS.
-- Needs: one plain member.

-- Regression 002. A member that is shut down ends its connections with GOAWAY. With TLS a call in
-- flight then had no status, and gRPC's retry code aborted the process of the client:
-- "optional<grpc_status_code> ... Assertion `false && "this->engaged_"' failed".
local BUSY = [[
  local endpoints, prefix, cacert, cert, key = ...
  local client = assert(require("etcdlock").connect {
    endpoints = endpoints, prefix = prefix, cacert = cacert, cert = cert, key = key,
    env = false,
  })
  while true do
    if client:ping() then print "busy" end
  end
]]

it("client processes survive a restart of a member with TLS", function()
  local etcd = tls.start()
  local opts, children = tls.options(etcd, prefix), {}
  for i = 1, 4 do
    children[i] = proc.lua(BUSY, opts.endpoints, prefix, opts.cacert, opts.cert, opts.key)
  end
  for _ = 1, 4 do
    for _, child in ipairs(children) do
      child.lines = {}
      child:expect "^busy"
    end
    uv.kill(etcd:pid(), "sigterm")
    proc.wait(etcd.members[1].process, 20)
    etcd:restart()
  end
  for _, child in ipairs(children) do
    assert.is_nil(child.process.code, child:errors())
    child:destroy()
  end
end)
