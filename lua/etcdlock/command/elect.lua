--- etcdlock elect: runs a command while this process leads an election, or prints the leaders.
local EXIT = require("etcdlock.command.report").EXIT
local json = require "etcdlock.json"
local report = require "etcdlock.command.report"
local settings = require "etcdlock.command.settings"
local escape = require("etcdlock.text").escape

local M = {}

-- Texts that are printed without --json in place of a leader. Each has two lines, because a leader
-- has two lines, too: its key and its value. A script can tell them from a key, because each key
-- contains a slash.
local NO_LEADER, UNKNOWN = "nobody leads\n\n", "leader unknown\n\n"
local NO_LEADER_JSON = '{"key":null,"token":null,"value":null%s}'

-- Prints a leader as one line of JSON. `value` is false if there is no leader.
local function print_json(value, key, token, unknown_for)
  local seconds = unknown_for and math.floor(unknown_for)
  local text
  if value then
    text = json.encode { value = value, key = key, token = token, unknown_for = seconds }
  else
    text = NO_LEADER_JSON:format(seconds and (',"unknown_for":%d'):format(seconds) or "")
  end
  return report.print(report.clean_json(text), "\n")
end

-- Prints what observer:next has returned: with --json as one line of JSON, otherwise as two lines,
-- the key and the value, as `etcdctl elect -l` does. Returns nil if the output cannot be written.
local function print_leader(args, is_screen, value, key, token, unknown_for)
  if args.json then
    return print_json(value, key, token, unknown_for)
  elseif unknown_for then
    return report.print(UNKNOWN)
  elseif not value then
    return report.print(NO_LEADER)
  elseif is_screen then
    return report.print(escape(key), "\n", escape(value), "\n")
  end
  return report.print(key, "\n", value, "\n")
end

-- Prints the leader, and again after each change, until the election cannot be observed any more or
-- the output cannot be written. Returns the exit status.
local function listen(args)
  local client, status = settings.connect(args)
  if not client then
    return status
  end
  local is_screen = require "luv".guess_handle(1) == "tty"
  local election, message, code = client:election(args.name)
  local observer, value, key, token, unknown_for
  if election then
    observer = election:observe()
  end
  while observer do
    value, key, token, unknown_for = observer:next()
    if value == nil then
      message, code = key, token
      break
    elseif not print_leader(args, is_screen, value, key, token, unknown_for) then
      break
    end
  end
  client:close()
  return code and settings.fail(message, code) or EXIT.FAILED
end

--- Runs `etcdlock elect`. Returns the exit status.
function M.elect(args)
  if args.listen then
    if args.value or args.command then
      return args.refuse "--listen takes no VALUE and no command; leave them out"
    end
    return listen(args)
  elseif args.json then
    return args.refuse "--json needs --listen; give both, or neither"
  elseif not args.value then
    return args.refuse "missing argument 'VALUE', the text that observers read, such as an address"
  end
  return require "etcdlock.command.run".run_with(args, function(client)
    local election, message, code = client:election(args.name)
    if not election then
      return nil, message, code
    end
    return election:campaign(args.value, { timeout = args.timeout })
  end)
end

return M
