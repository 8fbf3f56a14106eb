-- Creates temporary directories for a test.

local proc = require "spec.support.programs.proc"
local uv = require "luv"
local write_file = require "bench.write_file"

local M = {}

local directories = {}

-- Creates a directory in |parent| (TMPDIR) and returns its path; remove_all removes it.
function M.directory(parent)
  parent = parent or os.getenv "TMPDIR" or "/tmp"
  local path = assert(uv.fs_mkdtemp(parent .. "/etcdlock-XXXXXX"))
  table.insert(directories, path)
  return path
end

-- Writes the shell code |text| to |path|, as an executable file.
function M.program(path, text)
  write_file(path, "#!/bin/sh\n" .. text .. "\n")
  assert(uv.fs_chmod(path, tonumber("755", 8)))
end

-- Returns how many directories there are, for remove_all.
function M.open()
  return #directories
end

-- Removes the directories, except the first |spared| (0).
function M.remove_all(spared)
  for i = #directories, 1 + (spared or 0), -1 do
    proc.run { "rm", "-rf", directories[i] }
    directories[i] = nil
  end
end

return M
