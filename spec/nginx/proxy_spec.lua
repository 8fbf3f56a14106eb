-- Tests what a permit across proxy_pass covers, as doc/nginx.md says.
-- Needs: one plain member.

-- The upstream works until the test has let it go.
local CONF = "proxy_pass http://127.0.0.1:$server_port/upstream; proxy_read_timeout %s; %s"

local function proxied(read_timeout, more)
  return {
    access = [[ ngx.ctx.permit = assert(client:semaphore("proxied", 1):try_lock()) ]],
    conf = CONF:format(read_timeout, more),
  }
end

local LOCATIONS = {
  ["/upstream"] = { conf = "lua_check_client_abort off;", content = [[
    shared:incr("working", 1, 0)
    await "may_end"
    shared:incr("working", -1)
    ngx.say "done"
  ]] },
  ["/plain"] = proxied("60s", ""),
  ["/impatient"] = proxied("100ms", ""),
  ["/patient"] = proxied("60s", "proxy_ignore_client_abort on; lua_check_client_abort off;"),
  ["/let"] = [[ shared:set("may_end", ngx.var.arg_it == "go" or nil) ]],
}

with_nginx {
  logs_errors = true, init = [[ shared:set("working", 0) ]], locations = LOCATIONS,
}

local function working() return tonumber(nginx:value "working") end

local function available() return connect():semaphore("proxied", 1):available() end

local function await(what, is_so) wait.eventually(is_so, 10, what) end

before_each(function() nginx:get "/let?it=wait" end)

after_each(function()
  nginx:get "/let?it=go"
  await("the end of the upstream's work", function() return working() == 0 end)
  await("a free permit", function() return available() == 1 end)
end)

describe("a permit across proxy_pass", function()
  it("ends while the upstream works if the HTTP client disconnects", function()
    local request = nginx:begin "/plain"
    await("the upstream's work", function() return working() == 1 end)
    request:abort()
    await("a free permit", function() return available() == 1 end)
    assert.equal(1, working())
  end)

  it("ends while the upstream works after proxy_read_timeout", function()
    assert.equal(504, nginx:get("/impatient").status)
    await("a free permit", function() return available() == 1 end)
    assert.equal(1, working())
  end)

  it("lasts as long as the upstream works with proxy_ignore_client_abort", function()
    local request, other = nginx:begin "/patient", connect()
    await("the upstream's work", function() return working() == 1 end)
    request:abort()
    local semaphore = other:semaphore("proxied", 1)
    assert_fails("timeout", semaphore:lock { timeout = 0.5 })
    nginx:get "/let?it=go"
    assert(semaphore:lock { timeout = 5 }):unlock()
    assert.equal(0, working())
  end)
end)
