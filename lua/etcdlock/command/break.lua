--- etcdlock break: takes a lock from its holder.
local exit = require "etcdlock.command.exit"
local settings = require "etcdlock.command.settings"

--- Does it: the exit status.
return function(args)
  local client, status = settings.connect(args)
  if not client then
    return status
  end
  local broken, message, code = client:break_lock(args.name, args.token)
  client:close()
  return broken and exit.OK or settings.fail(message, code)
end
