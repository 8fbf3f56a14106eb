-- with_lock raises an error of its function again, after the release. In nginx and LuaJIT the stack
-- of the error no longer exists at that time. So nginx's log showed only a place in etcdlock.
-- Needs: one plain member.

local Nginx = require "spec.support.servers.nginx"
local suite = require "spec.support.harness.suite"

local prefix = suite.prefix()

describe("regression 123: in nginx, the traceback of an error inside with_lock", function()
  local nginx

  -- Starts nginx; |options| are more options of connect.
  local function start(options)
    nginx = Nginx.start {
      init_worker = ([[
        client = assert(etcdlock.connect { endpoints = %q, prefix = %q, ttl = 5, %s })
      ]]):format(suite.endpoint(), prefix, options),
      locations = {
        ["/nested"] = [[
          local function deep_down() error "on purpose" end
          client:with_lock("a", function()
            client:with_lock("b", function()
              deep_down()
              return nil
            end)
            return nil
          end)
        ]],
        ["/caught"] = [[
          local failure = { "an object" }
          local ok, caught = pcall(client.with_lock, client, "a", function()
            ngx.sleep(0.01)
            error(failure)
          end)
          ngx.say(tostring(ok), " ", tostring(caught == failure), " ", client:stats().held)
        ]],
        ["/told"] = [[ ngx.say(shared:get "told") ]],
      },
    }
  end

  after_each(function() nginx:stop() end)

  local function count(text) return select(2, nginx:log():gsub(text, "")) end

  it("is in the error log, once for nested calls", function()
    start ""
    assert.equal(500, nginx:get("/nested").status)
    assert.equal(1, count('lock "b": the function of with_lock raised an error: [^\n]*on purpose '
      .. "| stack traceback: |[^\n]*in function 'deep_down'"))
    assert.equal(1, count "the function of with_lock raised an error")
    assert.equal("false true 0\n", nginx:get("/caught").body)
    assert.equal(1, count "the function of with_lock raised an error") -- none for an error object
  end)

  it('is in the event "raised" of the log function', function()
    start [[log = function(event)
      if event.event == "raised" then shared:set("told", event.name .. ": " .. event.message) end
    end]]
    nginx:get "/nested"
    assert.matches("^b: .*on purpose\nstack traceback:\n.*in function 'deep_down'",
      nginx:get("/told").body)
    assert.equal(0, count "the function of with_lock raised an error")
  end)
end)
