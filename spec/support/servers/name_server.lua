-- A DNS server. It answers each query for an IPv4 address with 127.0.0.1, and each other query with
-- no record. A program asks it if its /etc/resolv.conf names it: see NameServer.client.

local proc = require "spec.support.programs.proc"
local temporary = require "spec.support.harness.temporary"
local uv = require "luv"
local write_file = require "bench.write_file"

local NameServer = {}
NameServer.__index = NameServer

local ADDRESS = "127.0.0.153"
local A = "\0\1" -- the type of a query for an IPv4 address

-- The answer to |query|: its ID, flags, numbers of records, its question, and, for an IPv4 address,
-- a record that lives for 5 s. The second result tells whether it is for an IPv4 address.
local function answer_to(query)
  local question = query:match("^%C*.-%z....", 13)
  local is_a = question:sub(-4, -3) == A
  return query:sub(1, 2) .. "\129\128\0\1\0" .. (is_a and "\1" or "\0") .. "\0\0\0\0" .. question
    .. (is_a and "\192\12\0\1\0\1\0\0\0\5\0\4\127\0\0\1" or ""), is_a
end

-- Starts a name server at |address| (127.0.0.153). Returns nil if this user may not: it needs port
-- 53 and a mount of its own. Fields that a test sets: is_silent, is_deaf_to_ipv6, and `delay`, the
-- seconds that an answer takes.
function NameServer.start(address)
  local self = setmetatable({ socket = uv.new_udp(), address = address or ADDRESS }, NameServer)
  local _, code = proc.run { "unshare", "-m", "true" }
  if code ~= 0 or not self.socket:bind(self.address, 53) then
    self:stop()
    return nil
  end
  self.socket:recv_start(function(_, query, from)
    if not query or self.is_silent then return end
    local answer, is_a = answer_to(query)
    if self.is_deaf_to_ipv6 and not is_a then return end
    local timer = uv.new_timer()
    timer:start((self.delay or 0) * 1000, 0, function()
      timer:close()
      if not self.socket:is_closing() then self.socket:send(answer, from.ip, from.port) end
    end)
  end)
  return self
end

-- Returns the start of a command line that makes a program ask the name servers |list|, one after
-- the other.
function NameServer.command(list)
  local resolv_conf, text = temporary.directory() .. "/resolv.conf", ""
  for _, names in ipairs(list) do text = text .. "nameserver " .. names.address .. "\n" end
  write_file(resolv_conf, text)
  return {
    "unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/resolv.conf && exec "$@"', resolv_conf,
  }
end

-- Starts a Lua process that runs |source| with the arguments |...| and asks the name servers
-- |list|. Returns the child: see proc.lua.
function NameServer.client(list, source, ...)
  local argv = NameServer.command(list)
  for _, word in ipairs { uv.exepath(), "spec/support/programs/child.lua", source, ... } do
    argv[#argv + 1] = word
  end
  return proc.talk(argv, proc.lua_environment())
end

function NameServer:stop()
  self.socket:close()
end

return NameServer
