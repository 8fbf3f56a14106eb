-- A page of figures, a part for each of |list|, which tell(one) measures and tells: printed as
-- they come, and left in bench/out/ for publish.lua.

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
