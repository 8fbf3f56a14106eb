-- Tests answers that announce a length of 4 GB and do not end, and watches that end without a
-- status.
-- Needs: one plain member.

-- Regression 301. gRPC checks the length of an answer only when the answer is whole, and stores
-- what has come until then: the memory of the process grew to 1.6 GB.

-- A proxy in front of the etcd |host|:|port|. It never ends its answer to a call of |method| ("Txn"
-- or "Watch"); if |how| is "once", to the first one only. If |how| is "closed", it ends the first
-- answer, an empty one, without a status. It prints "refused" when the client has cancelled such a
-- call.
local PROXY = [[
  local uv, host, port, method, how = require "luv", ...
  local DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 3, 4, 6, 8
  local END_STREAM, END_HEADERS, ACK = 1, 4, 1
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

  -- A Txn with a compare begins with field 1, and so does a message that creates a watch. In the
  -- latter, the first field inside field 1 is the key, which is field 1 again. A compare has no
  -- field 1, because its result is the default.
  local FIELD_1 = 10
  local function is_wanted(payload)
    return payload:byte(6) == FIELD_1 and (payload:byte(8) == FIELD_1) == (method == "Watch")
      and not (has_begun and how ~= "always")
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
      if how == "closed" then return near:write(frame(DATA, END_STREAM, stream, "")) end
      use(stream, #head)
      near:write(frame(DATA, 0, stream, head))
      flood()
    end

    read_frames(near, up, 24, function(kind, flags, stream, payload, whole)
      if kind == DATA and stream == endless then
        return -- gRPC may end its side of the call in a frame of its own
      elseif kind == DATA and is_wanted(payload) then
        return begin(stream)
      elseif kind == SETTINGS then
        for i = 1, #payload, 6 do
          if to_number(payload:sub(i, i + 1)) == 4 then
            local before = initial
            initial = to_number(payload:sub(i + 2, i + 5))
            for other, size in pairs(rooms) do rooms[other] = size + initial - before end
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
        if endless and how ~= "closed" then return flood() end
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

-- How much the memory of this process may grow, in bytes. Unfinished answers may take 128 MiB, and
-- a sanitizer takes memory for each byte.
local GROWTH = (matrix.is_sanitized and 400 or 200) * 2 ^ 20

local CAUSE = "unfinished answers take more than 128 MiB"

client_options { ttl = 60 }

-- Starts a proxy (see PROXY). Returns its endpoint, and a function that waits until condition() is
-- true (default: the client has refused an answer), and fails if the memory of this process grows
-- meanwhile.
local function start_proxy(method, how)
  local host, port = suite.endpoint():match "//(.*):(%d+)$"
  local proxy = proc.lua(PROXY, host, port, method, how)
  local endpoint = "http://127.0.0.1:" .. proxy:expect "^port (%d+)"
  local before, grown = uv.resident_set_memory(), 0
  return endpoint, function(condition)
    condition = condition or function() return proxy.lines[1] == "refused" end
    wait.eventually(function()
      grown = math.max(grown, uv.resident_set_memory() - before)
      return grown > GROWTH or condition()
    end, 20, "the client refuses the answers")
    assert.is_true(grown <= GROWTH, ("%.0f MiB"):format(grown / 2 ^ 20))
  end
end

-- Connects with |options|. Returns the client, and told(kind, text), which tells whether its log
-- has got an event of the kind |kind| whose message contains |text|.
local function connect_told(options)
  local told = {}
  options.log = function(event) told[#told + 1] = event end
  local client = connect(options)
  return client, function(kind, text)
    assert(client:metrics()) -- delivers the events
    for _, event in ipairs(told) do
      if event.event == kind and event.message:find(text, 1, true) then return true end
    end
    return false
  end
end

after_each(clear_etcd)

it("a call whose answer has no end is sent again, and takes little memory", function()
  local endpoint, await = start_proxy("Txn", "once")
  local pending = assert(connect({ endpoints = endpoint }):lock_async "a")
  await()
  assert.is_true(clients.granted(pending):unlock())
end)

it("a waiter whose watch gets an answer without an end gets its lock", function()
  local endpoint, await = start_proxy("Watch", "once")
  local lock = assert(other:lock "a")
  local waiter = assert(connect({ endpoints = endpoint }):lock_async "a")
  await()
  clients.assert_wait(waiter)
  assert.is_true(lock:unlock())
  assert.is_true(clients.granted(waiter):unlock())
end)

-- Regression 330. gRPC reports no end of a stream whose messages end without a status, as a proxy
-- may end them. The client never watched again, and so noticed changes only by its periodic reads.
it("a waiter whose watch ends without a status gets its lock", function()
  local endpoint, await = start_proxy("Watch", "closed")
  local lock = assert(other:lock "a")
  local waiter = assert(connect({ endpoints = endpoint, ttl = 300 }):lock_async "a")
  await()
  clients.assert_wait(waiter)
  assert.is_true(lock:unlock())
  assert.is_true(clients.granted(waiter):unlock())
end)

it("a client leaves a member whose watches have no end", function()
  local endpoint, await = start_proxy("Watch", "always")
  local lock = assert(other:lock "a")
  local client, told = connect_told { endpoints = { endpoint, suite.endpoint() } }
  local waiter = assert(client:lock_async "a")
  await(function() return told("failover", endpoint:match "//(.*)") end)
  assert.is_true(lock:unlock())
  assert.is_true(clients.granted(waiter):unlock())
end)

-- Near its limit gRPC may also stop to read, so the call ends by its time limit.
it("a client of one member whose answers have no end reports it, and closes at once", function()
  local endpoint, await = start_proxy("Txn", "always")
  local client, told = connect_told { endpoints = endpoint }
  clients.keep(assert(client:lock_async "a"))
  local member = "etcd " .. endpoint:match "//(.*)"
  await(function()
    return told("retry", member .. ": " .. CAUSE) or told("retry", member .. ": no answer")
  end)
  local from = wait.now()
  client:close()
  assert.is_true(wait.now() - from < 0.5 + wait.SLACK)
end)
