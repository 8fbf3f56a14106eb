-- Sees whether two are inside of the same lock at once: within this process by a
-- flag, and among several by a file that only one of them can create.

local uv = require "luv"

local Witness = {}
Witness.__index = Witness

local PRIVATE = tonumber("600", 8)

--- |marks|: the directory that the processes share; nil if there is one only.
function Witness.new(marks)
  return setmetatable({ marks = marks, inside = {}, broken = 0 }, Witness)
end

local function create(path)
  local file = uv.fs_open(path, "wx", PRIVATE)
  return file and uv.fs_close(file)
end

--- Called by whoever holds lock |number|.
function Witness:enter(number)
  if self.inside[number] or self.marks and not create(self.marks .. "/" .. number) then
    self.broken = self.broken + 1
  end
  self.inside[number] = true
end

--- Called before it is released.
function Witness:leave(number)
  if self.marks then uv.fs_unlink(self.marks .. "/" .. number) end
  self.inside[number] = nil
end

return Witness
