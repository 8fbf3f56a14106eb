-- Tests answers that announce a length of 4 GB and do not end.
-- Needs: one plain member.

-- Regression 277. gRPC checks the length of an answer only when the answer is whole, and stores
-- what has come until then: the memory of the process grew to 1.6 GB.

-- A proxy in front of the etcd |host|:|port|. It never ends its answer to the first call of the
-- kind |wanted|: "watch" or "unary". It prints "refused" when the client has cancelled that call.
local PROXY = [[
  local uv, host, port, wanted = require "luv", ...
  local DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 3, 4, 6, 8
  local END_STREAM, END_HEADERS, ACK = 1, 4, 1
  local WATCH_CREATE = 10 -- the first byte of a message that creates a watch
  local ZEROS = ("\0"):rep(16384)
  local has_begun = false

  local function to_number(bytes)
    local number = 0
    for i = 1, #bytes do number = number * 256 + bytes:byte(i) end
    return number
  end

  local function to_bytes(number, size)
    return size == 0 and "" or to_bytes(math.floor(number / 256), size - 1)
      .. string.char(number % 256)
  end

  local function frame(kind, flags, stream, payload)
    return to_bytes(#payload, 3) .. string.char(kind, flags) .. to_bytes(stream, 4) .. payload
  end

  local function close(...)
    for _, socket in ipairs { ... } do
      if not socket:is_closing() then socket:close() end
    end
  end

  -- Calls on_frame(kind, flags, stream, payload, frame) for each frame that comes from |from|,
  -- after it has passed |skip| bytes on to |to|.
  local function read_frames(from, to, skip, on_frame)
    local bytes = ""
    from:read_start(function(_, data)
      if not data or to:is_closing() then return close(from, to) end
      bytes = bytes .. data
      if skip > 0 and #bytes >= skip then
        to:write(bytes:sub(1, skip))
        bytes, skip = bytes:sub(skip + 1), 0
      end
      while skip == 0 and #bytes >= 9 do
        local size = 9 + to_number(bytes:sub(1, 3))
        if #bytes < size then break end
        local whole = bytes:sub(1, size)
        bytes = bytes:sub(size + 1)
        on_frame(whole:byte(4), whole:byte(5), to_number(whole:sub(6, 9)), whole:sub(10), whole)
      end
    end)
  end

  local function is_wanted(flags, payload)
    if has_begun then return false end
    local is_last = flags % 2 == END_STREAM
    return wanted == "unary" and is_last
      or wanted == "watch" and not is_last and payload:byte(6) == WATCH_CREATE
  end

  local function serve(near, up)
    local endless -- the stream of the answer without an end; nil: none
    local room = 65535 -- what the client still takes on the connection, and on each stream
    local initial, rooms = 65535, {}

    local function use(stream, size)
      room = room - size
      rooms[stream] = (rooms[stream] or initial) - size
    end

    local function flood()
      while endless and not near:is_closing() and near:get_write_queue_size() < 2 ^ 20 do
        local size = math.min(#ZEROS, room, rooms[endless] or initial)
        if size <= 0 then return end
        use(endless, size)
        near:write(frame(DATA, 0, endless, ZEROS:sub(1, size)), flood)
      end
    end

    local function begin(stream)
      local head = "\0\255\255\255\255" -- a message of 4 GB that is not compressed
      has_begun, endless = true, stream
      near:write(frame(HEADERS, END_HEADERS, stream, "\136\0\12content-type\16application/grpc"))
      use(stream, #head)
      near:write(frame(DATA, 0, stream, head))
      flood()
    end

    read_frames(near, up, 24, function(kind, flags, stream, payload, whole)
      if kind == DATA and is_wanted(flags, payload) then
        return begin(stream)
      elseif kind == SETTINGS then
        for i = 1, #payload, 6 do
          if to_number(payload:sub(i, i + 1)) == 4 then
            initial = to_number(payload:sub(i + 2, i + 5))
          end
        end
      elseif kind == PING and flags ~= ACK then
        return near:write(frame(PING, ACK, 0, payload)) -- etcd allows few pings
      elseif kind == WINDOW_UPDATE then
        local size = to_number(payload)
        if stream == 0 then
          room = room + size
        else
          rooms[stream] = (rooms[stream] or initial) + size
        end
        if endless then return flood() end
      elseif kind == RST_STREAM and stream == endless then
        endless = nil
        print "refused"
      end
      up:write(whole)
    end)
    read_frames(up, near, 0, function(kind, _, stream, payload, whole)
      if kind == DATA then use(stream, #payload) end
      near:write(whole)
    end)
  end

  uv.new_signal():start("sigpipe", function() end)
  local server = uv.new_tcp()
  assert(server:bind("127.0.0.1", 0))
  assert(server:listen(64, function()
    local near, up = uv.new_tcp(), uv.new_tcp()
    server:accept(near)
    up:connect(host, tonumber(port), function() serve(near, up) end)
  end))
  local stdin = uv.new_pipe(false)
  stdin:open(0)
  stdin:read_start(function() os.exit(0) end)
  print("port " .. server:getsockname().port)
  uv.run()
]]

-- How much the memory of this process may grow, in bytes: gRPC may use 128 MiB.
local GROWTH = 300 * 2 ^ 20

client_options { ttl = 60 }

-- Starts the proxy. Returns a client of it, and a function that asserts that the client ends the
-- first call of the kind |wanted|, and that the memory of this process does not grow meanwhile.
local function connect_to_proxy(wanted)
  local host, port = suite.endpoint():match "//(.*):(%d+)$"
  local proxy = proc.lua(PROXY, host, port, wanted)
  local endpoint = "http://127.0.0.1:" .. proxy:expect "^port (%d+)"
  local before = uv.resident_set_memory()
  return connect { endpoints = endpoint }, function()
    local grown = 0
    wait.eventually(function()
      grown = math.max(grown, uv.resident_set_memory() - before)
      return proxy.lines[1] == "refused" or grown > GROWTH
    end, 20, "the client refuses the answer")
    assert.is_true(grown <= GROWTH, ("%.0f MiB"):format(grown / 2 ^ 20))
  end
end

after_each(clear_etcd)

it("a call whose answer has no end is sent again, and takes little memory", function()
  local client, assert_refused = connect_to_proxy "unary"
  local pending = assert(client:lock_async "a")
  assert_refused()
  assert.is_true(clients.granted(pending):unlock())
end)

it("a waiter whose watch gets an answer without an end gets its lock", function()
  local client, assert_refused = connect_to_proxy "watch"
  local lock = assert(other:lock "a")
  local waiter = assert(client:lock_async "a")
  assert_refused()
  clients.assert_wait(waiter)
  assert.is_true(lock:unlock())
  assert.is_true(clients.granted(waiter):unlock())
end)
