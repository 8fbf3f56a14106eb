-- Prints "ready PID PPID", then "got NAME" for each signal in its arguments as often as it arrives,
-- and ends when it reads a line. (A shell would merge two signals that arrive together.) A signal
-- "NAME!" is handled once; after that it has its default effect.

local uv = require "luv"

io.stdout:setvbuf "line"
for _, word in ipairs(arg) do
  local name, once = word:match "^(%w+)(!?)$"
  local signal = uv.new_signal()
  signal:start(name, function()
    if once == "!" then signal:stop() end
    print("got " .. name)
  end)
end
local input = uv.new_pipe(false)
input:open(0)
input:read_start(function() os.exit(0) end)
print(("ready %d %d"):format(uv.os_getpid(), uv.os_getppid()))
uv.run()
