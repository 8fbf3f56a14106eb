-- Puts the results of the last `make bench`, `make profile` and `make scale` into bench/README.md
-- and doc/performance.md, and draws the charts in bench/charts/: `make bench-report`.

local json = require "dkjson"
local draw = require "bench.draw"
local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local report = require "bench.report"
local write_file = require "bench.write_file"

local CHARTS = "bench/charts/"
local END = "<!-- end of the figures -->\n"

-- Replaces the text between the marks for |command| in the file |page| by |text|.
local function put(page, command, text)
  local old = assert(read_file(page))
  local _, before = old:find(("<!-- figures of %s -->\n"):format(command), 1, true)
  local after = old:find(END, before, true)
  write_file(page, old:sub(1, before) .. text .. old:sub(after))
  print(("%s has the figures of %s"):format(page, command))
end

-- Returns the text that |command| has left in bench/out/|file|; nil if the command was not run.
local function found_by(command, file)
  local text = read_file("bench/out/" .. file)
  if not text then print(("nothing of %s: run it first"):format(command)) end
  return text
end

local text = found_by("make bench", "all/results.json")
if text then
  local results = json.decode(text)
  put("bench/README.md", "make bench", report.markdown(results))
  proc.run { "mkdir", "-p", CHARTS }
  draw(results, function(name, svg) write_file(CHARTS .. name .. ".svg", svg) end)
end
for _, what in ipairs { "profile", "scale" } do
  local command = "make " .. what
  text = found_by(command, what .. ".md")
  if text then put("doc/performance.md", command, text) end
end
proc.shut_down()
