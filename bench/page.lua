-- Makes a page of figures. For each element of |list|, tell(element) measures and returns the text
-- of one part. Prints each part at once, and writes all parts to bench/out/NAME.md, for
-- publish.lua.

local proc = require "spec.support.programs.proc"
local write_file = require "bench.write_file"

local OUT = "bench/out"

return function(name, list, tell)
  local texts = {}
  for i, one in ipairs(list) do
    texts[i] = tell(one)
    print(texts[i])
  end
  proc.run { "mkdir", "-p", OUT }
  write_file(("%s/%s.md"):format(OUT, name), table.concat(texts, "\n"))
end
