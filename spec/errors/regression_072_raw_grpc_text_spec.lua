-- Raw text of gRPC reached users. If an IPv6 address had an unknown zone, or the path of a unix
-- socket had a space, calls failed with "Failed to create secure client channel", and gRPC wrote
-- lines to standard error. In a zone or in such a path, "%" and two hex digits were decoded as one
-- character. An IPv6 address without brackets or a port was refused without a hint.

local clients = require "spec.support.harness.clients"
local etcdlock = require "etcdlock"
local proc = require "spec.support.programs.proc"
local uv = require "luv"

-- Returns the message of a lock call of a client of |endpoint|, and all that its process has
-- written to standard error.
local function failure(endpoint)
  local child = proc.lua([[
    local client = assert(require "etcdlock".connect { endpoints = ..., env = false })
    print("failed", client:lock("a", { timeout = 0.5 }))
    client:close()
  ]], endpoint)
  finally(function() child:destroy() end)
  local message = child:expect "^failed\tnil\t(.*)\tunavailable"
  child:wait()
  return message, child:errors()
end

it("regression 072: an unknown zone is reported, without lines on standard error", function()
  local message, errors = failure "[fe80::1%nowhere]:2379"
  assert.matches("etcd [fe80::1%nowhere]:2379: this machine has no such network interface",
    message, 1, true)
  assert.equal("", errors)
end)

it("regression 072: a zone may begin with hex digits", function()
  local message, errors = failure "[fe80::1%99]:2379"
  assert.is_nil(message:find("no such network interface", 1, true), message)
  assert.equal("", errors)
end)

it("regression 072: the path of a unix socket may contain any character", function()
  local file = os.tmpname()
  os.remove(file)
  local path = file .. " %41?#\195\164"
  local message, errors = failure("unix:" .. path)
  assert.matches("the Unix socket does not exist", message, 1, true)
  assert.equal("", errors)
  local server = uv.new_pipe(false)
  assert(server:bind(path))
  assert(server:listen(8, function() end))
  message, errors = failure("unix:" .. path)
  server:close()
  assert.is_nil(message:find("the Unix socket does not exist", 1, true), message)
  assert.equal("", errors)
end)

for endpoint, corrected in pairs {
  ["[::1]"] = "[::1]:2379",
  ["::1"] = "[::1]:2379",
  ["::1:2379"] = "[::1]:2379",
  ["https://2001:db8::1:2380"] = "https://[2001:db8::1]:2380",
  ["fe80::1%eth0:2379"] = "[fe80::1%eth0]:2379",
  ["http://[::1]/"] = "http://[::1]:2379",
} do
  it("regression 072: connect refuses " .. endpoint .. " with the correct form", function()
    assert.equal(('etcdlock.connect: endpoint "%s" is not [IPv6 address]:port; write "%s"')
      :format(endpoint, corrected), clients.assert_fails("invalid",
      etcdlock.connect { endpoints = { endpoint }, env = false }))
  end)
end
