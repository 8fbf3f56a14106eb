-- Tests the cost of queue.
-- Runs alone: it compares CPU times.

-- Regression 086. For each writer, queue searched all keys for the marker key of a downgrade. With
-- 20,000 writers this took 12.6 s of CPU time in the caller's thread, which in nginx is the worker.
local mime = require "mime"

local COUNT, AT_ONCE = 8000, 100

after_each(function()
  clients.close_all()
  etcd:revoke_all()
end)

-- Puts COUNT entries of |mode| into the queue of the lock |name|.
local function put_entries(name, mode)
  local lease = etcd:grant(600)
  for from = 1, COUNT, AT_ONCE do
    local puts = {}
    for i = from, from + AT_ONCE - 1 do
      puts[#puts + 1] = { request_put = {
        key = mime.b64(("%s%s/%s/%s-%x"):format(prefix, name, mode, lease, i)),
        value = mime.b64 '{"host":"h","pid":1,"since":2}',
        lease = etcd.gateway.to_decimal(lease),
      } }
    end
    etcd.gateway:call("/v3/kv/txn", { success = puts })
  end
end

-- Returns the least CPU time of three calls of queue.
local function cpu_of_queue(client, name)
  local least = math.huge
  for _ = 1, 3 do
    collectgarbage()
    local from = os.clock()
    assert.equal(COUNT, #assert(client:queue(name)))
    least = math.min(least, os.clock() - from)
  end
  return least
end

it("queue of 8,000 writers takes little more CPU time than that of as many readers", function()
  put_entries("reads", "read")
  put_entries("written", "write")
  local readers, writers = cpu_of_queue(client, "reads"), cpu_of_queue(client, "written")
  assert.is_true(writers < 4 * readers, ("%.3f s, readers %.3f s"):format(writers, readers))
end)
