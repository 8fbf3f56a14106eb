-- Creates temporary directories for a test.

local proc = require "spec.support.programs.proc"
local uv = require "luv"

local M = {}

local directories = {}

-- Creates a directory in |parent| (TMPDIR) and returns its path; remove_all removes it.
function M.directory(parent)
  parent = parent or os.getenv "TMPDIR" or "/tmp"
  local path = assert(uv.fs_mkdtemp(parent .. "/etcdlock-XXXXXX"))
  table.insert(directories, path)
  return path
end

-- Removes the directories; for after_each.
function M.remove_all()
  for i, path in ipairs(directories) do
    directories[i] = nil
    proc.run { "rm", "-rf", path }
  end
end

return M
