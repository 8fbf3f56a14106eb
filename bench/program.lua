-- How the programs of bench/ run.

local Etcd = require "spec.support.servers.etcd"
local Nginx = require "spec.support.servers.nginx"
local proc = require "spec.support.programs.proc"
local temporary = require "spec.support.harness.temporary"

--- Runs main(), and ends the program: with what it has started, whatever comes of it, and
-- with status 1 if it fails or returns false.
return function(main)
  local ok, result = xpcall(main, debug.traceback)
  Nginx.stop_all()
  Etcd.stop_all()
  temporary.remove_all()
  proc.shut_down()
  if not ok then io.stderr:write(tostring(result), "\n") end
  os.exit(ok and result ~= false and 0 or 1)
end
