--- Names of locks: which names are allowed, and how messages show them. A full name is a name with
-- the client's prefix in front.
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local escape = require("etcdlock.text").escape
local quote = require("etcdlock.text").quote
local to_string = require("etcdlock.text").to_string

local M = {}

local NAME_MAX, MULTI_MAX, is_name = core.NAME_MAX, core.MULTI_MAX, core.is_name

-- Largest number of bytes of several joined names in a message; a longer text is cut.
local JOINED_MAX = 80

-- Returns nil, message, "invalid" for a name that is not allowed, because the full name ends in
-- `reserved`.
local function refuse_reserved(where, field, reserved, prefix, name)
  local with = name:sub(-#reserved) == reserved and ""
    or string.format(" with the prefix %s", quote(prefix))
  local text = '%s: %s %s%s is reserved: etcdlock keeps the keys of other locks below names that'
    .. ' end in "%s"; choose another name'
  return nil, escape(text:format(where, field, quote(name), with, reserved)), "invalid"
end

--- Returns true if `full_name`, read from etcd, can be the full name of a lock.
M.is_full_name = is_name

-- Raises if `name` is not a string. Otherwise returns nil, message, "invalid" for a name that is
-- not allowed. See add_prefix.
local function refuse(where, prefix, name, field)
  check.string(where, field, name)
  local full_name = prefix .. name
  if name == "" or #full_name > NAME_MAX or full_name:find "%z" then
    return check.invalid(where, field, name, "1 to " .. (NAME_MAX - #prefix) .. " bytes, no NUL")
  end
  return refuse_reserved(where, field, core.reserved_end(full_name), prefix, name)
end

--- Returns the full name: `prefix`, which is the client's prefix, followed by `name`. If a lock
-- cannot have this name, returns nil, message, "invalid". Raises if `name` is not a string. In
-- messages, `where` names the call, and `field` (default: "name") names the argument.
function M.add_prefix(where, prefix, name, field)
  if type(name) == "string" and name ~= "" then
    local full_name = prefix .. name
    if is_name(full_name) then
      return full_name
    end
  end
  return refuse(where, prefix, name, field or "name")
end

--- Returns the list of the full names of `names`. Returns nil, message, "invalid" if a name is not
-- allowed, if a name occurs twice, or if there are no names or too many. Raises if `names` is not a
-- list of strings.
function M.add_prefixes(where, prefix, names)
  if type(names) ~= "table" then
    check.raise(string.format("%s: names = %s, wanted a list of names", where, to_string(names)))
  end
  local full_names, indexes, n = {}, {}, check.length(names)
  if n < 1 or n > MULTI_MAX then
    return check.invalid(where, "#names", n, "1 to " .. MULTI_MAX .. " names")
  end
  for i = 1, n do
    local field, name = string.format("names[%d]", i), names[i]
    local full_name, message, code = M.add_prefix(where, prefix, name, field)
    if not full_name then
      return nil, message, code
    elseif indexes[name] then
      local wanted = "each name once, and it is names[" .. indexes[name] .. "]"
      return check.invalid(where, field, name, wanted)
    end
    full_names[i], indexes[name] = full_name, i
  end
  return full_names
end

--- Returns `prefix`, which is the client's prefix, followed by `below`, the beginning of the names
-- to list. Returns nil, message, "invalid" if no lock can have such a name. Raises if `below` is
-- not a string.
function M.join_prefixes(where, prefix, below)
  check.string(where, "prefix", below)
  local joined = prefix .. below
  if #joined > NAME_MAX or joined:find "%z" then
    local wanted = "at most " .. NAME_MAX - #prefix .. " bytes, no NUL"
    return check.invalid(where, "prefix", below, wanted)
  end
  return joined
end

--- Returns the names with spaces between them, for messages. If there are several names and the
-- text is longer than 80 bytes, the text is cut to 80 bytes, and "..." follows.
function M.join(names)
  if #names == 1 then
    return names[1]
  end
  local text = table.concat(names, " ")
  if #text <= JOINED_MAX then
    return text
  end
  return text:sub(1, JOINED_MAX) .. "..."
end

--- Returns the full name of `lock`, for messages; for a multi-lock, its full names, joined.
function M.full_name_of(lock)
  return lock._full_names and M.join(lock._full_names) or lock._full_name
end

--- Returns the full name of `lock`; of a multi-lock, its first one.
function M.first_of(lock)
  return lock._full_names and lock._full_names[1] or lock._full_name
end

--- Returns the full name of `lock` in quotes, for a message. Messages have full names, because the
-- commands take these: the reader of a message need not know the client's prefix.
function M.quote(lock)
  return quote(M.full_name_of(lock))
end

--- Returns the beginning of a message about a lock with this mode and full name, in the words of
-- the C core: `lock "x"`, or `semaphore "x"` for a permit.
function M.describe(mode, full_name)
  return (mode == "permit" and "semaphore " or "lock ") .. quote(full_name)
end

--- Returns what M.describe returns for `lock`.
function M.describe_lock(lock)
  return M.describe(lock._mode, M.full_name_of(lock))
end

return M
