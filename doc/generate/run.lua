--- Makes the types and the reference from the docstrings. The first argument is the file that
-- model.lua has written.
local reference = require "doc.generate.reference"
local types = require "doc.generate.types"

local model = dofile(arg[1])

local function read(path)
  local file = assert(io.open(path))
  local text = file:read "*a"
  file:close()
  return text
end

local function write(path, text)
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
end

for _, file in ipairs(types.FILES) do write(file.path, types.text(model, file)) end
write(reference.FILE, reference.text(model, read(reference.FILE)))
