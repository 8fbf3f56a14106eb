-- Notes Ctrl-C and the other signals that end a program, from the moment at which this file is
-- loaded: before that, Ctrl-C makes Lua print a stack traceback.

local uv = require "luv"

local M = { came = false }

for _, name in ipairs { "sigint", "sigterm", "sighup" } do
  uv.new_signal():start(name, function() M.came = true end)
end

return M
