--- Checks of arguments. A wrong type or an unknown option is misuse and raises an error, with the
-- position of the line that called etcdlock. For a value that is not allowed, most checks return
-- nil, message, "invalid". The messages name the field and show its value, unless the value is a
-- secret.
local quote = require("etcdlock.text").quote
local escape = require("etcdlock.text").escape
local to_string = require("etcdlock.text").to_string

local M = {}

-- Options and variables of `connect` whose values are never shown.
local SECRETS = {
  password = true,
  token = true,
  key_pem = true,
  ETCDCTL_PASSWORD = true,
  ETCDCTL_USER = true,
}

-- The calls that take such values.
local TAKES_SECRETS = {
  ["etcdlock.connect"] = true,
  ["resty.etcdlock.connect"] = true,
  ["client:set_password"] = true,
}

--- Returns a true value if `value` is PEM text, plain or in base64, and not a file name.
function M.is_pem_text(value)
  return value:find "[\r\n]" or value:find("-----BEGIN", 1, true) or value:find "^LS0tLS1CRUdJTi"
end

-- Returns a true value if the value of connect's option `field` is a secret, or may contain one by
-- mistake. `field` is "options" for a value that was given instead of the table of options, and nil
-- for the name of an option.
local function is_secret(field, value)
  return SECRETS[field] or type(value) == "string" and (M.is_pem_text(value)
    or field == "user" and value:find(":", 1, true)
    or field == nil and value:find("@", 1, true)
    or field == "options" and not value:find "^[%w%.:/%-]*:%d+$")
end

-- Returns `value` as a message shows it, at most 60 bytes of a string.
local function show(where, field, value)
  if TAKES_SECRETS[where] and is_secret(field, value) then
    return "(not shown)"
  elseif type(value) == "string" then
    return quote(#value > 60 and value:sub(1, 60) .. "..." or value)
  end
  return to_string(value)
end

local function format_message(where, field, value, wanted)
  return string.format("%s: %s = %s, wanted %s", where, field, show(where, field, value), wanted)
end

local HERE = debug.getinfo(1, "S").source:match("^(.*)check%.lua$")
local RESTY = HERE and HERE:gsub("etcdlock/$", "resty/etcdlock.lua")

-- Name of the code that this library compiles with `load`.
M.CHUNK = "=etcdlock"

-- Returns true if `info` (debug.getinfo) is a function of this library, or of C, such as pcall, or
-- stands for a tail call (Lua 5.1).
local function is_own_code(info)
  return info.what == "tail" or info.what == "C" or info.source == M.CHUNK
    or info.source == RESTY or info.source:sub(1, #HERE) == HERE
end

--- Raises `text`, as one line, with the position of the nearest caller outside etcdlock.
function M.raise(text)
  -- The level of the caller depends on the call, and on how the Lua version counts tail calls.
  local level = 2
  text = escape(text)
  if not HERE then -- bytecode without file names
    error(text, 0)
  end
  local info = debug.getinfo(level, "S")
  while info and is_own_code(info) do
    level = level + 1
    info = debug.getinfo(level, "S")
  end
  error(text, level)
end

--- Returns nil, message, "invalid". The message shows `value`, which `field` does not allow, and
-- `wanted`, a text that describes the allowed values.
function M.invalid(where, field, value, wanted)
  return nil, escape(format_message(where, field, value, wanted)), "invalid"
end

-- ---- options ----
-- An option is declared once, by a table with the fields
--   type       the name of a Lua type; nil: any
--   check      a function (where, field, value) that raises if the type is wrong, also called for
--              nil; may be missing
--   is_valid   a function that returns true if a value of the right type is allowed; may be missing
--   wanted     a description of the values that is_valid accepts, for messages
--   aliases    a list of names that other libraries give such an option, for messages
--   hint       text of the message about an alias; may be missing
--   default    the value if the option is missing

-- The table that M.options returns for a call without options. Nothing changes this table.
local NO_OPTIONS = {}

-- Returns `name` in lower case and without "_", so that maxHold and max_hold are equal.
local function normalize(name)
  return (name:lower():gsub("_", ""))
end

-- Returns the key of `map` that is equal to `field`, except for capitals and "_"; nil if there is
-- none.
local function find_key(map, field)
  for name in pairs(map) do
    if normalize(name) == normalize(field) then
      return name
    end
  end
end

-- Returns the name of the option of which `field` is an alias, or nil.
local function find_by_alias(options, field)
  for name, option in pairs(options) do
    for _, alias in ipairs(option.aliases or {}) do
      if normalize(alias) == normalize(field) then
        return name
      end
    end
  end
end

-- Returns the number of letters to insert, remove, replace or swap with the next one, to make `to`
-- of `from` (the optimal string alignment distance).
local function distance(from, to)
  local last, row = {}, {}
  for j = 0, #to do
    row[j] = j
  end
  for i = 1, #from do
    local before = last
    last, row = row, { [0] = i }
    for j = 1, #to do
      local a, b = from:sub(i, i), to:sub(j, j)
      row[j] = math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a == b and 0 or 1))
      if i > 1 and j > 1 and a == to:sub(j - 1, j - 1) and from:sub(i - 1, i - 1) == b then
        row[j] = math.min(row[j], before[j - 2] + 1)
      end
    end
  end
  return row[#to]
end

-- Returns the option whose name differs least from `field`, at most in a third of the letters of
-- `field`; nil if there is none.
local function find_similar(options, field)
  local best, least
  for name in pairs(options) do
    local n = distance(normalize(field), normalize(name))
    if n <= #field / 3 and (not least or n < least or n == least and name < best) then
      best, least = name, n
    end
  end
  return best
end

-- Returns an example of a table of these options.
local function show_example(options)
  return options.endpoints and '{ endpoints = "127.0.0.1:2379" }'
    or options.timeout and "{ timeout = 5 }" or "{ name = value }"
end

local function raise_unknown(where, field, options, elsewhere)
  if type(field) ~= "string" then
    M.raise(string.format("%s: options[%s] has no name, wanted options with names, such as %s",
      where, to_string(field), show_example(options)))
  end
  local shown, other = show(where, nil, field), find_key(elsewhere, field)
  local meant = find_key(options, field) or not other and find_by_alias(options, field)
  if other and not meant then
    M.raise(string.format("%s: option %s belongs to %s", where, shown, elsewhere[other]))
  end
  local hint = meant and options[meant].hint
  meant = meant or find_similar(options, field)
  hint = hint or meant and "did you mean " .. meant .. "?"
  M.raise(string.format("%s: unknown option %s%s", where, shown, hint and "; " .. hint or ""))
end

--- Returns true if `value` is an object of this library, such as a client.
function M.is_own_object(value)
  local meta = getmetatable(value)
  local name = type(meta) == "table" and rawget(meta, "__name")
  return type(name) == "string" and name:find "^etcdlock%." ~= nil
end

--- Returns `opts`, or an empty table for nil. Raises unless `opts` is nil or a table whose fields
-- are declared in `options` (name -> option) and have the declared types. Raises for an object of
-- this library. `elsewhere` maps options of other calls to the names of these calls, for messages.
function M.options(where, opts, options, elsewhere)
  if opts == nil then
    return NO_OPTIONS
  elseif type(opts) ~= "table" or M.is_own_object(opts) then
    M.raise(format_message(where, "options", opts, "a table such as " .. show_example(options)))
  end
  for field, value in pairs(opts) do
    local option = options[field]
    if not option then
      raise_unknown(where, field, options, elsewhere)
    elseif option.type and type(value) ~= option.type then
      M.raise(format_message(where, tostring(field), value, "a " .. option.type))
    end
  end
  return opts
end

--- Returns the keys of `map`, which are strings, in alphabetical order. The values of options are
-- checked in this order, so that each run reports the same one if several are not allowed.
function M.sorted_keys(map)
  local keys = {}
  for key in pairs(map) do
    keys[#keys + 1] = key
  end
  table.sort(keys)
  return keys
end

--- Returns true if `value` is allowed for an option; nil, message, "invalid" if not. `field` is the
-- name of the option, or of the variable that the value comes from.
function M.value(where, field, value, option)
  if option.is_valid and not option.is_valid(value) then
    return M.invalid(where, field, value, option.wanted)
  end
  return true
end

--- Returns true if low <= value <= high. NaN is not within any limits.
function M.is_within(value, low, high)
  return value >= low and value <= high
end

--- Returns a function for the field `is_valid` of an option, which allows the values from `low` to
-- `high`.
function M.within(low, high)
  return function(value)
    return M.is_within(value, low, high)
  end
end

-- ---- methods ----

local function make_checked(class, call, method)
  return function(self, ...)
    if getmetatable(self) ~= class then
      M.raise(string.format("%s: call it with a colon, %s(…), not with a dot", call, call))
    end
    return method(self, ...)
  end
end

--- Makes the public methods of `class` raise if `self` is not an object of the class, for example
-- because the method was called with a dot. Messages call the object `name`. Returns the class.
function M.methods(class, name)
  for field, method in pairs(class) do
    if type(method) == "function" and not field:find "^_" then
      class[field] = make_checked(class, name .. ":" .. field, method)
    end
  end
  return class
end

-- ---- arguments ----

--- Raises an error about the wrong type of `value`; the message says that `wanted` is allowed.
function M.raise_type(where, field, value, wanted)
  M.raise(format_message(where, field, value, wanted))
end

--- Raises unless `value` is a string.
function M.string(where, field, value)
  if type(value) ~= "string" then
    M.raise_type(where, field, value, "a string")
  end
end

--- Raises unless `value` is a number.
function M.number(where, field, value)
  if type(value) ~= "number" then
    M.raise_type(where, field, value, "a number")
  end
end

local function is_callable(value)
  if type(value) == "function" then
    return true
  end
  local meta = getmetatable(value)
  return type(meta) == "table" and meta.__call ~= nil
end

--- Raises unless `value` is a function, or an object with the metamethod __call. The message says
-- that `wanted` (default: a function) is allowed.
function M.callable(where, field, value, wanted)
  if not is_callable(value) then
    M.raise_type(where, field, value, wanted or "a function")
  end
end

--- Returns the options and the function of a call. The caller of that call has passed `opts` and
-- `fn`, or only a function, which is then `opts`. Raises unless the function is callable.
function M.options_and_function(where, opts, fn)
  if fn == nil and (type(opts) ~= "table" or is_callable(opts)) then
    opts, fn = nil, opts
  elseif is_callable(opts) and not is_callable(fn) then
    M.raise(string.format("%s: the function is the last argument; give the options before it",
      where))
  end
  M.callable(where, "fn", fn)
  return opts, fn
end

--- Raises unless `value` is a number of at least 0, or nil.
function M.seconds(where, field, value)
  if value ~= nil and not (type(value) == "number" and value >= 0) then
    M.raise_type(where, field, value, "0 or more seconds")
  end
end

--- Raises unless `value` is a finite number above 0.
function M.positive_seconds(where, field, value)
  if type(value) ~= "number" or not (value > 0 and value < math.huge) then
    M.raise_type(where, field, value, "more than 0 seconds and not inf")
  end
end

--- Returns the greatest index of `list`. The operator # may return any index that a nil follows; in
-- Lua 5.5 it often returns the first one.
function M.length(list)
  local length = 0
  for index in pairs(list) do
    if type(index) == "number" and index > length then
      length = index
    end
  end
  return length
end

return M
