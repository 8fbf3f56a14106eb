-- Temporary directories of a test.

local proc = require "spec.support.programs.proc"
local uv = require "luv"

local M = {}

local directories = {}

-- A new one below |parent| (TMPDIR), until remove_all.
function M.directory(parent)
  parent = parent or os.getenv "TMPDIR" or "/tmp"
  local path = assert(uv.fs_mkdtemp(parent .. "/etcdlock-XXXXXX"))
  table.insert(directories, path)
  return path
end

-- For after_each.
function M.remove_all()
  for i, path in ipairs(directories) do
    directories[i] = nil
    proc.run { "rm", "-rf", path }
  end
end

return M
