-- Tests the socket through which the core wakes waits in nginx. This spec plays the role of nginx,
-- so that sanitizers can check the thread of the socket.

local other, client, core, links

before_each(function()
  other, client = connect(), connect()
  core, links = client._core, {}
end)

after_each(function()
  clients.close_all()
  for _, link in ipairs(links) do link:close() end
end)

-- ---- a connection ----------------------------------------------------------------

local Link = {}
Link.__index = Link

-- Begins a wait without an event; returns its number and the path of the socket.
local function begin()
  local id, _, path = core:begin_nginx_wait()
  return assert(id), assert(path)
end

-- Ends the wait |id|. Returns true if a connection had sent its number and was not answered.
local function finish(id) return (core:end_nginx_wait(id)) end

local function set_alarm(id, seconds) core:begin_nginx_wait(nil, nil, seconds, nil, id) end

local function cancel_alarm(id) core:end_nginx_wait(id, nil, nil, true, nil, true) end

local function open()
  local self = setmetatable({ pipe = uv.new_pipe(false), bytes = 0 }, Link)
  local id, path = begin()
  finish(id)
  self.pipe:connect(path, function(failure)
    assert(not failure, failure)
    self.pipe:read_start(function(broken, data)
      if data then
        self.bytes = self.bytes + #data
      else
        self.ended = broken or "end"
      end
    end)
  end)
  links[#links + 1] = self
  return self
end

function Link:send(text)
  assert(self.pipe:try_write(text) == #text)
  core:receive_numbers()
end

local function digits(id) return ("%016x"):format(id) end

function Link:say(id) self:send(digits(id)) end

function Link:close()
  if not self.pipe:is_closing() then self.pipe:close() end
end

-- Waits until the link has received |bytes| bytes in all. Fails if it has received more.
function Link:await(bytes)
  wait.eventually(function() return self.bytes >= bytes, self.bytes end, 5, bytes .. " bytes")
  assert.equal(bytes, self.bytes)
  return self
end

local function greeted() return open():await(1) end

local function quiet(link, bytes)
  wait.sleep(0.05)
  assert.equal(bytes, link.bytes)
end

-- ---- a lock with a wait that the socket wakes ------------------------------------

-- Requests the lock |name|. Returns the core lock; the number of its wait, which a connection sends
-- to be woken; and whether the wait is armed.
local function ask(name)
  local lock = assert(core:lock(prefix .. name, ""))
  local id, is_armed = core:begin_nginx_wait(lock, "decided")
  return lock, assert(id), is_armed
end

local function held(name) return assert(other:lock(name)) end

-- Requests the lock |name|, which another client holds. Returns this hold, a connection, the core
-- lock and the number of its armed wait.
local function wait_behind(name)
  local theirs, link = held(name), greeted()
  local lock, id, is_armed = ask(name)
  assert.is_true(is_armed)
  return theirs, link, lock, id
end

local function assert_free(name)
  wait.eventually(function() return #other:queue(name) == 0 end, 5, name .. " is free")
end

describe("the wake socket", function()
  it("sends one byte to each new connection, and no more without a wait number", function()
    for _ = 1, 3 do quiet(greeted(), 1) end
  end)

  it("wakes a wait in any order of arming, wait number and grant", function()
    local steps = {
      { "arm", "say", "unlock" }, { "say", "arm", "unlock" }, { "arm", "unlock", "say" },
    }
    for i, order in ipairs(steps) do
      local name = "order" .. i
      local link, theirs, id = greeted(), held(name), begin()
      local lock = assert(core:lock(prefix .. name, ""))
      for _, step in ipairs(order) do
        if step == "arm" then
          assert.same({ id, true }, { core:begin_nginx_wait(lock, "decided", nil, nil, id) })
        elseif step == "say" then
          link:say(id)
        else
          assert(theirs:unlock())
          wait.eventually(function() return lock:wait(0) end)
        end
        if step ~= order[3] then quiet(link, 1) end
      end
      link:await(2)
      assert.is_true(lock:wait(0))
      assert.is_false(finish(id))
      link:close()
      wait.sleep(0.05)
      assert.is_truthy(lock:left())
      assert.is_true(lock:release())
      assert_free(name)
    end
  end)

  it("sends a byte at the alarm of a wait, unless the alarm is cancelled", function()
    local theirs, link, lock, id = wait_behind "limit"
    set_alarm(id, 0.05)
    link:say(id)
    link:await(2)
    assert.is_nil(lock:wait(0))
    set_alarm(id, 60)
    set_alarm(id, 0.03)
    cancel_alarm(id)
    link:say(id)
    quiet(link, 2)
    assert(theirs:unlock())
    link:await(3)
    assert.is_true(lock:wait(0))
  end)

  it("sends one byte for each wait number, also if both an alarm and a grant occur", function()
    local theirs, link, lock, id = wait_behind "once"
    link:say(id)
    set_alarm(id, 0.01)
    link:await(2)
    assert(theirs:unlock())
    wait.eventually(function() return lock:wait(0) end)
    quiet(link, 2)
    link:say(id)
    link:await(3)
    link:say(id)
    quiet(link, 3)
    assert.is_true(finish(id)) -- the number was sent, and not answered
    assert.is_false(finish(id))
    set_alarm(id, 0.01)
    quiet(link, 3)
  end)

  it("cancels the wait of a connection that closes", function()
    local theirs, link, lock, id = wait_behind "left"
    link:say(id)
    wait.eventually(function() return #other:queue "left" == 2 end)
    link:close()
    wait.eventually(function() return lock:wait(0) == false end)
    assert.equal("cancelled", (select(3, lock:wait(0))))
    assert.is_false(finish(id))
    assert(theirs:unlock())
    assert_free "left"
  end)

  it("releases a granted lock if the connection closes before the grant is taken", function()
    local link = greeted()
    local lock, id, is_armed = ask "untaken"
    link:say(id)
    if is_armed then link:await(2) end
    assert.is_true(lock:wait(0))
    link:close()
    assert_free "untaken"
    assert.is_nil(lock:left())
  end)

  it("releases a granted lock if the connection closes before its wait number is read", function()
    local link = greeted()
    local lock, id = ask "unheard"
    wait.eventually(function() return lock:wait(0) end)
    assert(link.pipe:try_write(digits(id)))
    link:close()
    assert_free "unheard"
    assert.is_nil(lock:left())
  end)

  it("accepts a wait number that is sent before the greeting", function()
    for i = 1, 30 do
      local name = "early" .. i
      local theirs = held(name)
      local lock, id, is_armed = ask(name)
      assert.is_true(is_armed)
      local link = open()
      assert(uv.fs_write(link.pipe:fileno(), digits(id))) -- before libuv knows of the connection
      core:receive_numbers()
      assert(theirs:unlock())
      link:await(2)
      assert.is_true(lock:wait(0))
    end
  end)

  it("serves 20 waits one after another on one connection", function()
    local link = greeted()
    for i = 1, 20 do
      local theirs = held "row"
      local lock, id, is_armed = ask "row"
      assert.is_true(is_armed)
      link:say(id)
      assert(theirs:unlock())
      link:await(1 + i)
      assert.is_false(finish(id))
      lock:release()
    end
  end)

  it("serves 20 waits one after another on a connection that sends one wait number", function()
    local link, id = greeted(), begin()
    link:say(id)
    quiet(link, 1)
    for i = 1, 20 do
      local theirs, name = held("kept" .. i), "kept" .. i
      local lock = assert(core:lock(prefix .. name, ""))
      assert.same({ id, true }, { core:begin_nginx_wait(lock, "decided", nil, nil, id) })
      if i > 1 then core:request_byte(id) end
      assert(theirs:unlock())
      link:await(1 + i)
      assert.is_true(lock:wait(0))
      assert.is_false(finish(id))
      lock:release()
      assert_free(name)
    end
  end)

  it("sends no byte between two waits of a connection", function()
    local link, id = greeted(), begin()
    link:say(id)
    assert.is_true(finish(id)) -- the number was received, and not answered
    set_alarm(id, 0.01)
    quiet(link, 1)
    core:request_byte(id) -- the alarm is over
    link:await(2)
    assert.is_false(finish(id))
  end)

  it("releases the lock of a later wait when the connection closes", function()
    local link, id = greeted(), begin()
    link:say(id)
    assert.is_true(finish(id))
    local lock = assert(core:lock(prefix .. "later", ""))
    core:begin_nginx_wait(lock, "decided", nil, nil, id)
    wait.eventually(function() return lock:wait(0) end)
    link:close()
    assert_free "later"
    assert.is_nil(lock:left())
  end)

  it("answers an unknown wait number and an invalid one at once", function()
    local link = greeted()
    link:say(4711)
    link:await(2)
    link:send(("?"):rep(16))
    link:await(3)
    link:send "half of it"
    quiet(link, 3)
    link:close()
    quiet(greeted(), 1)
  end)

  it("answers a second connection at once if it sends the same wait number", function()
    local theirs, one, lock, id = wait_behind "twice"
    local two = greeted()
    one:say(id)
    quiet(one, 1)
    two:say(id)
    two:await(2)
    two:close()
    assert(theirs:unlock())
    one:await(2)
    assert.is_true(lock:wait(0))
  end)

  it("cancels the wait of a connection that sends the wait number of another wait", function()
    local one, link, first, first_id = wait_behind "one"
    local two, _, second, second_id = wait_behind "two"
    link:say(first_id)
    quiet(link, 1)
    link:say(second_id)
    wait.eventually(function() return first:wait(0) == false end)
    assert.equal("cancelled", (select(3, first:wait(0))))
    assert.is_false(finish(first_id))
    assert(one:unlock())
    assert_free "one"
    quiet(link, 1)
    assert(two:unlock())
    link:await(2)
    assert.is_true(second:wait(0))
    assert.is_false(finish(second_id))
    assert.is_true(second:release())
    assert_free "two"
  end)

  it("leaves no lock held and no waiter after 300 connections close in different states", function()
    local waits = {}
    for i = 1, 300 do
      local link, name = open(), "storm" .. i % 7
      local lock, id = ask(name)
      waits[i] = { link = link, lock = lock, id = id }
    end
    wait.eventually(function()
      for _, each in ipairs(waits) do
        if each.link.bytes == 0 then return false end
      end
      return true
    end, 10, "all are greeted")
    for i, each in ipairs(waits) do
      if i % 11 == 0 then
        each.link:send(digits(each.id):sub(1, 8)) -- half of the number
        finish(each.id)
        each.lock:release()
      else
        if i % 3 == 0 then set_alarm(each.id, 0.01) end
        each.link:say(each.id)
      end
      if i % 2 == 0 then each.link:close() end
    end
    for _, each in ipairs(waits) do each.link:close() end
    for i = 0, 6 do assert_free("storm" .. i) end
    wait.eventually(function()
      local stats = client:stats()
      return stats.held + stats.waiting == 0
    end)
  end)

  -- The child may open 100 descriptors. It leaves one of them free, for its end of the connection.
  it("closes a new connection at once if the process has no free descriptor", function()
    local child = proc.talk { "sh", "-c", 'ulimit -n 100; exec "$@"', "sh", uv.exepath(),
      "spec/support/programs/child.lua", [[
        local uv, endpoints, prefix = require "luv", ...
        local etcdlock = require "etcdlock"
        local client = assert(etcdlock.connect { endpoints = endpoints, prefix = prefix })
        assert(client:lock "few"):unlock()
        local path, files = assert(select(3, client._core:begin_nginx_wait())), {}
        for i = 1, 200 do files[i] = uv.fs_open("/dev/null", "r", 0) end
        local function connect()
          uv.fs_close(table.remove(files))
          local pipe = uv.new_pipe(false)
          pipe:connect(path, function(failure)
            if failure then return connect() end
            pipe:read_start(function(broken, data) print(broken or data or "ended") end)
          end)
        end
        connect()
        while uv.run "once" do end
      ]], etcd:endpoints(), prefix }
    assert.equal("ended", child:expect(".+", 2))
    child:destroy()
  end)

  it("closes its connections and ends their waits when the client is closed", function()
    local theirs, link, lock, id = wait_behind "closed"
    local idle, forgotten = greeted(), ask "forgotten" -- no connection sends its number
    link:say(id)
    client:close()
    wait.eventually(function() return link.ended and idle.ended end, 5, "the end")
    assert.equal("closed", (select(3, lock:wait(0))))
    assert.is_nil(forgotten:left())
    assert.is_false(finish(id))
    assert.equal("closed", (select(3, core:begin_nginx_wait())))
    assert.is_true((theirs:check()))
  end)
end)
