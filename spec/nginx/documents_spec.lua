-- Runs each nginx Lua block of the documents, unchanged except for the etcd endpoint, in a real
-- nginx.
-- Needs: one plain member, no sanitizer.

describe("the documented nginx code", function()
  for _, block in ipairs(documents.blocks "lua nginx") do
    it("at " .. block.place .. " runs in a content handler without errors", function()
      local nginx = Nginx.start {
        main = ("env ETCDCTL_ENDPOINTS=%s;"):format(suite.endpoints()),
        http = "lua_shared_dict pages 10m;", -- as the recipe for a cache says
        locations = { ["/snippet"] = documents.with_etcd(block.text, suite.endpoints()) },
      }
      local answer = nginx:get "/snippet"
      assert.equal(200, answer.status, nginx:log())
      assert.is_nil(answer.body:find "unavailable", answer.body)
      nginx:assert_no_errors()
    end)
  end
end)
