-- Runs the program text in its first argument with the others as `...`, its
-- output line by line. Started by spec.support.programs.proc.

local source = assert((loadstring or load)(arg[1], "=child"))
io.stdout:setvbuf "line"
source((table.unpack or unpack)(arg, 2))
