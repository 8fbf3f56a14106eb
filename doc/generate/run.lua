--- Writes what is made from the docstrings: doc/reference.md; with a directory as argument, the
-- annotations for LuaLS into that directory.
local model = require "doc.generate.model"
local read_file = require "spec.support.harness.read_file"
local reference = require "doc.generate.reference"
local types = require "doc.generate.types"
local write_file = require "bench.write_file"

local directory = arg[1]
local items = model.read()
if directory then
  for _, file in ipairs(types.FILES) do
    write_file(directory .. "/" .. file.path, types.text(items, file))
  end
else
  write_file(reference.FILE, reference.text(items, read_file(reference.FILE)))
end
