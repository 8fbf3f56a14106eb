--- The command `etcdlock`: reads what it is told, and hands it to the file of its
-- subcommand. Whatever else it needs is loaded by that, and not before: it is often started
-- for a moment only.
local exit = require "etcdlock.command.exit"
local streams = require "etcdlock.command.streams"
local texts = require "etcdlock.command.texts"

-- What the Lua interpreter makes of Ctrl-C.
local INTERRUPTED = "interrupted!$"
local SIGINT = 2

local function run(words)
  local args = require "etcdlock.command.parser".parse(words)
  return require("etcdlock.command." .. args.subcommand)(args)
end

--- The error as it is told to those who can do something about it: nil if they can't.
local function explain(err)
  local missing = err:match "module '(%w+)' not found"
  if missing == "argparse" or missing == "luv" then
    return ("the Lua module %s is missing; on Debian it is in the package lua-%s"):format(missing,
      missing)
  end
end

--- Does what `words`, the arguments of the command, ask for.
-- @return the exit status
return function(words)
  streams.complete()
  local ok, status = xpcall(function()
    return run(words)
  end, function(err)
    err = tostring(err)
    return (err:find(INTERRUPTED) or explain(err)) and err or debug.traceback(err, 2)
  end)
  if ok then
    return status
  elseif status:find(INTERRUPTED) then
    return exit.SIGNAL + SIGINT
  end
  for line in (explain(status) or status):gmatch "[^\n]+" do
    texts.say("%s", (line:gsub("\t", "  ")))
  end
  return exit.SYSTEM
end
