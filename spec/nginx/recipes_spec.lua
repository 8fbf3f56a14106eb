-- Tests the nginx cache recipe of doc/recipes.md under concurrent requests. documents_spec.lua
-- runs the recipe only once.
-- Needs: one plain member, no sanitizer.

local REQUESTS = 10 -- to each nginx server, at the same time

-- Returns the recipe's code.
local function find_recipe()
  for _, block in ipairs(documents.blocks "lua nginx") do
    if block.place:find "^doc/recipes.md" then return block.text end
  end
end

-- Starts nginx with the recipe |text|, which counts in |dictionary| the pages that it has made.
local function start(text, dictionary)
  return Nginx.start {
    workers = 2,
    main = ("env ETCDCTL_ENDPOINTS=%s;"):format(suite.endpoints()),
    http = "lua_shared_dict pages 10m;",
    locations = {
      ["/news"] = text,
      ["/made"] = ("ngx.print(ngx.shared.%s:get 'made' or 0)"):format(dictionary),
      ["/expired"] = "ngx.print(tostring(select(3, ngx.shared.pages:get_stale 'news')))",
    },
  }
end

describe("the nginx cache recipe", function()
  it("builds the page once for 10 simultaneous requests to each of two servers", function()
    local text = find_recipe()
    local machines = { start(text, "pages"), start(text, "pages") }
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

  it("answers with the expired page at once while one request renders the new one", function()
    -- The test counts `made` in another dictionary. nginx removes an expired page only if it is the
    -- oldest entry of its dictionary, and the counter would be an older entry.
    local text = find_recipe():gsub("pages:incr", "shared:incr"):gsub("cache/news", "cache/expired")
      :gsub("MAX_AGE = ngx.shared.pages, 60", "MAX_AGE = ngx.shared.pages, 1")
      :gsub("ngx.sleep%(0.2%)", "ngx.sleep(3)")
    local nginx = start(text, "shared")
    local old = nginx:get("/news").body
    wait.eventually(function() return nginx:get("/expired").body == "true" end, 5, "it expires")
    local requests, new = { nginx:begin "/news" }, 0
    wait.eventually(function() return nginx:get("/made").body == "2" end, 5, "a request renders")
    for i = 2, REQUESTS do requests[i] = nginx:begin "/news" end
    for _, request in ipairs(requests) do
      request:wait()
      assert.equal(200, request.status)
      assert.matches("^the news of %d+\n$", request.body)
      new = new + (request.body ~= old and 1 or 0)
    end
    assert.equal(1, new)
    assert.equal("2", nginx:get("/made").body)
    nginx:assert_no_errors()
  end)
end)
