--- The names by which callers ask for locks: which they may be, and how they are shown.
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local numbers = require "etcdlock.numbers"
local quote = require("etcdlock.characters").quote

local M = {}

local NAME_MAX, MULTI_MAX = core.NAME_MAX, core.MULTI_MAX

-- What is wanted of a name for whose `reserved` end, with the prefix or without, there are keys
-- of another kind.
local function without_end(reserved, prefix, name)
  local with = name:sub(-#reserved) == reserved and ""
    or string.format("with the prefix %s ", quote(prefix))
  local wanted = 'a name that %sdoes not end in "%s", because etcdlock keeps other keys below "%s";'
    .. " choose another name"
  return wanted:format(with, reserved, reserved)
end

local function has_valid_bytes(full)
  return #full <= NAME_MAX and not full:find "%z"
end

--- Could that be a lock's name with the client's prefix, read from etcd?
function M.is_full(full)
  return full ~= "" and has_valid_bytes(full) and not core.reserved_end(full)
end

-- A lock's name with the client's prefix, or nil, message, "invalid". `field` is what it
-- is called in messages, if not "name".
function M.full(where, prefix, name, field)
  field = field or "name"
  check.string(where, field, name)
  local full = prefix .. name
  if name == "" or not has_valid_bytes(full) then
    local wanted = "1 to " .. (NAME_MAX - #prefix) .. " bytes, no NUL"
    return check.invalid(where, field, name, wanted)
  end
  local reserved = core.reserved_end(full)
  if reserved then
    return check.invalid(where, field, name, without_end(reserved, prefix, name))
  end
  return full
end

-- Several names: the same of each, or nil, message, "invalid".
function M.fulls(where, prefix, names)
  if type(names) ~= "table" then
    check.raise(string.format("%s: names = %s, wanted a list of names", where, numbers.text(names)))
  end
  local fulls, places = {}, {}
  if #names < 1 or #names > MULTI_MAX then
    return check.invalid(where, "#names", #names, "1 to " .. MULTI_MAX .. " names")
  end
  for i = 1, #names do
    local field, name = string.format("names[%d]", i), names[i]
    local full, message, code = M.full(where, prefix, name, field)
    if not full then
      return nil, message, code
    elseif places[name] then
      local wanted = "each name once, and it is names[" .. places[name] .. "]"
      return check.invalid(where, field, name, wanted)
    end
    fulls[i], places[name] = full, i
  end
  return fulls
end

-- So many bytes of several names are shown.
local SHOWN_MAX = 80

-- What a lock of these names is called in messages.
function M.shown(names)
  if #names == 1 then
    return names[1]
  end
  local text = table.concat(names, " ")
  if #text <= SHOWN_MAX then
    return text
  end
  return text:sub(1, SHOWN_MAX) .. "..."
end

return M
