-- What README and the documents show runs as it stands there, and their links lead
-- somewhere.

local Nginx = require "spec.support.servers.nginx"
local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local suite = require "spec.support.harness.suite"
local temporary = require "spec.support.harness.temporary"
local uv = require "luv"

-- Where the documents' etcd is, and ours.
local SHOWN = "127.0.0.1:2379"

local FILES = { "README.md", "src/README.md", "examples/README.md", "bench/README.md" }
for name in uv.fs_scandir_next, assert(uv.fs_scandir "doc") do
  if name:find "%.md$" then FILES[#FILES + 1] = "doc/" .. name end
end

-- The fenced blocks of |language| ("lua", or "lua nginx" for what runs in a
-- content handler), each with its file and the line on which it begins.
local function blocks(language)
  local list = {}
  for _, file in ipairs(FILES) do
    local block, number = nil, 0
    for line in assert(read_file(file)):gmatch "([^\n]*)\n" do
      number = number + 1
      local fence = line:match "^```(.*)"
      if fence and block then
        block = nil
      elseif fence then
        block = { place = ("%s:%d"):format(file, number), text = "" }
        if fence == language then list[#list + 1] = block end
      elseif block then
        block.text = block.text .. line .. "\n"
      end
    end
  end
  return list
end

local function with_our_etcd(text)
  return (text:gsub(SHOWN:gsub("%.", "%%."), (suite.endpoints():gsub("%%", "%%%%"))))
end

after_each(temporary.remove_all)

describe("the documents' Lua", function()
  for _, block in ipairs(blocks "lua") do
    it(block.place .. " runs", function()
      local script = temporary.directory() .. "/snippet.lua"
      local file = assert(io.open(script, "w"))
      file:write(with_our_etcd(block.text))
      file:close()
      local out, code, err = proc.run_lua(script, {}, { env = suite.variables() })
      assert.same({ 0, "" }, { code, err }, out)
      assert.is_nil(out:find "not done")
    end)
  end

  it("is there", function()
    assert.matches("^README.md:", blocks "lua"[1].place)
    assert.is_true(#blocks "lua nginx" >= 1)
    assert.is_truthy(blocks "lua"[1].text:find(SHOWN, 1, true)
      or blocks "lua"[2].text:find(SHOWN, 1, true))
  end)
end)

describe("the documents' Lua for nginx", function()
  for _, block in ipairs(blocks "lua nginx") do
    it(block.place .. " runs in a content handler", function()
      local nginx = Nginx.start {
        main = ("env ETCDCTL_ENDPOINTS=%s;"):format(suite.endpoints()),
        locations = { ["/snippet"] = with_our_etcd(block.text) },
      }
      finally(function() nginx:stop() end)
      local answer = nginx:get "/snippet"
      assert.equal(200, answer.status, nginx:log())
      assert.is_nil(answer.body:find "unavailable", answer.body)
      nginx:assert_no_errors()
    end)
  end
end)

-- The anchor of a heading.
local function slug(heading)
  return (heading:lower():gsub("[^%w%s_-]", ""):gsub("%s", "-"))
end

local function has_heading(file, anchor)
  for heading in assert(read_file(file)):gmatch "\n#+ ([^\n]*)" do
    if slug(heading) == anchor then return true end
  end
  return false
end

describe("the documents' links", function()
  for _, file in ipairs(FILES) do
    it("in " .. file .. " lead to what is there", function()
      for target in assert(read_file(file)):gmatch "%]%(([^)]+)%)" do
        if not target:find "^https?:" then
          local path, anchor = target:match "^([^#]*)#?(.*)$"
          path = path == "" and file or (file:match "^.*/" or "") .. path
          assert(uv.fs_stat(path))
          assert.is_true(anchor == "" or has_heading(path, anchor), target)
        end
      end
    end)
  end

  it("lead from README to every document", function()
    local readme = assert(read_file "README.md")
    for _, file in ipairs(FILES) do
      assert.is_truthy(file == "README.md" or readme:find(("](%s)"):format(file), 1, true), file)
    end
  end)
end)

describe("the way of a name, in the map of the core", function()
  local way = assert(read_file "src/README.md"):match "\n## The way of a name\n(.-)\n## "

  it("names functions that are there, and not too many of them", function()
    local files, functions = {}, 0
    for file, names in way:gsub("\n%d+%. ", "\1"):gmatch "\1`([^`]+)`: ([^\1]+)" do
      local text = assert(read_file(("src/" .. file):gsub("^src/%.%./", "")))
      files[file] = true
      for name in names:gmatch "`([%w_]+)`" do
        assert.is_truthy(text:find("[%s%*:.]" .. name .. "%("), file .. ": " .. name)
        functions = functions + 1
      end
    end
    local count = 0
    for _ in pairs(files) do count = count + 1 end
    assert.is_true(functions > 40 and functions <= 60, functions)
    assert.is_true(count > 10 and count <= 18, count)
  end)
end)
