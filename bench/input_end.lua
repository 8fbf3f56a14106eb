-- Returns a function that returns whether the standard input of this program has ended. For
-- programs whose parent process ends them by closing their standard input.

local uv = require "luv"

local stdin, has_ended = uv.new_pipe(false), false
stdin:open(0)
stdin:read_start(function(_, data) has_ended = has_ended or not data end)

return function()
  uv.run "nowait"
  return has_ended
end
