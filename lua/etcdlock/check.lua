--- How arguments are checked. A wrong type or an unknown name is a mistake in
-- the program and raises, at the line that called us; a value that can't work
-- is answered with nil, message, "invalid". Both name the field and the value,
-- unless it is a secret.
local characters = require "etcdlock.characters"
local numbers = require "etcdlock.numbers"

local M = {}

local SECRET = { -- of connect
  password = true,
  token = true,
  key_pem = true,
  ETCDCTL_PASSWORD = true,
  ETCDCTL_USER = true,
}

--- Does `value` look like a PEM text, as it is or in base64, rather than a file's name?
function M.is_pem_text(value)
  return value:find "[\r\n]" or value:find("-----BEGIN", 1, true) or value:find "^LS0tLS1CRUdJTi"
end

-- Is the value of connect's `field` a secret, or does it contain one by mistake?
local function is_secret(field, value)
  return SECRET[field] or type(value) == "string"
    and (M.is_pem_text(value) or field == "user" and value:find(":", 1, true))
end

--- A field's value as it is shown in a message.
local function show(where, field, value)
  if (where == "etcdlock.connect" or where == "resty.etcdlock.connect")
      and is_secret(field, value) then
    return "(not shown)"
  elseif type(value) == "string" then
    return characters.quote(#value > 60 and value:sub(1, 60) .. "..." or value)
  end
  return numbers.text(value)
end

local HERE = debug.getinfo(1, "S").source:match("^(.*)check%.lua$")
local RESTY = HERE and HERE:gsub("etcdlock/$", "resty/etcdlock.lua")

local function is_ours(info)
  return info.what == "tail" or info.source:sub(1, #HERE) == HERE or info.source == RESTY
end

--- Raises `text`, as one line, with the position of the nearest caller that isn't etcdlock
-- itself. (A fixed level would count tail calls, which the Luas do differently.)
local function raise(text)
  local level = 2
  text = characters.clean(text)
  if not HERE then -- loaded from bytecode without names
    error(text, 0)
  end
  local info = debug.getinfo(level, "S")
  while info and is_ours(info) do
    level = level + 1
    info = debug.getinfo(level, "S")
  end
  error(text, level)
end

M.raise = raise

local function raise_type(where, field, value, wanted)
  raise(string.format("%s: %s = %s, wanted %s", where, field, show(where, field, value), wanted))
end

--- nil, message, "invalid" for a value that isn't what is `wanted`.
function M.invalid(where, field, value, wanted)
  local shown = show(where, field, value)
  local text = string.format("%s: %s = %s, wanted %s", where, field, shown, wanted)
  return nil, characters.clean(text), "invalid"
end

-- The options of a call that was given none; like those that it is given, only read.
local NONE = {}

--- Raises unless opts is a table (or nil) whose fields are all in `known`,
-- which maps names to the name of a type, or to "any". `elsewhere` says of names
-- that are another call's options where they belong. Returns the table.
function M.types(where, opts, known, elsewhere)
  if opts == nil then
    return NONE
  end
  if type(opts) ~= "table" then
    raise(string.format("%s: options are a table, got %s", where, type(opts)))
  end
  for field, value in pairs(opts) do
    local wanted = known[field]
    if wanted == nil then
      local shown, place = show(where, nil, field), elsewhere[field]
      raise(place and string.format("%s: option %s belongs to %s", where, shown, place)
        or string.format("%s: unknown option %s", where, shown))
    elseif wanted ~= "any" and type(value) ~= wanted then
      raise_type(where, tostring(field), value, "a " .. wanted)
    end
  end
  return opts
end

-- ---- methods ----

local function checked(class, call, method)
  return function(self, ...)
    if getmetatable(self) ~= class then
      raise(string.format("%s: it is called with a colon, %s(…), not with a dot", call, call))
    end
    return method(self, ...)
  end
end

--- Has the public methods of `class` raise if they are called with a dot, or with
-- something else in front of the colon. Its objects are called `name` in messages.
-- Returns the class.
function M.methods(class, name)
  for field, method in pairs(class) do
    if type(method) == "function" and not field:find "^_" then
      class[field] = checked(class, name .. ":" .. field, method)
    end
  end
  return class
end

-- ---- values ----

--- Is low <= value <= high? Not if it is NaN.
function M.is_within(value, low, high)
  return value >= low and value <= high
end

--- Raises unless `value` is a string.
function M.string(where, field, value)
  if type(value) ~= "string" then
    raise_type(where, field, value, "a string")
  end
end

--- Raises unless `value` is a number.
function M.number(where, field, value)
  if type(value) ~= "number" then
    raise_type(where, field, value, "a number")
  end
end

--- Raises unless `value` is a function or can be called.
function M.callable(where, field, value)
  local meta = getmetatable(value)
  if type(value) ~= "function" and not (type(meta) == "table" and meta.__call) then
    raise_type(where, field, value, "a function")
  end
end

--- Raises unless `value` is a number of at least 0, or nil.
function M.seconds(where, field, value)
  if value ~= nil and not (type(value) == "number" and value >= 0) then
    raise_type(where, field, value, "0 or more seconds")
  end
end

--- Raises unless `value` is a number above 0, and not infinite.
function M.some_seconds(where, field, value)
  if type(value) ~= "number" or not (value > 0 and value < math.huge) then
    raise_type(where, field, value, "more than 0 seconds and not inf")
  end
end

return M
