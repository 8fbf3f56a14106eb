-- The end of a program of the benchmark, and the rows that it was asked for.

local Etcd = require "spec.support.servers.etcd"
local proc = require "spec.support.programs.proc"
local temporary = require "spec.support.harness.temporary"

local M = {}

--- Returns an iterator over the words in the environment variable |name|; if it is unset or empty,
-- over those of |default|.
function M.words(name, default)
  local text = os.getenv(name) or ""
  return (text ~= "" and text or default):gmatch "%S+"
end

--- Tells whether ROWS is unset or empty, or one of its words is a part of |title|.
function M.is_wanted(title)
  for word in M.words("ROWS", title) do
    if title:find(word, 1, true) then return true end
  end
end

--- Runs |fn|, stops all that it has started, and ends the program.
function M.run(fn)
  io.stdout:setvbuf "line"
  local ok, failure = xpcall(fn, debug.traceback)
  Etcd.stop_all()
  temporary.remove_all()
  proc.shut_down()
  if not ok then io.stderr:write(tostring(failure), "\n") end
  os.exit(ok and 0 or 1)
end

return M
