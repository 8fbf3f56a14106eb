-- A job that cron starts on every machine, and that only one of them runs:
--
--   * * * * *  /usr/bin/lua5.4 /usr/local/bin/scheduled_job.lua
--
-- A test can give the minute as an argument, such as "2026-11-26 12:00"; by default it is the
-- current minute.

local etcdlock = require "etcdlock"

local minute = arg[1] or os.date "!%Y-%m-%d %H:%M"

-- The job. It must raise an error if it fails: then its minute is not recorded, and the next start
-- runs the job again.
local function job()
  print("running the report of " .. minute)
  os.execute "sleep 0.5"
end

local function run_once(lock)
  -- A machine whose clock is late, or whose cron starts the job late, finds the lock free after
  -- another machine has run the job. So etcd keeps the last minute for which the job was done. An
  -- earlier minute never replaces it.
  local last = assert(lock:get("last-run/report", "")) -- "" if the job was never done
  if last >= minute then
    return print("skipped: another machine has done the report of " .. last)
  end
  job()
  assert(lock:put("last-run/report", minute)) -- fails if the lock was lost meanwhile
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
