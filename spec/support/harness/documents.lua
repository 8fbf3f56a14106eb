-- Reads the documents and their fenced blocks. The text after the three backquotes says how a block
-- is tested, with the address of the test's etcd in place of that in the documents:
--
--   lua                   run it
--   lua nginx             run it in a content handler
--   sh                    run it in a shell, after the preceding blocks of its chapter
--   LANGUAGE FILE.NAME    write it to that file, for the shell of its chapter
--   text printed          compare it with the output of the preceding block ("…": any text)
--   text printed, but for numbers
--                         compare it with that output, ignoring numbers
--   sh run by FILE, …     each of its commands occurs in one of these files, which are run
--   LANGUAGE not run: …   do not test it, for this reason

local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local suite = require "spec.support.harness.suite"
local temporary = require "spec.support.harness.temporary"
local uv = require "luv"
local write_file = require "bench.write_file"

local M = {}

M.FILES = {
  "README.md", "CHANGELOG.md", "SECURITY.md", "src/README.md", "examples/README.md",
  "bench/README.md",
}
for name in uv.fs_scandir_next, assert(uv.fs_scandir "doc") do
  if name:find "%.md$" then M.FILES[#M.FILES + 1] = "doc/" .. name end
end

-- The address of etcd in the documents.
M.ETCD = "127.0.0.1:2379"

-- Returns |text| with |endpoints| in place of ETCD.
function M.with_etcd(text, endpoints)
  return (text:gsub(M.ETCD:gsub("%.", "%%."), (endpoints:gsub("%%", "%%%%"))))
end

-- Runs the Lua of |block| with |endpoints|, after the Lua text |before| (nil: none). Results are
-- those of proc.run_lua.
function M.run_lua(block, endpoints, before)
  local script = temporary.directory() .. "/snippet.lua"
  write_file(script, (before or "") .. M.with_etcd(block.text, endpoints))
  return proc.run_lua(script, {}, { env = suite.variables() })
end

-- Parses the text after the backquotes. Returns the kind of the block and its argument; nil and
-- |info| if the kind is unknown.
local function kind_of(info)
  local reason = info:match "^%l+ not run: (%S.*)$"
  if reason then return "not run", reason end
  local files = info:match "^sh run by (%S.*)$"
  if files then return "run elsewhere", files end
  local name = info:match "^%l+ ([%w_-]+%.[%w_.-]+)$"
  if name then return "file", name end
  if ({ lua = true, ["lua nginx"] = true, sh = true })[info] then return info end
  local but = info:match "^text printed(.*)$"
  if but == "" or but == ", but for numbers" then return "printed", but ~= "" and "numbers" end
  return nil, info
end

-- Returns the blocks of |text|, the contents of |file|: a list of { kind (nil if unknown),
-- argument, chapter (heading), text, place ("FILE:LINE") }.
function M.blocks_of(file, text)
  local list, block, chapter, number = {}, nil, "", 0
  for line in text:gmatch "([^\n]*)\n" do
    number = number + 1
    local info = line:match "^%s*```(.*)"
    if info and block then
      block = nil
    elseif info then
      block = { place = ("%s:%d"):format(file, number), chapter = chapter, text = "" }
      block.kind, block.argument = kind_of(info)
      list[#list + 1] = block
    elseif block then
      block.text = block.text .. line .. "\n"
    else
      chapter = line:match "^## (.*)" or chapter
    end
  end
  return list
end

-- Returns the blocks of all documents; only those of |kind| if it is not nil.
function M.blocks(kind)
  local list = {}
  for _, file in ipairs(M.FILES) do
    for _, block in ipairs(M.blocks_of(file, assert(read_file(file)))) do
      if not kind or block.kind == kind then list[#list + 1] = block end
    end
  end
  return list
end

return M
