-- Proof that nothing is left: keys, leases, threads, descriptors.

local uv = require "luv"
local wait = require "spec.support.harness.wait"

local M = {}

-- Entry -> description, for the entries of a directory in /proc/self.
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

-- nil for the descriptor that the listing itself had open.
local function target(path)
  return (uv.fs_readlink(path))
end

-- What this process has now.
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

-- What is there that was not there |before|, as a list of lines. |etcd| and
-- |prefix| may be nil.
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

-- Fails unless, within |seconds| (15: a killed holder's lease must expire), no
-- more threads and descriptors are there than |before|, no key of |etcd| under
-- |prefix| and no lease.
function M.assert_none_left(before, etcd, prefix, seconds)
  wait.eventually(function()
    collectgarbage()
    collectgarbage()
    local left = left_since(before, etcd, prefix)
    return not left[1], table.concat(left, "; ")
  end, seconds or 15, "nothing left")
end

return M
