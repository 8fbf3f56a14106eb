-- Tests the flash sale in nginx (examples/flash_sale.lua) and the nginx configuration that users
-- copy: examples/openresty/minimal.conf.
-- Needs: no sanitizer.

-- Seconds; the TTL in a sale. On a busy machine a worker may stand still, so the TTL is long there.
local TTL = wait.ttl(6)

-- The demo runs on LuaJIT and loads the same modules as its nginx.
local ENV = {
  LUA_PATH = "lua/?.lua;lua/?/init.lua;./?.lua;;",
  LUA_CPATH = "build/jit-test/?.so;;",
}

local function demo(directory, ...)
  return { "luajit", "examples/flash_sale.lua", "nginx", ... },
    clients.with(ENV, { TMPDIR = directory })
end

describe("the flash sale in nginx", function()
  it("oversells without the lock and sells exactly the stock with it", function()
    local directory = temporary.directory()
    local argv, env = demo(directory, "101", "60", tostring(TTL))
    local out, code, err = proc.run(argv, { env = env, seconds = 120 })
    assert.same({ "", 0 }, { err, code }, out)
    sale.assert_sold(out, 101, 60, TTL)
    assert.matches("\n  /ping requests +%d+ +%d+ +%d+\n", out)
    sale.assert_nothing_left(directory)
  end)

  it("exits with status 1 after SIGINT and leaves no process or file", function()
    local directory = temporary.directory()
    local child = proc.talk(demo(directory, "1500", "300"))
    child:expect("^without lock +1500 of 1500 served", 60)
    wait.eventually(function() -- 8: etcd, 2 nginx masters, 4 workers, the crowd
      return sale.count_processes(directory) == 8
    end, 1, "the second sale")
    child:kill "sigint"
    assert.equal(1, (child:wait()))
    assert.equal("\ninterrupted\n", child:errors())
    sale.assert_nothing_left(directory)
  end)

  it("leaves no process after SIGKILL", function()
    local directory = temporary.directory()
    local child = proc.talk(demo(directory, "500", "300"))
    child:expect("^without lock +500 of 500 served", 60)
    child:kill "sigkill"
    child:wait()
    wait.eventually(function() return sale.count_processes(directory) == 0 end, 10, "their end")
  end)
end)

describe("the complete nginx configuration", function()
  -- Returns |text| with the first |from| replaced by |to|; fails if there is none.
  local function replaced(text, from, to)
    local before, after = text:find(from, 1, true)
    assert(before, from .. " is not there")
    return text:sub(1, before - 1) .. to .. text:sub(after + 1)
  end

  -- Writes the configuration |text| to |directory|/nginx.conf with the paths of this checkout, the
  -- port |own_port|, the endpoint of |etcd|, no access log, and temporary files in |directory|. The
  -- rest is unchanged.
  local function configure(text, directory, own_port, etcd)
    local lua = uv.cwd() .. "/lua/?"
    text = replaced(text, "/usr/local/share/lua/5.1/?.lua", lua .. ".lua")
    text = replaced(text, "/usr/local/share/lua/5.1/?/init.lua", lua .. "/init.lua")
    text = replaced(text, "/usr/local/lib/lua/5.1/", uv.cwd() .. "/build/jit-test/")
    text = replaced(text, "127.0.0.1:2379", etcd:endpoint())
    text = replaced(text, "127.0.0.1:8080", "127.0.0.1:" .. own_port)
    local places = { "http {", "access_log off;" }
    for _, kind in ipairs { "client_body", "proxy", "fastcgi", "uwsgi", "scgi" } do
      table.insert(places, ("%s_temp_path %s/%s;"):format(kind, directory, kind))
    end
    text = replaced(text, "http {", table.concat(places, "\n"))
    write_file(directory .. "/nginx.conf", text)
  end

  it("minimal.conf serves its locations /with_lock and /resty_lock without a Lua error", function()
    local etcd, own_port = Etcd.start { tls = false }, port.free()
    local directory = temporary.directory()
    configure(assert(read_file "examples/openresty/minimal.conf"), directory, own_port, etcd)
    local nginx = proc.talk({
      "nginx", "-p", directory, "-c", directory .. "/nginx.conf", "-e", "stderr",
      "-g", "daemon off; user root; pid nginx.pid;",
    }, { ETCDCTL_ENDPOINTS = etcd:endpoint() })
    finally(function()
      nginx:kill "sigterm"
      nginx:wait()
    end)
    wait.eventually(function() return http.get(own_port, "/").status end, 10, "nginx answers")
    assert.matches("^token %d+\n$", http.get(own_port, "/with_lock").body)
    assert.matches("^waited [%d.e-]+ s\n$", http.get(own_port, "/resty_lock").body)
    assert.is_nil(nginx:errors():match "%[error%].*lua.*", nginx:errors())
  end)
end)
