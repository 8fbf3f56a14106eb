-- The entrants of the row command. A shell runs the `command` of the job, a command that does
-- nothing under a free lock, again and again, and counts the runs in the window. Most of the time
-- goes into the start of the program. The shell reads the time from a file, because another process
-- would add its own start.

local json = require "dkjson"
local matrix = require "spec.support.harness.matrix"
local proc = require "spec.support.programs.proc"
local uv = require "luv"

-- $0: the length of the window, in hundredths of a second. Prints how often the command ran, and
-- the time that this took, in hundredths of a second.
local SCRIPT = [[
  read_clock() {
    read -r now _ </proc/uptime
    now=${now%%.*}${now#*.}
  }
  read_clock
  from=$now count=0
  while [ $((now - from)) -lt "$0" ]; do
    %s || exit
    count=$((count + 1))
    read_clock
  done
  echo "$count $((now - from))"
]]

local job = json.decode(arg[1])
local env = proc.lua_environment(matrix.no_variables())
env.ETCDCTL_ENDPOINTS, env.LUA = job.endpoint, uv.exepath()
io.stdout:setvbuf "line"
print "ready"
for line in io.lines() do
  local out, code, err = proc.run({
    "sh", "-c", SCRIPT:format(job.command), ("%.0f"):format(json.decode(line).seconds * 100),
  }, { env = env })
  if code ~= 0 then error(out .. err, 0) end
  local count, hundredths = out:match "^(%d+) (%d+)\n$"
  print(json.encode { pairs = tonumber(count), seconds = hundredths / 100, broken = 0 })
end
