-- The documents and their fenced blocks. What follows the three backquotes tells what is
-- done with a block:
--
--   lua                   it runs as it stands there
--   lua nginx             so it does in a content handler
--   sh                    so it does in a shell, after what its chapter has before it
--   LANGUAGE FILE.NAME    it is that file, for the shell of its chapter
--   text printed          what the shell has printed just before ("…" is anything);
--   text printed, but for numbers
--   sh run by FILE, …     each of its commands stands in one of these files, which are run
--   LANGUAGE not run: …   nothing, for this reason

local read_file = require "spec.support.harness.read_file"
local uv = require "luv"

local M = {}

M.FILES = { "README.md", "src/README.md", "examples/README.md", "bench/README.md" }
for name in uv.fs_scandir_next, assert(uv.fs_scandir "doc") do
  if name:find "%.md$" then M.FILES[#M.FILES + 1] = "doc/" .. name end
end

-- Where their etcd is, ...
M.ETCD = "127.0.0.1:2379"

-- ... and |text| with ours at |endpoints| instead.
function M.with_etcd(text, endpoints)
  return (text:gsub(M.ETCD:gsub("%.", "%%."), (endpoints:gsub("%%", "%%%%"))))
end

-- What the words after the backquotes ask for: kind, and what more it says.
local function kind_of(info)
  local reason = info:match "^%l+ not run: (%S.*)$"
  if reason then return "not run", reason end
  local files = info:match "^sh run by (%S.*)$"
  if files then return "run elsewhere", files end
  local name = info:match "^%l+ ([%w_-]+%.[%w_.-]+)$"
  if name then return "file", name end
  if info == "lua" or info == "lua nginx" or info == "sh" then return info end
  local but = info:match "^text printed(.*)$"
  if but == "" or but == ", but for numbers" then return "printed", but ~= "" and "numbers" end
  return nil, info
end

-- The blocks of |text|, which is |file|'s: a list of { kind (nil if unknown), argument,
-- chapter (its heading), text, place }.
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

-- Those of all documents, or of one kind only.
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
