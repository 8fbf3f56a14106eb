-- A job that cron starts on every machine, and that one of them does:
--
--   * * * * *  lua scheduled_job.lua
--
-- An argument stands for the minute, to try it out.

local etcdlock = require "etcdlock"

local minute = arg[1] or os.date "!%Y-%m-%d %H:%M"

local function job()
  print("running the report of " .. minute)
  os.execute "sleep 0.5"
end

local function run_once(lock)
  -- A machine whose clock is late finds the lock free again: so the minute
  -- that was done is kept in etcd.
  if lock:get "last-run/report" == minute then
    return print("skipped: another machine has done the report of " .. minute)
  end
  job()
  assert(lock:put("last-run/report", minute)) -- not if we lost the lock meanwhile
end

local client = assert(etcdlock.connect())
local lock, message, code = client:try_lock "report"
if lock then
  run_once(lock)
  lock:unlock()
elseif code == "locked" then
  print("skipped: another machine is doing the report of " .. minute)
else
  print(("failed (%s): %s"):format(code, message))
end
client:close()
