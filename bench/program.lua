-- Runs the main function of a program of bench/, and ends the program.

local Etcd = require "spec.support.servers.etcd"
local Nginx = require "spec.support.servers.nginx"
local proc = require "spec.support.programs.proc"
local temporary = require "spec.support.harness.temporary"

--- Runs main(), stops all processes that it has started, removes the temporary files, and ends the
-- program. If main() raises an error or returns false, the exit status is 1, otherwise 0.
return function(main)
  local ok, result = xpcall(main, debug.traceback)
  Nginx.stop_all()
  Etcd.stop_all()
  temporary.remove_all()
  proc.shut_down()
  if not ok then io.stderr:write(tostring(result), "\n") end
  os.exit(ok and result ~= false and 0 or 1)
end
