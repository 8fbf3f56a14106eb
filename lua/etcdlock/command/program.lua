--- Which program a command's first word is, told before anything is waited for.
local uv = require "luv"
local exit = require "etcdlock.command.exit"

local M = {}

-- Where execvp looks if there is no PATH.
local DEFAULT_PATH = "/bin:/usr/bin"

local function is_program(path)
  local stat = uv.fs_stat(path)
  return stat and stat.type ~= "directory" and uv.fs_access(path, "X"), stat
end

--- The path of a program that is called `name`, as a shell finds it.
-- @return path | nil, message, exit status
function M.find(name)
  local path, there = nil, nil
  if name:find "/" then
    path, there = is_program(name)
    path = path and name
  else
    for directory in ((os.getenv "PATH" or DEFAULT_PATH) .. ":"):gmatch "([^:]*):" do
      local candidate = (directory == "" and "." or directory) .. "/" .. name
      local is_it, stat = is_program(candidate)
      there = there or stat
      path = path or is_it and candidate
    end
  end
  if path then
    return path
  elseif there then
    return nil, name .. ": it can't be executed", exit.NOT_EXECUTABLE
  end
  return nil, name .. ": there is no such command", exit.NOT_FOUND
end

return M
