--- The command `etcdlock`: parses the command line and runs the subcommand. Modules are loaded only
-- when the subcommand needs them, because the command often runs for a moment only.
local report = require "etcdlock.command.report"

local EXIT = report.EXIT

-- Subcommand -> the module below etcdlock.command that has a function of the same name:
-- function(args) -> exit status.
local MODULES = {
  run = "run", ls = "queues", ["break"] = "queues", elect = "elect", doctor = "doctor",
  completion = "parser",
}

-- The error that the Lua interpreter raises at Ctrl-C.
local INTERRUPTED = "interrupted!$"
local SIGINT = 2

-- ---- standard streams ----

local EBADF = 9

local null_files = {} -- keeps the files open until the process ends

-- Opens /dev/null for each closed standard stream. Otherwise the next file that the process opens,
-- such as a connection to etcd, would get the number of that stream, and the command that runs
-- under a lock would read from or write to it. No file may be opened before.
local function open_standard_streams()
  for _, stream in ipairs { io.stdin, io.stdout, io.stderr } do
    local _, _, errno = stream:seek()
    if errno == EBADF then
      null_files[#null_files + 1] = assert(io.open("/dev/null", "r+"))
    end
  end
end

-- ---- errors ----

-- Lua module that the command needs -> its Debian package.
local PACKAGES = { argparse = "lua-argparse", luv = "lua-luv", ["cjson.safe"] = "lua-cjson" }

-- Returns a message about the error `err` if a user can act on it; else nil.
local function explain(err)
  local missing = err:match "module '([%w.]+)' not found"
  if PACKAGES[missing] then
    return ("the Lua module %s is missing; on Debian install %s"):format(missing, PACKAGES[missing])
  end
end

local function run(words)
  local args = require "etcdlock.command.parser".parse(words)
  return require("etcdlock.command." .. MODULES[args.subcommand])[args.subcommand](args)
end

--- Runs the command with the arguments `words`. Returns the exit status.
return function(words)
  open_standard_streams()
  local ok, status = xpcall(function()
    return run(words)
  end, function(err)
    err = tostring(err)
    return (err:find(INTERRUPTED) or explain(err)) and err or debug.traceback(err, 2)
  end)
  if ok then
    return status
  elseif status:find(INTERRUPTED) then
    return EXIT.SIGNAL + SIGINT
  end
  for line in (explain(status) or status):gmatch "[^\n]+" do
    report.print_message("%s", (line:gsub("\t", "  ")))
  end
  return EXIT.SYSTEM
end
