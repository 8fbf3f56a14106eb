--- etcdlock elect: runs a command while it leads, or prints the leaders of an election.
local characters = require "etcdlock.characters"
local exit = require "etcdlock.command.exit"
local job = require "etcdlock.command.job"
local json = require "etcdlock.json"
local settings = require "etcdlock.command.settings"
local texts = require "etcdlock.command.texts"

-- Printed when nobody leads: one line in the place of the key, which always has a slash, and one in
-- the place of the value.
local NOBODY, NOBODY_JSON = "nobody leads\n\n", '{"key":null,"token":null,"value":null}\n'

-- Prints a leader in two lines, as `etcdctl elect -l` does, or as JSON; `value` false: nobody
-- leads. Returns false if the output cannot be written.
local function tell(args, is_screen, value, key, token)
  if not value then
    io.write(args.json and NOBODY_JSON or NOBODY)
  elseif args.json then
    local told = json.encode { value = value, key = key, token = token }
    io.write(texts.clean_json(told), "\n")
  elseif is_screen then
    io.write(characters.clean(key), "\n", characters.clean(value), "\n")
  else
    io.write(key, "\n", value, "\n")
  end
  return io.flush()
end

-- Prints each leader until that fails: the exit status.
local function listen(args)
  local client, status = settings.connect(args)
  if not client then
    return status
  end
  local is_screen = require "luv".guess_handle(1) == "tty"
  local election, message, code = client:election(args.name)
  local observer, value, key, token
  if election then
    observer = election:observe()
  end
  while observer do
    value, key, token = observer:next()
    if value == nil then
      message, code = key, token
      break
    elseif not tell(args, is_screen, value, key, token) then
      break
    end
  end
  client:close()
  return code and settings.fail(message, code) or exit.FAILED
end

--- Does it: the exit status.
return function(args)
  if args.listen then
    if args.value or args.command then
      return args.refuse "--listen only listens: it takes no VALUE, and runs nothing"
    end
    return listen(args)
  elseif args.json then
    return args.refuse "--json is for --listen"
  elseif not args.value then
    return args.refuse "what to say is missing: VALUE"
  end
  return job(args, function(client)
    local election, message, code = client:election(args.name)
    if not election then
      return nil, message, code
    end
    return election:campaign(args.value, { timeout = args.timeout, lock_delay = args.lock_delay })
  end)
end
