-- A job that cron starts on every machine, and that one of them runs, once a day:
--
--   0 3 * * *  /usr/bin/lua5.4 /usr/local/bin/scheduled_job.lua
--
-- A test can give another period as an argument: seconds, or "ever".

local etcdlock = require "etcdlock"

local period = tonumber(arg[1]) or arg[1] or 86400

-- The job. It must raise an error if it fails: then the run is not recorded, and the next start
-- runs the job again.
local function job()
  print "running the report"
  os.execute "sleep 0.5"
end

local client = assert(etcdlock.connect())
local ran, message, code = client:once("report", period, job)
if ran == false then
  print("skipped: " .. message)
elseif not ran then
  print(("failed (%s): %s"):format(code, message))
end
client:close()
