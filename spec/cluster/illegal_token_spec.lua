-- Tests auth tokens that gRPC core cannot send.
-- Needs: one plain member, no sanitizer.

-- Regression 053. gRPC core refuses a call whose token is not a legal HTTP header value, and writes
-- the token to standard error. The client only had an assertion that gRPC core accepted its calls.
-- So a call with such a token never ended, or the process was aborted. A line break at the end of a
-- token file was enough to cause this.

-- An etcd that has users.
local etcd

setup(function() etcd = secured.start(prefix) end)
local REFUSING = "build/spec/refusing_grpc.so"

-- A program that reads its options, connects a client, and holds a lock until it is lost, at most
-- for 4 s. It prints what the calls return.
local TAKE = [[
  local endpoint, prefix, user, token, password = ...
  local etcdlock = require "etcdlock"
  local client, message, code = etcdlock.connect {
    endpoints = endpoint, prefix = prefix, ttl = 2, env = false,
    user = user ~= "" and user or nil, password = user ~= "" and password or nil,
    token = token ~= "" and token or nil,
  }
  if not client then
    print("connect", message, code)
    return
  end
  local lock
  lock, message, code = client:lock("a", { timeout = 20 })
  print("lock", message or "-", code or "-")
  if lock then
    lock:wait_lost(4)
    lock, message, code = lock:check()
    print("check", message or "-", code or "-")
  end
  client:close()
  print "closed"
]]

local SECRET = "fTVqXKZlhcdYWbnM.28"

-- Runs TAKE; returns the child.
local function run(endpoint, user, token, variables)
  return proc.talk_lua("spec/support/programs/child.lua",
    { TAKE, endpoint, prefix, user, token, secured.PASSWORD }, variables)
end

-- Asserts that |child| ends by itself and has shown no part of SECRET.
local function assert_ends(child)
  assert.equal(0, (child:wait(10)))
  for _, text in ipairs { child.out.text, child:errors() } do
    assert.is_nil(text:find(SECRET:sub(1, 8), 1, true), text)
    assert.is_nil(text:find(SECRET:sub(-8), 1, true), text)
  end
end

local ILLEGAL = {
  ["that ends in a line break"] = SECRET .. "\n",
  ["that contains a carriage return"] = SECRET .. "\r\n",
  ["that contains a control character"] = SECRET .. "\1" .. SECRET,
  ["that contains a byte above 126"] = SECRET .. "\127",
  ["that contains UTF-8"] = SECRET .. "\195\164" .. SECRET,
  ["that begins with a space"] = " " .. SECRET,
  ["that ends in a space"] = SECRET .. " ",
}

describe("a token", function()
  for what, token in pairs(ILLEGAL) do
    it("option " .. what .. ' is refused as "invalid" and not shown', function()
      local child = run(suite.endpoint(), "", token)
      local message = child:expect "^connect\t(.*)\tinvalid$"
      assert.matches("^etcdlock.connect: token %(not shown%) has an illegal character at position "
        .. "%d+ of " .. #token .. ", wanted printable ASCII", message)
      local has_line_break = token:find "[\r\n]" ~= nil
      assert.equal(has_line_break, message:find("remove the line break", 1, true) ~= nil)
      assert_ends(child)
    end)

    it("from etcd " .. what .. ' fails calls with "unauthenticated" and is not shown', function()
      local server = clients.scripted(etcd:endpoint())
      server:extend("Authenticate", "\18" .. string.char(#token) .. token)
      local child = run(server:endpoint(), "locker", "")
      local message = child:expect "^lock\t(.*)\tunauthenticated$"
      assert.matches("the token in the answer to Authenticate (not shown) has an illegal character",
        message, 1, true)
      child:expect "^closed"
      assert_ends(child)
    end)
  end

  it('from etcd that is empty fails calls with "unauthenticated"', function()
    local server = clients.scripted(etcd:endpoint())
    server:forge("Authenticate", "")
    local child = run(server:endpoint(), "locker", "")
    assert.matches("the answer to Authenticate has no token",
      child:expect "^lock\t(.*)\tunauthenticated$", 1, true)
    child:expect "^closed"
    assert_ends(child)
  end)

  it("option of printable ASCII with a space inside it reaches etcd", function()
    local child = run(suite.endpoint(), "", "!" .. SECRET .. " ~")
    local message, code = child:expect "^lock\t(.*)\t(%S+)$"
    if code ~= "-" then -- etcd 3.5 ignores tokens while it has no users
      assert.equal("unauthenticated", code)
      assert.matches("invalid auth token", message, 1, true)
    end
    child:expect "^closed"
    assert_ends(child)
  end)
end)

describe("a batch that gRPC core refuses", function()
  -- Runs TAKE with the suite's etcd and a gRPC that refuses |batch|, which refusing_grpc.c
  -- describes.
  local function refuse(batch)
    return run(suite.endpoint(), "", "", { LD_PRELOAD = REFUSING, REFUSED_BATCH = batch })
  end

  it('of a unary call fails the call with "invalid" and the reason', function()
    local child = refuse "6 0"
    assert.matches("etcd [%d.:]+: gRPC has refused to send the request: "
      .. "GRPC_CALL_ERROR_INVALID_METADATA$", child:expect "^lock\t(.*)\tinvalid$")
    child:expect "^closed"
    assert_ends(child)
  end)

  -- The client renews its lease and watches keys through streams. Without streams the hold ends.
  for what, batch in pairs {
    ["status"] = "1 6", ["headers"] = "1 0", ["first message"] = "1 1", ["answer"] = "1 5",
  } do
    it("for the " .. what .. " of a stream ends the hold, and the client closes", function()
      local child = refuse(batch)
      local message, code = child:expect "^lock\t(.*)\t([^\t]*)$"
      if code == "-" then message = child:expect("^check\t(.*)\tlost$", 15) end
      assert.matches("gRPC has refused to send the request", message, 1, true)
      child:expect "^closed"
      assert_ends(child)
    end)
  end
end)
