-- What is left of secrets in the memory of a program that has closed its client: what
-- Lua has of them, and nothing of ours. Their users are children, since whoever looks
-- for a text has it.

local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local suite = require "spec.support.harness.suite"

-- Makes or reads its secret, and then has a client, which nobody uses, and then none.
local CHILD = [[
  local make, option = ...
  local secret = assert((loadstring or load)(make))()
  local options = { endpoints = "127.0.0.1:1", user = option == "password" and "me" or nil }
  options[option] = secret
  if option == "key_pem" then
    options.cacert, options.cert = os.getenv "SPEC_CACERT", os.getenv "SPEC_CERT"
    options.endpoints = "https://127.0.0.1:1"
  end
  local etcdlock, client = require "etcdlock", nil
  local steps = {
    function() end,
    function() client = assert(etcdlock.connect(options)) end,
    function()
      client:close()
      client = nil
      collectgarbage()
      collectgarbage()
    end,
  }
  for _, step in ipairs(steps) do
    step()
    print "done"
    io.read "*l"
  end
]]

-- How often |text| stands in what the process |pid| has written to its memory.
local function count(pid, text)
  local memory, found = assert(io.open(("/proc/%d/mem"):format(pid), "rb")), 0
  for line in assert(read_file(("/proc/%d/maps"):format(pid))):gmatch "[^\n]+" do
    local from, to, path = line:match "^(%x+)%-(%x+) rw.. %S+ %S+ %S+ *(.*)$"
    if from and (path == "" or path == "[heap]" or path == "[stack]") then
      from, to = tonumber(from, 16), tonumber(to, 16)
      memory:seek("set", from)
      local bytes, at = memory:read(to - from) or "", 1
      while at do
        at = bytes:find(text, at, true)
        if at then found, at = found + 1, at + 1 end
      end
    end
  end
  memory:close()
  return found
end

-- The copies before there was a client, with one, and after that.
local function copies(option, make, text)
  local child = proc.lua(CHILD, make, option)
  local counts = {}
  for i = 1, 3 do
    child:expect "^done"
    counts[i] = count(child.pid, text)
    child:send ""
  end
  child:wait()
  return (table.unpack or unpack)(counts)
end

local function assert_wiped(option, make, text)
  local before, meanwhile, after = copies(option, make, text)
  assert.is_true(meanwhile > before, "it can't be seen")
  assert.is_true(after <= before, ("%d copies, and %d before"):format(after, before))
end

-- Long, so that it isn't used again at once for something else, and looked at where the
-- allocator leaves it alone.
local MAKE = [[
  local parts = {}
  for i = 1, 2000 do parts[i] = ("%d"):format(7919 * i * i + 104729) end
  return table.concat(parts)
]]
local SECRET = (loadstring or load)(MAKE)()

describe("of a client that is closed nothing is left in memory of", function()
  it("its password", function() assert_wiped("password", MAKE, SECRET:sub(-600, -400)) end)

  it("its token", function() assert_wiped("token", MAKE, SECRET:sub(-600, -400)) end)

  it("its key", function()
    local cast, uv = suite.cast(), require "luv"
    uv.os_setenv("SPEC_CACERT", cast.ca.cert)
    uv.os_setenv("SPEC_CERT", cast.client.cert)
    local text = assert(read_file(cast.client.key))
    assert_wiped("key_pem", ("return io.open(%q):read '*a'"):format(cast.client.key),
      text:sub(-100, -60))
  end)
end)
