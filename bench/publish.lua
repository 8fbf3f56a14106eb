-- The figures of the last `make bench`, put into bench/README.md and the charts beside
-- it: `make bench-report`.

local cjson = require "cjson"
local draw = require "bench.draw"
local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local report = require "bench.report"
local write_file = require "bench.write_file"

local RESULTS, PAGE, CHARTS = "bench/out/all/results.json", "bench/README.md", "bench/charts/"
local BEGIN, END = "<!-- figures -->\n", "<!-- end of the figures -->\n"

local results = cjson.decode((assert(read_file(RESULTS), "run `make bench` first")))
local page = assert(read_file(PAGE))
local _, before = page:find(BEGIN, 1, true)
local after = page:find(END, 1, true)
write_file(PAGE, page:sub(1, before) .. report.markdown(results) .. page:sub(after))
proc.run { "mkdir", "-p", CHARTS }
draw(results, function(name, svg) write_file(CHARTS .. name .. ".svg", svg) end)
print(("%s and %s have the figures of %s"):format(PAGE, CHARTS, RESULTS))
