-- A witness counts how often two owners hold the same lock at once. A flag detects this within one
-- process. Between processes, a file detects it: only one process can create the file of a lock.

local uv = require "luv"

local Witness = {}
Witness.__index = Witness

local PRIVATE = tonumber("600", 8)

--- Returns a new witness. |marks|: the directory for the files; nil if there is only one process.
-- `broken` is the number of violations so far.
function Witness.new(marks)
  return setmetatable({ marks = marks, inside = {}, broken = 0 }, Witness)
end

local function create(path)
  local file = uv.fs_open(path, "wx", PRIVATE)
  return file and uv.fs_close(file)
end

--- An owner calls this when it has taken lock |number|.
function Witness:enter(number)
  if self.inside[number] or self.marks and not create(self.marks .. "/" .. number) then
    self.broken = self.broken + 1
  end
  self.inside[number] = true
end

--- The owner calls this before it releases lock |number|.
function Witness:leave(number)
  if self.marks then uv.fs_unlink(self.marks .. "/" .. number) end
  self.inside[number] = nil
end

return Witness
