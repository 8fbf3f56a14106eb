--- Texts for a terminal. Names, values and messages may come from anybody who may write to
-- etcd, so nothing in them may steer the terminal, or turn what is read around.
local characters = require "etcdlock.characters"

local M = {}

local STDERR = 2

-- Controls (C1), line ends, marks and overrides of the direction of writing.
local STEERING = {
  "^\194[\128-\159]", "^\216\156", "^\226\128[\142\143\168-\174]", "^\226\129[\166-\169]",
}

-- What stands for a character: itself, or if it steers, replacement(sequence).
local function without_steering(replacement)
  return function(sequence)
    for _, pattern in ipairs(STEERING) do
      if sequence:find(pattern) then
        return replacement(sequence)
      end
    end
    return sequence
  end
end

local function escaped(bytes)
  return (bytes:gsub(".", function(byte)
    return ("\\x%02x"):format(byte:byte())
  end))
end

--- `text` with every byte that isn't to be shown as \x1b, and the like: control characters,
-- what is no UTF-8, and what changes the direction of writing.
function M.clean(text)
  return characters.replace(text, "^[\32-\126]+", without_steering(escaped), escaped)
end

-- As JSON has it, for a character of two or three bytes.
local function json_escaped(sequence)
  local first, second, third = sequence:byte(1, 3)
  local code = third and (first % 16 * 64 + second % 64) * 64 + third % 64
    or first % 32 * 64 + second % 64
  return ("\\u%04x"):format(code)
end

--- The same for JSON, in which only texts have other than plain characters, and control
-- characters are escaped already.
function M.clean_json(json)
  return characters.replace(json, "^[%z\1-\127]+", without_steering(json_escaped), function()
    return "\\ufffd"
  end)
end

--- How many columns a clean text takes: a character each.
function M.width(text)
  return select(2, text:gsub("[^\128-\191]", ""))
end

-- What the module's fields are called on the command line.
local FIELDS = {
  name = "NAME", names = "NAME", value = "--value", n = "--permits", endpoint = "--endpoints",
  prefix = "--prefix",
}
for _, field in ipairs {
  "endpoints", "cacert", "cert", "key", "server_name", "user", "password", "ttl", "timeout",
  "max_hold",
} do
  FIELDS[field] = "--" .. field:gsub("_", "-")
end

-- What the module says, and what that is here; of those that begin alike the longer one first.
local WORDS = {
  { "allow_plaintext_auth = true", "--allow-plaintext-auth" },
  { "set cert and key", "give --cert and --key" },
  { "set cacert", "give --cacert" },
  { "set server_name to one of them", "give one of them as --server-name" },
  { "not for server_name (.*); set that to", "not for --server-name %1; give" },
  { "set server_name", "give --server-name" },
  { ' in cert "', ' in "' },
  { ' in cacert "', ' in "' },
}

--- A message of the module, about an option of ours perhaps, which the module knows as a
-- field of a call.
function M.of_module(message)
  for _, row in ipairs(WORDS) do
    message = message:gsub(row[1], row[2])
  end
  local field, rest = message:match "^[a-z]+[:.][a-z_]+: ([a-z_]+)( .*)$"
  if FIELDS[field] then
    return FIELDS[field] .. rest
  end
  return (message:gsub("^etcdlock%.connect: ", ""))
end

local function line_of(text, ...)
  return "etcdlock: " .. M.clean(text:format(...)) .. "\n"
end

--- Says something to whoever has called the command, on standard error.
function M.say(text, ...)
  io.stderr:write(line_of(text, ...))
end

--- The same where luv's loop runs, which must not stand still for one who doesn't read.
function M.say_aside(text, ...)
  require "luv".fs_write(STDERR, line_of(text, ...), -1, function() end)
end

return M
