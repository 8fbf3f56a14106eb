--- What the command understands: its subcommands, their options, and their help.
local booleans = require "etcdlock.booleans"
local characters = require "etcdlock.characters"
local exit = require "etcdlock.command.exit"
local numbers = require "etcdlock.numbers"

local M = {}

local WIDTH = 79

-- ---- values ----

--- What reads a number of `low` to `high`, for the option or argument `name`.
local function number(name, wanted, low, high, is_whole)
  return function(text)
    local value = numbers.read(text)
    if not value or not (value >= low and value <= high) or is_whole and value % 1 ~= 0 then
      return nil, string.format("%s: '%s', wanted %s", name, text, wanted)
    end
    return is_whole and math.floor(value) or value
  end
end

local LONGEST = 1e9 -- seconds

local function seconds(name, low)
  local wanted = ("%s to %.0f seconds"):format(numbers.format("%g", low), LONGEST)
  return number(name, wanted, low, LONGEST)
end

local function whole(name, high)
  return number(name, ("a whole number from 1 to %.0f"):format(high), 1, high, true)
end

-- ---- etcd's connection ----

--- The options by which etcd is found, which every subcommand takes.
local function add_connection(parser)
  parser:group("Options for etcd, as etcdctl has them, and its variables ETCDCTL_...",
    parser:option "--endpoints"
      :argname "LIST"
      :description "the members, with commas between them (ETCDCTL_ENDPOINTS, else 127.0.0.1:2379)",
    parser:option "--cacert"
      :argname "FILE"
      :description "the CAs to trust (ETCDCTL_CACERT, else this system's)",
    parser:option "--cert"
      :argname "FILE"
      :description "our certificate (ETCDCTL_CERT)",
    parser:option "--key"
      :argname "FILE"
      :description "its key (ETCDCTL_KEY)",
    parser:option "--user"
      :argname "NAME[:PASSWORD]"
      :description "who we are to etcd (ETCDCTL_USER)",
    parser:option "--password"
      :argname "PASSWORD"
      :description "seen by all users of this machine: better in ETCDCTL_PASSWORD",
    parser:option "--insecure-transport"
      :argname "BOOL"
      :choices { "true", "false" }
      :description "false: TLS to endpoints without a scheme (ETCDCTL_INSECURE_TRANSPORT)",
    parser:option "--server-name"
      :argname "NAME"
      :description "the name to be found in etcd's certificate, if not its address",
    parser:flag "--allow-plaintext-auth"
      :description "a password may pass in plain text to other machines",
    parser:option "--prefix"
      :argname "TEXT"
      :description "put in front of every NAME")
end

-- ---- subcommands ----

local function add_hold(command)
  command:option "--timeout"
    :argname "S"
    :convert(seconds("--timeout", 0))
    :description("seconds to wait for it, at most; 0: only if it is free (default: as long as it"
      .. " takes; 5 for an etcd that has never answered)")
  command:option "--ttl"
    :argname "S"
    :convert(number("--ttl", "2 to 300 seconds", 2, 300))
    :description("seconds, and --lock-delay more, until it goes to the next one if this machine"
      .. " dies (default: 10)")
  command:option "--max-hold"
    :argname "S"
    :convert(seconds("--max-hold", 0.001))
    :description "seconds that CMD may have it, at most: then CMD is ended"
  command:option "--grace"
    :argname "S"
    :default "5"
    :convert(seconds("--grace", 0))
    :description ("seconds from TERM to KILL if the lock is lost or --max-hold is over; after"
      .. " TERM, INT or QUIT from the end of CMD to KILL for the rest of its process group")
  command:option "--lock-delay"
    :argname "S"
    :convert(number("--lock-delay", "0 to 300 seconds", 0, 300))
    :description("seconds for which nobody gets it after it was lost, so that CMD has ended by then"
      .. " (default: --grace)")
  command:option "-E"
    :argname "N"
    :target "timeout_status"
    :default(tostring(exit.TIMEOUT))
    :convert(number("-E", "an exit status, 0 to 255", 0, 255, true))
    :description "the exit status where it could not be had in time"
end

local EPILOG = "etcdlock --help lists the options for etcd, which may stand here, too."

local function add_run(parser)
  local command = parser:command "run"
    :summary "run a command under a lock"
    :description "Waits for the lock NAME, runs CMD while it is held, and exits with CMD's status."
    :epilog(EPILOG)
    :usage "Usage: etcdlock run NAME [OPTION...] -- CMD [ARG...]"
  command:argument "NAME":target "name":description "the lock"
  command:mutex(
    command:flag "--shared"
      :description "as one of many readers: who asks without it is alone",
    command:option "--permits"
      :argname "N"
      :convert(whole("--permits", 1000))
      :description "as one of at most N: waits until fewer than N permits are before it")
  command:option "--value"
    :argname "TEXT"
    :description "what 'etcdlock ls' shows to others"
  command:option "--at-least"
    :argname "S"
    :convert(seconds("--at-least", 0))
    :description("seconds to keep the lock, at least, also if CMD ends sooner: for a job that many"
      .. " machines start and one does (default: 0)")
  add_hold(command)
end

local function add_ls(parser)
  local command = parser:command "ls"
    :summary "list who holds and who waits"
    :description "Lists the locks whose names begin with PREFIX: who holds them, and who waits."
    :epilog(EPILOG)
  command:argument "PREFIX":target "below":args "?":description "all of them without it"
  command:flag "-w --watch":description "again and again, until Ctrl-C"
  command:option "--interval"
    :argname "S"
    :default "1"
    :convert(seconds("--interval", 0.1))
    :description "the time from one look to the next"
  command:flag "--json":description "for programs; with --watch, one line for each look"
end

local function add_break(parser)
  local command = parser:command "break"
    :summary "take a lock from its holder"
    :description("Takes the lock NAME from the holder with that TOKEN, as 'etcdlock ls' shows it,"
      .. " and from no other. He is told, if he asks.")
    :epilog(EPILOG)
  command:argument "NAME":target "name":description "the lock"
  command:argument "TOKEN":target "token":convert(whole("TOKEN", 2 ^ 53))
    :description "the number that is its holder's"
end

local function add_elect(parser)
  local command = parser:command "elect"
    :summary "run a command while it leads, or listen who does"
    :description("Stands in the election NAME, says VALUE there, runs CMD while it leads, and exits"
      .. " with CMD's status. With --listen it prints the leader's key and value, a line each,"
      .. " again after each change, or 'nobody leads' and an empty line if nobody leads any more."
      .. " Leaders and values that are replaced soon may be skipped.")
    :epilog(EPILOG)
    :usage("Usage: etcdlock elect NAME VALUE [OPTION...] -- CMD [ARG...]\n"
      .. "       etcdlock elect --listen [--json] NAME")
  command:argument "NAME":target "name":description "the election"
  command:argument "VALUE":target "value":args "?"
    :description "what others read, an address perhaps"
  command:flag "-l --listen":description "only print who leads, again after each change"
  command:flag "--json":description "with --listen: print one line of JSON each time"
  add_hold(command)
end

local function add_doctor(parser)
  parser:command "doctor"
    :summary "look whether all is well with etcd, and tell what to do"
    :description("Shows where each setting comes from and how each member is, takes a lock and"
      .. " gives it back, and tells what to do about what is wrong. Exits with 0 if all is well,"
      .. " else with 1.")
    :epilog(EPILOG)
end

local function add_completion(parser)
  local command = parser:command "completion"
    :summary "print what a shell needs to complete this command"
    :description("Prints the completion of this command for SHELL, for"
      .. " eval \"$(etcdlock completion bash)\"")
  command:argument "SHELL":target "shell":choices { "bash" }
end

local SUBCOMMANDS = { add_run, add_ls, add_break, add_elect, add_doctor, add_completion }

-- ---- the parser ----

-- The subcommands that run what stands behind "--".
local RUNS = { run = true, elect = true }

--- Whoever has mistyped what is for `subcommand` (nil: for all) is told so, and where to
-- read on.
local function refuse(subcommand, message)
  message = message:gsub("\n", ". ")
  io.stderr:write(string.format("etcdlock: %s\nTry 'etcdlock %s--help'.\n",
    characters.clean(message), subcommand and subcommand .. " " or ""))
  os.exit(exit.USAGE)
end

--- The parser, of argparse. `has_command`: there is a "--", and what stands behind it.
local function new(has_command)
  local parser = require "argparse" "etcdlock"
    :description "Locks in etcd: one at a time, wherever it runs."
    :epilog "The manual: man etcdlock, doc/command.md."
    :help_max_width(WIDTH)
    :usage_max_width(WIDTH)
    :command_target "subcommand"
  parser.error = function(of, message)
    local subcommand = of ~= parser and of._name or nil
    if RUNS[subcommand] and message == "too many arguments" then
      message = message .. (has_command and " before --" or ": what is to run stands behind --")
    end
    refuse(subcommand, message)
  end
  parser:flag "--version"
    :description "show the version, and exit"
    :action(function()
      print("etcdlock " .. require "etcdlock"._VERSION)
      os.exit(exit.OK)
    end)
  for _, add in ipairs(SUBCOMMANDS) do
    add(parser)
  end
  add_connection(parser)
  return parser
end

-- Of etcdctl, and not ours: why not.
local SKIP_TLS_VERIFY = "--insecure-skip-tls-verify"
local REFUSED = {
  [SKIP_TLS_VERIFY] = "verification can't be switched off; give the CA with --cacert",
  ["--discovery-srv"] = "discovery by DNS SRV is not supported; give --endpoints",
}

local INSECURE_TRANSPORT = "--insecure-transport"

--- `word` as argparse wants it. Go's flags: --flag and --flag=true are the same, and there are
-- several words for true.
local function spelt_out(word, next_word)
  local value = word:match "^%-%-insecure%-transport=(.*)$"
  if word == INSECURE_TRANSPORT and next_word ~= "true" and next_word ~= "false" then
    value = "true"
  end
  if booleans[value or ""] == nil then
    return word
  end
  return ("%s=%s"):format(INSECURE_TRANSPORT, tostring(booleans[value]))
end

-- Options the value of which may begin with "-", and how it is joined to them.
local JOINED = { ["-E"] = "" }
for name in ("timeout ttl max-hold grace lock-delay at-least permits interval value")
  :gmatch "%S+" do
  JOINED["--" .. name] = "="
end

--- What the words on the command line ask for: the parser's table, with what stands behind
-- "--" as the list `command`, nil if there is no "--".
function M.parse(words)
  local ours, command = {}, nil
  for i, word in ipairs(words) do
    local option, value = word:match "^(%-%-[a-z-]+)=?(.*)$"
    if command then
      command[#command + 1] = word
    elseif word == "--" then
      command = {}
    elseif REFUSED[option] then
      if option ~= SKIP_TLS_VERIFY or booleans[value] ~= false then
        refuse(nil, option .. ": " .. REFUSED[option])
      end
    elseif word:find "^%-%.?%d" and JOINED[words[i - 1]] then
      ours[#ours] = ours[#ours] .. JOINED[words[i - 1]] .. word
    else
      ours[#ours + 1] = spelt_out(word, words[i + 1])
    end
  end
  local parser = new(command ~= nil)
  local args = parser:parse(ours)
  args.command = command
  args.parser = parser
  args.refuse = function(message)
    refuse(args.subcommand, message)
  end
  if command and not RUNS[args.subcommand] then
    args.refuse(args.subcommand .. " runs nothing: nothing may stand behind --")
  end
  return args
end

return M
