-- Puts the results of the last run of all rows into bench/README.md, and its chart into
-- bench/charts: `make bench-report`.

local json = require "dkjson"
local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local report = require "bench.report"
local write_file = require "bench.write_file"

local PAGE = "bench/README.md"
local END = "<!-- end of the figures -->\n"

-- Replaces the text between the marks for |what| in the page by |text|.
local function put(what, text)
  local old = assert(read_file(PAGE))
  local _, before = old:find(("<!-- figures of %s -->\n"):format(what), 1, true)
  local after = old:find(END, before, true)
  write_file(PAGE, old:sub(1, before) .. text .. old:sub(after))
  print(("%s has the figures of %s"):format(PAGE, what))
end

local text = read_file "bench/out/all/results.json"
if text then
  local results = json.decode(text)
  put("make bench", report.markdown(results))
  put("a hold", report.costs(results, {
    free = true, names = true, processes_2 = true, command = true,
  }, { etcdlock = true, go = true, command = true, script = true, etcdctl = true }))
  local chart = read_file "bench/out/all/beside_go.svg"
  if chart then write_file("bench/charts/beside_go.svg", chart) end
else
  print "There are no results of all rows: run make bench first."
end
proc.shut_down()
