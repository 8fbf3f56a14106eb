-- Writes the history of the run for porcupine, a checker of linearizability: one JSON object a line
-- into the file HISTORY. spec/support/go/linearizable.go reads it.
--
-- Fields of every line: `name`, the lock name; `client`; `token`; `from` and `to`, the interval in
-- which the operation took effect; `excused`, true if a fault explains anything that is wrong with
-- it. Times are ns on one clock; times and tokens are strings of digits.
--
--   kind     what                               further fields
--   hold     a grant, between from and to       mode: lock, write, multi, leader, read or permit;
--                                               n: number of permits; ends, ended: the interval in
--                                               which the client stopped counting it as held
--   read     a guarded read of the counter      value
--   write    a guarded write of the counter     value; found, if the write was a transaction that
--                                               has also read; unknown: true if it may never happen
--
-- A hold that was lost ends between the last look that saw it held and the look that did not. A
-- downgrade ends a write hold and begins a read hold.

local json = require "dkjson"
local faults = require "spec.stress.faults"
local loop = require "spec.stress.loop"
local plan = require "spec.stress.plan"

local M = {}

local path = os.getenv "HISTORY"
local file = path and path ~= "" and assert(io.open(path, "w"))

-- Writes a line. Numbers that may exceed 2^53 become strings.
local function write(fields)
  for _, field in ipairs { "from", "to", "ends", "ended" } do
    fields[field] = fields[field] and ("%.0f"):format(fields[field] * 1e9)
  end
  fields.token = ("%.0f"):format(fields.token)
  file:write(json.encode(fields), "\n")
end

-- Writes the |hold|, which ended between the times |ends| and |ended|.
function M.hold(hold, ends, ended)
  if not file or not hold.seen then return end
  for _, name in ipairs(hold.names) do
    write {
      kind = "hold", name = name, client = hold.client.id, token = hold.token, mode = hold.mode,
      n = plan.PERMITS[name], from = hold.asked, to = hold.began, ends = ends, ended = ended,
      excused = (hold.excused or faults.overlap_excuse(hold)) and true or nil,
    }
  end
end

-- Writes an operation on the counter |name| that began at the time |from| and has ended now.
function M.counter(kind, hold, name, from, fields)
  if not file then return end
  fields.kind, fields.name, fields.client, fields.token = kind, name, hold.client.id, hold.token
  fields.from, fields.to = from, loop.now()
  fields.excused = kind == "read" and faults.may_be_stale() or nil
  write(fields)
end

function M.close()
  if file then file:close() end
end

return M
