-- A DNS server. It answers each query for an IPv4 address with 127.0.0.1, and each other query with
-- no record. A program asks it if its /etc/resolv.conf names it: see NameServer:client.

local proc = require "spec.support.programs.proc"
local temporary = require "spec.support.harness.temporary"
local uv = require "luv"
local write_file = require "bench.write_file"

local NameServer = {}
NameServer.__index = NameServer

local ADDRESS = "127.0.0.153"
local A = "\0\1" -- the type of a query for an IPv4 address

-- The answer to |query|: its ID, flags, numbers of records, its question, and, for an IPv4 address,
-- a record that lives for 5 s.
local function answer_to(query)
  local question = query:match("^%C*.-%z....", 13)
  local is_a = question:sub(-4, -3) == A
  return query:sub(1, 2) .. "\129\128\0\1\0" .. (is_a and "\1" or "\0") .. "\0\0\0\0" .. question
    .. (is_a and "\192\12\0\1\0\1\0\0\0\5\0\4\127\0\0\1" or "")
end

-- Starts a name server. Returns nil if this user may not: it needs port 53 and a mount of its own.
function NameServer.start()
  local self = setmetatable({ socket = uv.new_udp() }, NameServer)
  local _, code = proc.run { "unshare", "-m", "true" }
  if code ~= 0 or not self.socket:bind(ADDRESS, 53) then
    self:stop()
    return nil
  end
  self.resolv_conf = temporary.directory() .. "/resolv.conf"
  write_file(self.resolv_conf, "nameserver " .. ADDRESS .. "\n")
  self.socket:recv_start(function(_, query, from)
    if not query or self.is_silent then return end
    local answer = answer_to(query)
    if self.is_deaf_to_ipv6 and #answer == #query then return end
    self.socket:send(answer, from.ip, from.port)
  end)
  return self
end

-- Starts a Lua process that runs |source| with the arguments |...| and asks this name server.
-- Returns the child: see proc.lua.
function NameServer:client(source, ...)
  return proc.talk({
    "unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/resolv.conf && exec "$@"',
    self.resolv_conf, uv.exepath(), "spec/support/programs/child.lua", source, ...,
  }, proc.lua_environment())
end

function NameServer:stop()
  self.socket:close()
end

return NameServer
