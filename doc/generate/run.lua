--- Makes the types and the reference from the docstrings. The first argument is the file that
-- model.lua has written.
local json = require "dkjson"
local read_file = require "spec.support.harness.read_file"
local reference = require "doc.generate.reference"
local types = require "doc.generate.types"
local write_file = require "bench.write_file"

local model = assert(json.decode(read_file(arg[1])))
for _, file in ipairs(types.FILES) do write_file(file.path, types.text(model, file)) end
write_file(reference.FILE, reference.text(model, read_file(reference.FILE)))
