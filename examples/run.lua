-- Runs an example from the checkout:
--
--   make example NAME=hello [ARGS=...]
--
-- The example uses the etcd of ETCDCTL_ENDPOINTS. If this variable is not set, the example uses the
-- etcd on this machine. If there is no such etcd, this program starts one, and stops it when no
-- example holds a lock or waits for one.

local HERE = arg[0]:match "^(.*)/" or "."
package.path = HERE .. "/?.lua;" .. package.path

local uv = require "luv"
local stage = require "flash_sale.stage"

-- The port of etcd on this machine.
local PORT = tonumber(os.getenv "ETCDLOCK_EXAMPLE_PORT") or 2379

local function quoted(text)
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

local function run_example()
  local words = { quoted(uv.exepath()), quoted(("%s/%s.lua"):format(HERE, arg[1])) }
  for i = 2, #arg do
    words[#words + 1] = quoted(arg[i])
  end
  local code = os.execute(table.concat(words, " "))
  return code == 0 or code == true
end

-- Tells whether no example holds a lock or waits for one: an example in another terminal has a
-- lease from its first lock until it ends. (The observer of `leader` takes no lock.)
local function is_unused()
  local command = "env -i PATH=\"$PATH\" etcdctl --command-timeout=2s"
    .. " --endpoints 127.0.0.1:%d lease list"
  local ctl = assert(io.popen(command:format(PORT)))
  local answer = ctl:read "*a"
  ctl:close()
  return answer:find "found 0 leases"
end

local function with_etcd()
  print(("(There is no etcd on port %d. One runs there until nobody uses it.)"):format(PORT))
  stage.start_etcd(PORT)
  uv.os_setenv("ETCDCTL_ENDPOINTS", "127.0.0.1:" .. PORT)
  local ok = run_example()
  stage.wait(is_unused, 3600, "nobody uses etcd any more")
  return ok
end

if not arg[1] or not uv.fs_stat(("%s/%s.lua"):format(HERE, arg[1])) then
  io.stderr:write("which example? make example NAME=hello, for example\n")
  os.exit(2)
end
local ok
if os.getenv "ETCDCTL_ENDPOINTS" or stage.can_connect(PORT) then
  ok = run_example()
else
  ok = stage.run(with_etcd)
end
os.exit(ok and 0 or 1)
