--- The command line: subcommands, options, and their help.
local EXIT = require("etcdlock.command.report").EXIT
local BOOLEANS = require("etcdlock.text").BOOLEANS
local escape = require("etcdlock.text").escape
local format_number = require("etcdlock.text").format_number
local report = require "etcdlock.command.report"
local to_number = require("etcdlock.text").to_number

local M = {}

-- WIDTH: columns of the help text. MARGIN: the column in which the descriptions of options begin.
local WIDTH, MARGIN = 79, 21

-- ---- values ----

-- Returns a function with which argparse converts the text of the option or argument `name`. The
-- function returns parse(text) if that is a number from `low` to `high`. Otherwise it returns nil
-- and a message, in which `wanted` describes the valid values.
local function within(name, parse, wanted, low, high)
  return function(text)
    local value = parse(text)
    if not value or not (value >= low and value <= high) then
      return nil, string.format("%s: '%s', wanted %s", name, text, wanted)
    end
    return value
  end
end

-- Returns the whole number that `text` contains; nil if `text` is not a whole number.
local function to_whole(text)
  local value = to_number(text)
  return value and value % 1 == 0 and math.floor(value) or nil
end

-- Unit of a duration -> the seconds in one unit.
local UNITS = { [""] = 1, s = 1, m = 60, h = 3600, d = 86400 }

-- Returns the seconds of the duration `text`, which is a number of seconds or a number with a unit.
-- Returns nil if `text` is not a duration.
local function to_seconds(text)
  local amount, unit = text:match "^(.-)([smhd]?)$"
  local value = to_number(amount)
  return value and value * UNITS[unit]
end

local LONGEST = 1e9 -- seconds

-- Returns a function with which argparse converts a duration from `low` to `high` seconds (default:
-- LONGEST).
local function seconds(name, low, high)
  high = high or LONGEST
  local wanted = ("%s to %.0f seconds, in a form like 90, 90s, 15m, 1h or 1d")
    :format(format_number("%g", low), high)
  return within(name, to_seconds, wanted, low, high)
end

-- Returns a function with which argparse converts the period of --once-per. For the word "ever" the
-- function returns math.huge.
local function period(name)
  local convert = seconds(name, 1)
  return function(text)
    if text == "ever" then
      return math.huge
    end
    local value, message = convert(text)
    return value, message and message .. ", or ever"
  end
end

local function whole(name, high)
  return within(name, to_whole, ("a whole number from 1 to %.0f"):format(high), 1, high)
end

-- ---- options ----

-- Adds the options for the connection to etcd, which all subcommands take.
local function add_connection(parser)
  parser:group("Options for etcd, as in etcdctl; an option overrides its variable",
    parser:option "--endpoints"
      :argname "LIST"
      :description "members (ETCDCTL_ENDPOINTS; default: 127.0.0.1:2379)",
    parser:option "--cacert"
      :argname "FILE"
      :description "CAs to trust (ETCDCTL_CACERT; default: the system's)",
    parser:option "--cert"
      :argname "FILE"
      :description "client certificate (ETCDCTL_CERT; default: none)",
    parser:option "--key"
      :argname "FILE"
      :description "private key of --cert (ETCDCTL_KEY; default: none)",
    parser:option "--user"
      :argname "NAME[:PASSWORD]"
      :description "user in etcd (ETCDCTL_USER; default: none)",
    parser:option "--password"
      :argname "PASSWORD"
      :description "visible to local users; prefer ETCDCTL_PASSWORD",
    parser:option "--insecure-transport"
      :argname "BOOL"
      :choices { "true", "false" }
      :description ("false: use TLS for endpoints without a scheme"
        .. " (ETCDCTL_INSECURE_TRANSPORT)"),
    parser:option "--server-name"
      :argname "NAME"
      :description "name in etcd's certificate (default: its address)",
    parser:flag "--allow-plaintext-auth"
      :description "send a password in plain text to other machines",
    parser:option "--prefix"
      :argname "TEXT"
      :description "put before NAME; not for break, and for ls only with --runs (default: empty)")
end

-- Adds the options of the subcommands that run a command under a lock.
local function add_hold(command)
  command:option "--timeout"
    :argname "S"
    :convert(seconds("--timeout", 0))
    :description "seconds to wait; 0: try once (default: no limit)"
  command:option "--ttl"
    :argname "S"
    :convert(seconds("--ttl", 2, 300))
    :description "TTL of the lease in seconds, 2 to 300 (default: 10)"
  command:option "--max-hold"
    :argname "S"
    :convert(seconds("--max-hold", 0.001))
    :description "seconds until CMD gets TERM (default: no limit)"
  command:option "--grace"
    :argname "S"
    :default "5"
    :convert(seconds("--grace", 0))
    :description "seconds from TERM to KILL"
  command:option "--lock-delay"
    :argname "S"
    :convert(seconds("--lock-delay", 0, 300))
    :description "seconds for which a lost lock stays taken, 0 to 300 (default: --grace)"
  command:option "-E"
    :argname "N"
    :target "timeout_status"
    :default(tostring(EXIT.TIMEOUT))
    :convert(within("-E", to_whole, "an exit status, 0 to 255", 0, 255))
    :description "exit status if CMD need not run; 0: no message then"
  command:flag "-q --quiet"
    :description "print nothing but errors"
end

-- ---- subcommands ----

local NO_TIMEOUT = "Without --timeout, the wait ends if etcd has never answered: after 5 s if it is"
  .. " known why (connections are refused, for example), at the latest after 30 s.\n"
local EPILOG = "The options for etcd (etcdlock --help) are valid here, too."
local DURATIONS = "S is a number of seconds, or has a unit: 90, 90s, 15m, 1h, 1d."

local function add_run(parser)
  local command = parser:command "run"
    :summary "run a command while a lock is held"
    :description("Waits for the lock NAME, runs CMD while it is held, and exits with CMD's status."
      .. " If the lock is lost, CMD gets TERM, and KILL after --grace.\n\n"
      .. "Example:\n   etcdlock run nightly --once-per 1d echo 'once a day, on one machine'")
    :epilog(DURATIONS .. "\n" .. NO_TIMEOUT .. EPILOG)
    :usage "Usage: etcdlock run NAME [OPTION...] [--] CMD [ARG...]"
  command:argument "NAME":target "name":description "name of the lock"
  command:mutex(
    command:flag "--shared"
      :description "take a read lock: many readers, or one writer",
    command:option "--permits"
      :argname "N"
      :convert(whole("--permits", 1000))
      :description "take one of N permits, 1 to 1000, of a semaphore",
    command:option "--once-per"
      :argname "S"
      :convert(period "--once-per")
      :description "run CMD unless it has succeeded in this period of S; S may be ever")
  command:option "--value"
    :argname "TEXT"
    :description "text for 'etcdlock ls' (default: none)"
  command:option "--at-least"
    :argname "S"
    :convert(seconds("--at-least", 0))
    :description "seconds to keep the lock at least (default: 0)"
  add_hold(command)
end

local function add_ls(parser)
  local command = parser:command "ls"
    :summary "list locks with holders and waiters, or the last runs of jobs"
    :description("Lists the locks whose full names begin with PREFIX, with their holders and"
      .. " waiters in the order of the queue. With --runs it lists the last successful runs of"
      .. " 'etcdlock run --once-per' and client:once instead.\n\nExample:\n"
      .. "   etcdlock ls stock/ --watch")
    :epilog(DURATIONS .. "\n" .. EPILOG)
  command:argument "PREFIX":target "below":args "?"
    :description "beginning of the names (default: empty)"
  command:flag "--runs":description "list last runs: name, end, age, duration, host, pid"
  command:flag "-w --watch":description "repeat the list until Ctrl-C"
  command:option "--interval"
    :argname "S"
    :default "1"
    :convert(seconds("--interval", 0.1))
    :description "seconds between two lists of --watch"
  command:mutex(
    command:flag "--json":description "print JSON; with --watch, one line each time",
    command:flag "--names":description "print the names alone, one on each line")
end

local function add_break(parser)
  local command = parser:command "break"
    :summary "take a lock from its holder"
    :description("Takes the lock NAME from the holder with the fencing token TOKEN. 'etcdlock ls'"
      .. " shows both. Exits with 1 if that token does not hold the lock. The holder"
      .. " finds out that it has lost the lock.\n\nExample:\n   etcdlock break nightly 69")
    :epilog(EPILOG)
  command:argument "NAME":target "name":description "full name of the lock"
  command:argument "TOKEN":target "token":convert(whole("TOKEN", 2 ^ 53))
    :description "fencing token of the holder"
end

local function add_elect(parser)
  local command = parser:command "elect"
    :summary "run a command while it leads, or print the leaders"
    :description("Waits to become the leader of the election NAME, publishes VALUE, runs CMD while"
      .. " it leads, and exits with CMD's status.\n"
      .. "With --listen it prints the key and the value of the leader, one line each, now and"
      .. " after each change; if there is no leader any more, 'nobody leads' and an empty line;"
      .. " if etcd has not answered for the TTL, 'leader unknown' and an empty line."
      .. " A leader or a value that is soon replaced may be skipped.\n\n"
      .. "Example:\n   etcdlock elect scheduler 10.0.0.1:80 sleep 60")
    :epilog(DURATIONS .. "\n" .. NO_TIMEOUT .. EPILOG)
    :usage("Usage: etcdlock elect NAME VALUE [OPTION...] [--] CMD [ARG...]\n"
      .. "       etcdlock elect --listen [--json] NAME")
  command:argument "NAME":target "name":description "name of the election"
  command:argument "VALUE":target "value":args "?"
    :description "text for observers, such as an address"
  command:flag "-l --listen":description "print the leaders until Ctrl-C"
  command:flag "--json":description "with --listen: print one line of JSON each time"
  add_hold(command)
end

local function add_doctor(parser)
  local command = parser:command "doctor"
    :summary "check the settings and etcd, and print remedies"
    :description("Prints the source of each setting and the state of each member, acquires and"
      .. " releases a test lock, and prints a remedy for each problem. Exits with 0 if there is no"
      .. " problem, else with 1.\n\n"
      .. "Example:\n   etcdlock doctor --prefix etcdlock/ --data stock/1001")
    :epilog(EPILOG)
  command:option "--data"
    :argname "KEY"
    :count "*"
    :description "key of lock:get and lock:put that the user must have rights to; repeatable"
end

local function add_completion(parser)
  local command = parser:command "completion"
    :summary "print the completion for a shell"
    :description("Prints the code that completes this command in SHELL: bash, fish or"
      .. " zsh.\n\nExample:\n   eval \"$(etcdlock completion bash)\"")
  command:argument "SHELL":target "shell":choices { "bash", "fish", "zsh" }:description "the shell"
end

local SUBCOMMANDS = { add_run, add_ls, add_break, add_elect, add_doctor, add_completion }

-- ---- the parser ----

-- For each subcommand that runs a command: the number of arguments, such as NAME, between the
-- subcommand and the command to run.
local RUNS = { run = 1, elect = 2 }

-- Prints `message` and how to see the help of `subcommand` (nil: the help of etcdlock), and exits.
local function refuse(subcommand, message)
  message = message:gsub("\n", ". ")
  io.stderr:write(string.format("etcdlock: %s\nTry 'etcdlock %s--help'.\n",
    escape(message), subcommand and subcommand .. " " or ""))
  os.exit(EXIT.USAGE)
end

-- Subcommand that other tools have -> what to write instead.
local OTHER_COMMANDS = {
  list = "write: etcdlock ls",
  lock = "write: etcdlock run NAME -- CMD",
  status = "etcdlock ls lists the locks, etcdlock doctor checks etcd",
  unlock = "a lock ends with its command; etcdlock break NAME TOKEN ends it earlier",
}

-- Option of flock -> the option of etcdlock run with the same meaning.
local FLOCK_OPTIONS = { ["-n"] = "--timeout 0", ["-s"] = "--shared", ["-w"] = "--timeout S" }

-- Returns argparse's `message` about wrong words of `subcommand` (nil: none yet), with the remedy
-- if one is known.
local function add_remedy(subcommand, message)
  local name = message:match "^unknown command '([^']*)'$"
  local option = message:match "^unknown option '([^']*)'"
  if OTHER_COMMANDS[name] then
    return message .. "; " .. OTHER_COMMANDS[name]
  elseif subcommand == "run" and FLOCK_OPTIONS[option] then
    return ("unknown option '%s'; for flock's %s write %s"):format(option, option,
      FLOCK_OPTIONS[option])
  elseif name then
    return ("%s; to run a command under the lock %s, write: etcdlock run %s -- cmd")
      :format(message, name, name)
  end
  return message
end

-- Replaces the action of --help. argparse's own exits with 0 even if the help cannot be written.
local function replace_help(parser)
  parser._options[parser._help_option_idx]:action(function()
    os.exit(report.print_text(parser:get_help() .. "\n"))
  end)
end

-- The module with the notices of the libraries in the executable. The Lua script does not have it.
local LICENSES = "etcdlock.command.licenses"

--- Returns a new argparse parser of the whole command line.
function M.new()
  local parser = require "argparse" "etcdlock"
    :description("Distributed locks in etcd, for a shell.\n\n"
      .. "Example:\n   etcdlock run stock/1001 echo 'one at a time'")
    :epilog "'etcdlock SUBCOMMAND --help' lists its options. The manual: man etcdlock."
    :help_max_width(WIDTH)
    :usage_max_width(WIDTH)
    :help_description_margin(MARGIN)
    :command_target "subcommand"
  parser.error = function(of, message)
    local subcommand = of ~= parser and of._name or nil
    refuse(subcommand, add_remedy(subcommand, message))
  end
  parser:flag "--version"
    :description "print the version, and exit"
    :action(function()
      os.exit(report.print_text("etcdlock " .. require "etcdlock"._VERSION .. "\n"))
    end)
  if package.preload[LICENSES] then
    parser:flag "--licenses"
      :description "print the licences of all that is in this program, and exit"
      :action(function()
        os.exit(report.print_text(require(LICENSES)))
      end)
  end
  for _, add in ipairs(SUBCOMMANDS) do
    add(parser)
  end
  replace_help(parser)
  for _, command in ipairs(parser._commands) do
    replace_help(command)
  end
  add_connection(parser)
  return parser
end

-- ---- the words ----

-- Options of etcdctl that etcdlock refuses, the first one unless it is false -> reason and remedy.
local SKIP_TLS_VERIFY = "--insecure-skip-tls-verify"
local REFUSED = {
  [SKIP_TLS_VERIFY] = "TLS verification cannot be disabled; give etcd's CA with --cacert",
  ["--discovery-srv"] = "discovery by DNS SRV is not supported; give --endpoints",
}

local INSECURE_TRANSPORT = "--insecure-transport"

-- Returns `word` in a form that argparse accepts. `next_word` is the next word of the command line.
-- The function changes only the option --insecure-transport. argparse requires the value "true" or
-- "false" for this option. etcdlock also accepts the two forms of etcdctl, a Go program:
--   --insecure-transport     without a value, it means --insecure-transport=true
--   --insecure-transport=T   the value may be any word of BOOLEANS, here "T" for "true"
-- A `next_word` "true" or "false" is the value of the option: then `word` is not changed.
local function normalize_flag(word, next_word)
  local value = word:match "^%-%-insecure%-transport=(.*)$"
  if word == INSECURE_TRANSPORT and next_word ~= "true" and next_word ~= "false" then
    value = "true"
  end
  if BOOLEANS[value or ""] == nil then
    return word
  end
  return ("%s=%s"):format(INSECURE_TRANSPORT, tostring(BOOLEANS[value]))
end

--- Returns a set: the options that take a value, of `parser` and of all subcommands.
function M.list_value_options(parser)
  local found = {}
  local function add(part)
    for _, option in ipairs(part._options) do
      for _, alias in ipairs(option._aliases) do
        found[alias] = option._maxargs > 0 or nil
      end
    end
  end
  add(parser)
  for _, command in ipairs(parser._commands) do
    add(command)
  end
  return found
end

-- If the value of the option `word` is the next word of the command line, returns the text that
-- joins both to one word: "=" for a long option (--grace=5), "" for a short option (-E5). Otherwise
-- returns nil. `takes_value` is the result of list_value_options.
local function find_joint(word, takes_value)
  if word:find "^%-%-" then
    return takes_value[word] and "="
  end
  for i = 2, #word do -- "-qE9" stands for -q and -E 9
    if takes_value["-" .. word:sub(i, i)] then
      return i == #word and "" or nil
    end
  end
end

-- Splits the command line `words` into two lists, and returns both: the words for argparse, and the
-- words of the command to run (nil: there is no such command). The command to run begins after
-- "--". For a subcommand in RUNS it may also begin at a word that is neither an option, nor the
-- value of an option, nor an argument of the subcommand. All later words belong to it, too.
local function split(words, takes_value)
  local ours, command = {}, nil
  local joint -- find_joint of the previous word; nil: `word` is not the value of an option
  local subcommand, arguments = nil, 0
  for i, word in ipairs(words) do
    local option, value = word:match "^(%-%-[a-z-]+)=?(.*)$"
    local is_number = word:find "^%-%.?%d"
    if command then
      command[#command + 1] = word
    elseif word == "--" then
      command = {}
    elseif joint and is_number then -- argparse would take -5 for an option
      ours[#ours], joint = ours[#ours] .. joint .. word, nil
    elseif REFUSED[option] then
      if option ~= SKIP_TLS_VERIFY or BOOLEANS[value] ~= false then
        refuse(nil, option .. ": " .. REFUSED[option])
      end
    elseif word:find "^%-." then
      ours[#ours + 1] = normalize_flag(word, words[i + 1])
      joint = find_joint(ours[#ours], takes_value)
    elseif not joint and RUNS[subcommand] == arguments then
      command = { word }
    else
      ours[#ours + 1] = word
      if not joint then
        arguments = subcommand and arguments + 1 or 0
        subcommand = subcommand or word
      end
      joint = nil
    end
  end
  return ours, command
end

--- Parses the words of the command line. Prints a message and exits if they are wrong.
-- @return argparse's table, with two more fields. `command` is a list: the words of the command to
--   run; it is empty if no word follows "--", and nil if there is neither such a command nor "--".
--   refuse(message) prints a usage error and exits
function M.parse(words)
  local parser = M.new()
  local ours, command = split(words, M.list_value_options(parser))
  local args = parser:parse(ours)
  args.command = command
  args.refuse = function(message)
    refuse(args.subcommand, message)
  end
  if command and not RUNS[args.subcommand] then
    args.refuse(args.subcommand .. " runs no command; leave out -- and the words after it")
  end
  return args
end

return M
