-- Tests a request that arrives after its client has sent it again.

-- Regression 036. When the client knew why a member was unreachable, it gave this cause to each
-- request that failed later. If a later connection broke after a request was sent, the client
-- concluded that etcd would never get the request. But the request could still arrive: a late
-- delete could end a later hold.

-- A proxy in front of etcd. Words on its input control it. "tls": from now on it requires TLS.
-- "hold": it keeps the requests of the next connection until one of them names the key |key|
-- twice, and then breaks that connection; later connections pass. "deliver": it sends the kept
-- requests to etcd.
local PROXY = [[
  local uv, host, port, key = require "luv", ...
  local mode, peers, kept, up_kept = "pass", {}, {}, nil

  local function close(socket)
    if not socket:is_closing() then socket:close() end
  end

  local function want_tls(near)
    near:read_start(function(_, data)
      if data and data:byte(1) == 0x16 then near:write "\21\3\1\0\2\2\40" end -- an alert
      close(near)
    end)
  end

  -- Calls on_frame(type, frame) for each frame of HTTP/2 that comes from |socket|.
  local function read_frames(socket, skip, on_frame)
    local bytes = ""
    socket:read_start(function(_, data)
      if not data then return close(socket) end
      bytes = bytes .. data
      while #bytes >= skip + 9 do
        local a, b, c, kind = bytes:byte(skip + 1, skip + 4)
        local len = skip + 9 + a * 65536 + b * 256 + c
        if #bytes < len then break end
        on_frame(kind, bytes:sub(1, len))
        bytes, skip = bytes:sub(len + 1), 0
      end
    end)
  end

  local HEADERS, DATA, SETTINGS = 1, 0, 4

  local function hold(near, up)
    local count = 0
    up_kept = up
    read_frames(near, 24, function(kind, frame)
      if kind ~= HEADERS and kind ~= DATA then return up:write(frame) end
      kept[#kept + 1] = frame
      count = count + (kind == HEADERS and 1 or 0)
      if select(2, frame:gsub(key, "%0")) >= 2 then
        mode = "pass"
        close(near)
        print("broken " .. count)
      end
    end)
    read_frames(up, 0, function(kind, frame)
      if kind == SETTINGS and not near:is_closing() then near:write(frame) end
      if kind == DATA then print "answered" end
    end)
  end

  local function pass(from, to)
    from:read_start(function(_, data)
      if data and not to:is_closing() then return to:write(data) end
      close(from)
      close(to)
    end)
  end

  uv.new_signal():start("sigpipe", function() end)
  local server = uv.new_tcp()
  assert(server:bind("127.0.0.1", 0))
  assert(server:listen(64, function()
    local near, up, as = uv.new_tcp(), uv.new_tcp(), mode
    server:accept(near)
    peers[#peers + 1] = near
    if as == "tls" then return want_tls(near) end
    up:connect(host, tonumber(port), function()
      if as == "hold" then return hold(near, up) end
      pass(near, up)
      pass(up, near)
    end)
  end))
  local stdin = uv.new_pipe(false)
  stdin:open(0)
  stdin:read_start(function(_, word)
    word = word and word:match "%a+" or os.exit(0)
    if word == "deliver" then
      up_kept:write(table.concat(kept))
    else
      mode = word
      for _, near in ipairs(mode == "tls" and peers or {}) do close(near) end
    end
    print "done"
  end)
  print("port " .. server:getsockname().port)
  uv.run()
]]

it("a delete that arrives late does not delete the keys of a later hold", function()
  local host, port = suite.endpoint():match "//(.*):(%d+)$"
  local proxy = proc.lua(PROXY, host, port, (prefix .. "a/"):gsub("%p", "%%%0"))
  local client = connect { endpoints = "http://127.0.0.1:" .. proxy:expect "^port (%d+)", ttl = 60 }
  -- Sends |word| to the proxy and waits until the proxy confirms it.
  local function tell(word)
    proxy:send(word)
    proxy:expect "^done"
  end
  local first = assert(client:multi_lock { "a", "b" })
  tell "tls"
  wait.eventually(function()
    local _, message, code = client:ping()
    return code == "protocol", message
  end, 20, "it is known that TLS is wanted")
  tell "hold"
  first:unlock()
  local count = tonumber((proxy:expect "^broken (%d+)"))
  etcd:await_keys(prefix, 0, 20)
  local second = assert(client:multi_lock { "a", "b" })
  assert.are_not_equal(first:key(), second:key())
  tell "deliver"
  for _ = 1, count do proxy:expect "^answered" end
  assert.equal(2, #etcd:keys(prefix))
  assert.is_true(second:check())
  assert.is_true(second:unlock())
end)
