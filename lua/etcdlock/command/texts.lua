--- What the command says at a terminal, and JSON that is shown there.
local characters = require "etcdlock.characters"

local M = {}

local STDERR = 2

-- As JSON has it, for a character of two or three bytes.
local function json_escaped(sequence)
  local first, second, third = sequence:byte(1, 3)
  local code = third and (first % 16 * 64 + second % 64) * 64 + third % 64
    or first % 32 * 64 + second % 64
  return ("\\u%04x"):format(code)
end

local or_json_escaped = characters.without_steering(json_escaped)

local function unknown()
  return "\\ufffd"
end

--- What characters.clean is for other texts, for JSON, in which only texts have other than plain
-- characters, and control characters are escaped already.
function M.clean_json(json)
  return characters.replace(json, "^[%z\1-\127]+", or_json_escaped, unknown)
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
  "lock_delay",
} do
  FIELDS[field] = "--" .. field:gsub("_", "-")
end

-- What the module says, and what that is here; of those that begin alike the longer one first.
local WORDS = {
  { "allow_plaintext_auth = true", "--allow-plaintext-auth" },
  { "set cert and key", "give --cert and --key" },
  { "give the options user and password", "give --user and --password" },
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
  return "etcdlock: " .. characters.clean(text:format(...)) .. "\n"
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
