-- Checks that a spec file has left no keys, leases, threads or descriptors.

local read_file = require "spec.support.harness.read_file"
local uv = require "luv"
local wait = require "spec.support.harness.wait"

local M = {}

-- Returns a table from each entry of /proc/self/|name| to describe(path), and the number of
-- entries. Entries whose description is nil are omitted.
local function entries(name, describe)
  local path, found, count = "/proc/self/" .. name, {}, 0
  local scan = assert(uv.fs_scandir(path))
  for entry in function() return uv.fs_scandir_next(scan) end do
    found[entry] = describe(path .. "/" .. entry)
    if found[entry] then count = count + 1 end
  end
  return found, count
end

local function thread_name(path)
  local file = io.open(path .. "/comm")
  if not file then return nil end
  local name = file:read "*l"
  file:close()
  return name
end

-- Returns the addresses and the state, in hex, of the TCP socket |inode|; nil if there is none.
local function tcp_line(inode)
  for _, name in ipairs { "tcp", "tcp6" } do
    for line in (read_file("/proc/self/net/" .. name) or ""):gmatch "[^\n]+" do
      local addresses, found = line:match "^ *%d+: (%x+:%x+ %x+:%x+ %x%x) .- %d+ +%d+ (%d+) "
      if found == inode then return addresses end
    end
  end
end

-- Returns the target of the descriptor at |path|; nil for the descriptor of the listing itself.
local function target(path)
  local text = uv.fs_readlink(path)
  local inode = text and text:match "^socket:%[(%d+)%]$"
  local line = inode and tcp_line(inode)
  return line and ("%s %s"):format(text, line) or text
end

-- Returns the threads and descriptors of this process.
function M.snapshot()
  local snapshot = {}
  snapshot.threads, snapshot.thread_count = entries("task", thread_name)
  snapshot.fds, snapshot.fd_count = entries("fd", target)
  return snapshot
end

local function added(now, before)
  local list = {}
  for entry, description in pairs(now) do
    if before[entry] ~= description then
      list[#list + 1] = entry .. " (" .. description .. ")"
    end
  end
  table.sort(list)
  return list
end

-- Returns a list of lines about threads and descriptors that have been added since the snapshot
-- |before|, keys of |etcd| that start with |prefix|, and leases. |etcd| and |prefix| may be nil.
local function left_since(before, etcd, prefix)
  local left = {}
  local function report(what, list)
    if list[1] then left[#left + 1] = what .. ": " .. table.concat(list, ", ") end
  end
  local now = M.snapshot()
  if now.thread_count > before.thread_count then
    report("threads", added(now.threads, before.threads))
  end
  if now.fd_count > before.fd_count then
    report("descriptors", added(now.fds, before.fds))
  end
  if etcd then
    report("keys", etcd:keys(prefix))
    report("leases", etcd:leases())
  end
  return left
end

-- Fails unless, within |seconds| (15: the lease of a killed holder must expire), there are no more
-- threads and descriptors than in the snapshot |before|, no keys of |etcd| that start with
-- |prefix|, and no leases.
function M.assert_none_left(before, etcd, prefix, seconds)
  wait.eventually(function()
    collectgarbage()
    collectgarbage()
    local left = left_since(before, etcd, prefix)
    return not left[1], table.concat(left, "; ")
  end, seconds or 15, "nothing left")
end

return M
