-- Tests that a closed client leaves no copy of a secret in the memory of its process, except the
-- copies of Lua. The clients run in child processes, because a process that searches for a secret
-- has a copy of it.
-- Needs: one plain member, no sanitizer.

-- A program that makes or reads its secret, connects a client without using it, and closes it.
-- It waits for a line of input after each step, and repeats the step if the line is "again".
--
-- The first step overwrites freed memory. Otherwise, freed memory could still hold a copy from the
-- time when the program made the secret. The client's copy could then take the place of that copy,
-- and the number of copies would stay the same.
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
  local fillers = {}
  local steps = {
    function()
      collectgarbage()
      for size = 5, 17 do
        local filler = ("%07d"):format(#fillers):rep(2 ^ size / 8)
        fillers[#fillers + 1] = filler
      end
    end,
    function() client = assert(etcdlock.connect(options)) end,
    function()
      client:close()
      client = nil
      collectgarbage()
      collectgarbage()
    end,
  }
  for _, step in ipairs(steps) do
    repeat
      step()
      print "done"
    until io.read "*l" ~= "again"
  end
]]

-- Returns how often |text| occurs in the heap, stack and anonymous memory of the process |pid|.
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

-- Asserts that the client has copies of |text|, and that close removes them. |make|: Lua code that
-- returns the secret for the option |option|. |text| is a part of this secret.
local function assert_wiped(option, make, text)
  local child = proc.lua(CHILD, make, option)
  local function copies()
    child:expect "^done"
    return count(child.pid, text)
  end
  wait.eventually(function()
    local found = copies()
    if found == 1 then return true end
    child:send "again"
    return false, found
  end, 5, "only Lua's string has the secret")
  child:send ""
  child:expect "^done"
  -- the I/O thread may pass the copy on while it is searched for
  wait.eventually(function() return count(child.pid, text) > 1 end, 5, "the client has a copy")
  child:send ""
  assert.equal(1, copies())
  child:send ""
  child:wait()
end

-- The secret is long, so that its memory is not reused at once. The tests look for a part of it
-- that the allocator does not overwrite.
local MAKE = [[
  local parts = {}
  for i = 1, 2000 do parts[i] = ("%d"):format(7919 * i * i + 104729) end
  return table.concat(parts)
]]
local SECRET = (loadstring or load)(MAKE)()

describe("a closed client leaves no copy in memory", function()
  it("of its password", function() assert_wiped("password", MAKE, SECRET:sub(-600, -400)) end)
  it("of its token", function() assert_wiped("token", MAKE, SECRET:sub(-600, -400)) end)
  it("of its private key", function()
    local cast, uv = suite.cast(), require "luv"
    uv.os_setenv("SPEC_CACERT", cast.ca.cert)
    uv.os_setenv("SPEC_CERT", cast.client.cert)
    local text = assert(read_file(cast.client.key))
    assert_wiped("key_pem", ("return io.open(%q):read '*a'"):format(cast.client.key),
      text:sub(-100, -60))
  end)
end)
