-- What README shows runs as it stands there.

local Nginx = require "spec.support.nginx"
local proc = require "spec.support.proc"
local read_file = require "spec.support.read_file"
local suite = require "spec.support.suite"
local temporary = require "spec.support.temporary"

-- Where README's etcd is, and ours.
local SHOWN = "127.0.0.1:2379"

local README = assert(read_file "README.md")

-- The fenced blocks of |language| ("lua", or "lua nginx" for what runs in a
-- content handler), with the line on which each begins.
local function blocks(language)
  local list, block, number = {}, nil, 0
  for line in README:gmatch "([^\n]*)\n" do
    number = number + 1
    local fence = line:match "^```(.*)"
    if fence and block then
      block = nil
    elseif fence then
      block = { line = number, text = "" }
      if fence == language then list[#list + 1] = block end
    elseif block then
      block.text = block.text .. line .. "\n"
    end
  end
  return list
end

local function with_our_etcd(text)
  return (text:gsub(SHOWN:gsub("%.", "%%."), (suite.endpoints():gsub("%%", "%%%%"))))
end

after_each(temporary.remove_all)

describe("README's Lua", function()
  for _, block in ipairs(blocks "lua") do
    it("of line " .. block.line .. " runs", function()
      local script = temporary.directory() .. "/snippet.lua"
      local file = assert(io.open(script, "w"))
      file:write(with_our_etcd(block.text))
      file:close()
      local out, code, err = proc.run_lua(script, {}, { env = suite.variables() })
      assert.same({ 0, "" }, { code, err }, out)
    end)
  end

  it("is there", function()
    assert.is_true(#blocks "lua" >= 1)
    assert.is_true(#blocks "lua nginx" >= 1)
    assert.is_truthy(blocks "lua"[1].text:find(SHOWN, 1, true))
  end)
end)

describe("README's Lua for nginx", function()
  for _, block in ipairs(blocks "lua nginx") do
    it("of line " .. block.line .. " runs in a content handler", function()
      local nginx = Nginx.start {
        main = ("env ETCDCTL_ENDPOINTS=%s;"):format(suite.endpoints()),
        locations = { ["/snippet"] = with_our_etcd(block.text) },
      }
      finally(function() nginx:stop() end)
      local answer = nginx:get "/snippet"
      assert.equal(200, answer.status, nginx:log())
      assert.is_nil(nginx:errors()[1])
    end)
  end
end)

describe("README's links", function()
  it("lead to files that are there", function()
    local count = 0
    for target in README:gmatch "%]%(([^)#]+)" do
      if not target:find "^https?:" then
        assert(io.open(target)):close()
        count = count + 1
      end
    end
    assert.is_true(count > 5)
  end)
end)
