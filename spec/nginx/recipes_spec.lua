-- Tests the nginx cache recipe of doc/recipes.md under concurrent requests. documents_spec.lua
-- runs the recipe only once.
-- Needs: one plain member, no sanitizer.

local Nginx = require "spec.support.servers.nginx"
local documents = require "spec.support.harness.documents"
local suite = require "spec.support.harness.suite"

local REQUESTS = 10 -- to each nginx server, at the same time

local function start(text)
  return Nginx.start {
    workers = 2,
    main = ("env ETCDCTL_ENDPOINTS=%s;"):format(suite.endpoints()),
    http = "lua_shared_dict pages 10m;",
    locations = { ["/news"] = text, ["/made"] = "ngx.print(ngx.shared.pages:get 'made' or 0)" },
  }
end

describe("the nginx cache recipe", function()
  it("builds the page once for 10 simultaneous requests to each of two servers", function()
    local text
    for _, block in ipairs(documents.blocks "lua nginx") do
      if block.place:find "^doc/recipes.md" then text = block.text end
    end
    local machines = { start(text), start(text) }
    finally(function()
      for _, nginx in ipairs(machines) do nginx:stop() end
    end)
    local requests, pages, made = {}, {}, 0
    for i = 1, 2 * REQUESTS do requests[i] = machines[i % 2 + 1]:begin "/news" end
    for _, request in ipairs(requests) do
      request:wait()
      assert.equal(200, request.status)
      pages[request.body] = true
    end
    for _, nginx in ipairs(machines) do made = made + tonumber(nginx:get("/made").body) end
    assert.equal(1, made)
    assert.matches("^the news of %d+\n$", (next(pages)))
    assert.is_nil(next(pages, next(pages)), "there are several pages")
  end)
end)
