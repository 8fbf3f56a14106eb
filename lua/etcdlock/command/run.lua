--- etcdlock run: a command under a lock.
local job = require "etcdlock.command.job"

--- Does it: the exit status.
return function(args)
  return job(args, function(client)
    local opts = { timeout = args.timeout, lock_delay = args.lock_delay, value = args.value }
    if args.shared then
      return client:read_lock(args.name, opts)
    elseif not args.permits then
      return client:lock(args.name, opts)
    end
    local semaphore, message, code = client:semaphore(args.name, args.permits)
    if not semaphore then
      return nil, message, code
    end
    return semaphore:lock(opts)
  end)
end
