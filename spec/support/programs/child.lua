-- Runs the Lua source in its first argument, with the other arguments as `...`. Standard output is
-- line-buffered. Started by spec.support.programs.proc.

local source = assert((loadstring or load)(arg[1], "=child"))
io.stdout:setvbuf "line"
source((table.unpack or unpack)(arg, 2))
