-- One lock. Start this example in two terminals: the second process waits for the lock until the
-- first one has released it, at most 30 s.

local etcdlock = require "etcdlock"

local client = assert(etcdlock.connect())

local ok, result, code = client:with_lock("hello", { timeout = 30 }, function(lock)
  local _, seconds = lock:held()
  print(("I hold %q with token %d,"):format(lock:name(), lock:token()))
  print(("and may rely on it for %.1f s without asking anybody."):format(seconds))
  print "Press Enter to let go."
  io.read()
  return "done"
end)

if ok then
  print("Released. The function returned: " .. result)
else
  print(("It was not to be (%s): %s"):format(code, result))
end
client:close()
