-- Tests the log of a client in an nginx worker.
-- Needs: one plain member.

describe("the log function in nginx", function()
  with_nginx {
    client = false, logs_errors = true,
    init_worker = [[
      local json = require "dkjson"
      client = connect { log = function(event)
        shared:rpush("told", json.encode(event))
        if event.name:find "sleepy$" then ngx.sleep(0.001) end
      end }
    ]],
    locations = {
      ["/lock"] = [[
        local lock = assert(client:lock(ngx.var.arg_name, { timeout = 60 }))
        ngx.sleep(0)
        ngx.say(tostring(lock:unlock()))
      ]],
      ["/keep"] = [[ ngx.say(assert(client:lock "kept"):token()) ]],
      ["/told"] = [[
        pcall(client.try_lock, client, "told")
        ngx.say(shared:lpop "told" or "")
      ]],
    },
  }

  -- Returns the next event of the lock |name|; skips the events of other locks.
  local function next_of(name)
    local event
    wait.eventually(function()
      local text = nginx:get("/told").body
      event = text ~= "\n" and json.decode(text)
      return event and event.name == prefix .. name
    end, 5, "an event of " .. name)
    return event
  end

  it('gets "waiting" during a wait, then "acquired" and "released"', function()
    local held = assert(connect():lock "a")
    local request = nginx:begin "/lock?name=a"
    assert.equal("waiting", next_of "a".event)
    held:unlock()
    assert.equal("true\n", request:wait(10).body)
    assert.equal("acquired", next_of "a".event)
    assert.equal("released", next_of "a".event)
  end)

  it('gets "released" with by = "nginx_request" for a lock that ends with its request', function()
    local token = tonumber(nginx:get("/keep").body)
    assert.equal("acquired", next_of "kept".event)
    local released = next_of "kept"
    assert.same({ "released", "nginx_request", token },
      { released.event, released.by, released.token })
  end)

  it("that tries to wait breaks no lock, and the error is in the error log of nginx", function()
    assert.equal("true\n", nginx:get("/lock?name=sleepy").body)
    assert.equal("acquired", next_of "sleepy".event)
    assert.equal("released", next_of "sleepy".event)
    local errors = nginx:errors()
    assert.matches("the log function of this client failed %(reported once%): .*yield", errors[1])
    assert.equal(1, #errors)
  end)
end)
