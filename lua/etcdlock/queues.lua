--- All queues of a client's etcd whose names begin with a prefix. Others keep their data in
-- that etcd, too: so keys are listed in pages, without what is in them, and of the names that
-- are found the queues are read. All of it as it stood at one revision.
-- @submodule client
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local names = require "etcdlock.names"
local queue = require "etcdlock.queue"
local snapshots = require "etcdlock.snapshot"

local M = {}

-- So many keys in one answer, so many queues in one transaction (etcd takes 128).
local PAGE, READS = 1000, 100

-- The first key that doesn't begin with `prefix` any more; "\0" is etcd's word for "all".
local function prefix_end(prefix)
  local head = prefix:gsub("\255*$", "")
  return head == "" and "\0" or head:sub(1, -2) .. string.char(head:byte(-1) + 1)
end

-- The names that begin with `prefix`, in order | nil, message, code.
local function list_names(snapshot, prefix)
  local fulls, seen = {}, {}
  local from, to = prefix == "" and "\0" or prefix, prefix_end(prefix)
  repeat
    local txn = snapshot:txn()
    txn:keys(from, to, snapshot.revision, PAGE)
    local results, message, code = snapshot:ask(txn)
    if not results then
      return nil, message, code
    end
    local page = results[1]
    for _, kv in ipairs(page) do
      local name = core.name_of_key(kv.key, kv.lease)
      if name and name:sub(1, #prefix) == prefix and names.is_full(name) and not seen[name] then
        seen[name] = true
        fulls[#fulls + 1] = name
      end
    end
    from = page[1] and page[#page].key .. "\0"
  until #page < PAGE
  table.sort(fulls)
  return fulls
end

-- Adds the queues of `fulls` from the `first` on to `found`: true | nil, message, code.
local function read_some(self, snapshot, fulls, first, found)
  local txn, last = snapshot:txn(), math.min(first + READS - 1, #fulls)
  for i = first, last do
    txn:list(fulls[i] .. "/", fulls[i] .. "0", snapshot.revision)
  end
  local results, message, code = snapshot:ask(txn)
  if not results then
    return nil, message, code
  end
  for i = first, last do
    local kvs = results[i - first + 1]
    local places = queue.read(self, snapshot, fulls[i], kvs)
    found[#found + 1] = {
      name = fulls[i]:sub(#self._prefix + 1),
      places = places,
      other_keys = #kvs - #places,
    }
  end
  return true
end

local function read_all(self, snapshot, prefix)
  local fulls, message, code = list_names(snapshot, prefix)
  if not fulls then
    return nil, message, code
  end
  local found = {}
  for first = 1, #fulls, READS do
    local ok
    ok, message, code = read_some(self, snapshot, fulls, first, found)
    if not ok then
      return nil, message, code
    end
  end
  return found
end

--- What stands in one queue of `client:queues`.
-- @table line
-- @tfield string name without the prefix of the client
-- @tfield {entry,...} places as those of `client:queue`
-- @tfield count other_keys how many keys below the name are no entries; many slow each request

--- Tells who holds and who waits for all locks whose names begin with a prefix, as they
-- stood at one moment. Whoever may not read all keys of etcd is told `denied`, unless it
-- names a prefix that it may read.
-- @function client:queues
-- @tparam[opt=""] string prefix
-- @treturn {line,...} by name
-- @fail a request's: `unavailable`, too, if it can't be read in 5 s
-- @raise for a wrong type
function M:queues(prefix)
  prefix = prefix or ""
  check.string("client:queues", "prefix", prefix)
  local full = self._prefix .. prefix
  if #full > core.NAME_MAX or full:find "%z" then
    local wanted = "at most " .. core.NAME_MAX - #self._prefix .. " bytes, no NUL"
    return check.invalid("client:queues", "prefix", prefix, wanted)
  end
  return snapshots.read(self, self._ask_ends(), function(snapshot)
    return read_all(self, snapshot, full)
  end)
end

return M
