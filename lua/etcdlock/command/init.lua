--- The command `etcdlock`: parses the command line and runs the subcommand. A module is loaded only
-- if the subcommand needs it, so that a short run of the command ends sooner.
local report = require "etcdlock.command.report"

local EXIT = report.EXIT

-- Subcommand -> its module below etcdlock.command. The module has a function with the name of the
-- subcommand, which takes the parsed arguments and returns the exit status.
local MODULES = {
  run = "run", ls = "ls", ["break"] = "queues", elect = "elect", doctor = "doctor",
  completion = "completion",
}

-- Pattern of the error that the Lua interpreter raises at Ctrl-C.
local INTERRUPTED = "interrupted!$"
local SIGINT = 2

-- ---- standard streams ----

local EBADF = 9

local null_files = {} -- keeps the files open until the process ends

-- Opens /dev/null for each standard stream that is closed. Otherwise the next file that this
-- process opens, such as a connection to etcd, would get the descriptor of that stream, and the
-- command that runs under a lock would read from that file or write to it. For the same reason this
-- function must be called before this process opens a file.
local function open_standard_streams()
  for _, stream in ipairs { io.stdin, io.stdout, io.stderr } do
    local _, _, errno = stream:seek()
    if errno == EBADF then
      null_files[#null_files + 1] = assert(io.open("/dev/null", "r+"))
    end
  end
end

-- ---- errors ----

-- Lua module that etcdlock needs -> the Debian package that contains it.
local PACKAGES = { argparse = "lua-argparse", luv = "lua-luv", dkjson = "lua-dkjson" }

-- Returns a message that tells the user how to remedy the error `err`; nil if no remedy is known.
local function explain(err)
  local missing = err:match "module '([%w.]+)' not found"
  if PACKAGES[missing] then
    return ("the module %s is missing for %s; on Debian install %s"):format(missing, _VERSION,
      PACKAGES[missing])
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
