-- A job that cron starts on every machine, and that one of them does:
--
--   * * * * *  /usr/bin/lua5.4 /usr/local/bin/scheduled_job.lua
--
-- An argument stands for the minute, to try it out.

local etcdlock = require "etcdlock"

local minute = arg[1] or os.date "!%Y-%m-%d %H:%M"

-- Raises an error if it fails: then nothing is recorded, and the next start runs it.
local function job()
  print("running the report of " .. minute)
  os.execute "sleep 0.5"
end

local function run_once(lock)
  -- A machine whose clock is late, or whose cron starts the job late, finds the lock free again.
  -- So the last minute that was done is kept in etcd. It only grows.
  local last, message = lock:get "last-run/report"
  if last == nil then
    error(message)
  elseif last and last >= minute then -- false: it was never done
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
