-- For programs that another one runs until it closes their standard input: a function that tells
-- whether that has happened.

local uv = require "luv"

local stdin, has_ended = uv.new_pipe(false), false
stdin:open(0)
stdin:read_start(function(_, data) has_ended = has_ended or not data end)

return function()
  uv.run "nowait"
  return has_ended
end
