-- Handles SIGINT (Ctrl-C), SIGTERM and SIGHUP from the time at which this file is loaded: each of
-- them sets `came` to true. Before that time, Ctrl-C makes Lua print a stack traceback.

local uv = require "luv"

local M = { came = false }

for _, name in ipairs { "sigint", "sigterm", "sighup" } do
  uv.new_signal():start(name, function() M.came = true end)
end

return M
