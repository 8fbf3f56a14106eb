--- What the doctor finds, as it comes: what is good, what is to be known, what is wrong and
-- what to do about it.
local characters = require "etcdlock.characters"
local numbers = require "etcdlock.numbers"
local table_of = require "etcdlock.command.view.table"

local M = {}

local wrongs, has_begun = 0, false

local function write(text, ...)
  io.write(characters.clean(text:format(...)), "\n")
end

--- The head of what follows.
function M.head(text)
  io.write(has_begun and "\n" or "", text, "\n")
  has_begun = true
end

function M.good(text)
  write("  ok     %s", text)
  io.flush()
end

function M.note(text)
  write("  note   %s", text)
  io.flush()
end

--- `remedy` may be nil.
function M.wrong(text, remedy)
  wrongs = wrongs + 1
  write("  WRONG  %s", text)
  if remedy then
    write("         -> %s", remedy)
  end
  io.flush()
end

-- What is shown of a setting, in this order; those that no option of the command gives only
-- if they are set.
local SETTINGS = {
  "endpoints", "cacert", "cert", "key", "server_name", "insecure_transport", "user", "password",
  "allow_plaintext_auth", "prefix",
}
local NOT_SHOWN = "(not shown)"

local function shown(field, value)
  if value == nil or value == "" then
    return "-"
  elseif field == "password" then
    return NOT_SHOWN
  elseif field == "user" then -- who gives a password as well may have one in here
    return (value:gsub(":.*", ":" .. NOT_SHOWN))
  end
  return type(value) == "table" and table.concat(value, ",") or numbers.text(value)
end

--- Each setting, its value, and where it came from; `known` as connect_options.read gives it.
function M.settings(known, args)
  local rows = {}
  for i, field in ipairs(SETTINGS) do
    local option = "--" .. field:gsub("_", "-")
    local name = known.names[field]
    local source = name or "default"
    if name == field then
      source = field == "password" and not args.password and "--user" or option
    end
    rows[i] = { "  " .. option:sub(3), shown(field, known[field]), source }
  end
  io.write(table.concat(table_of({ "  SETTING", "VALUE", "FROM" }, rows, {}), "\n"), "\n")
end

local function milliseconds(seconds)
  return numbers.format("%.1f ms", seconds * 1000)
end

local function megabytes(bytes)
  return numbers.format("%.1f MB", bytes / 1e6)
end

--- A table of client:status's members.
function M.members(members)
  local rows = {}
  for i, member in ipairs(members) do
    local role = member.is_leader and "leader" or member.is_learner and "learner"
      or member.leader_id and "follower" or "-"
    rows[i] = member.version and {
      "  " .. member.endpoint, member.version, role, milliseconds(member.seconds),
      megabytes(member.db_size), megabytes(member.db_in_use), "answers",
    } or { "  " .. member.endpoint, "-", "-", "-", "-", "-", "doesn't answer" }
  end
  local head = { "  ENDPOINT", "VERSION", "ROLE", "ROUND TRIP", "DB SIZE", "IN USE", "HEALTH" }
  local is_number = { [4] = true, [5] = true, [6] = true }
  io.write(table.concat(table_of(head, rows, is_number), "\n"), "\n")
end

--- The last word: true if all is well.
function M.conclude()
  if wrongs == 0 then
    io.write("\nAll is well.\n")
  else
    io.write(("\n%d thing%s wrong.\n"):format(wrongs, wrongs == 1 and " is" or "s are"))
  end
  return wrongs == 0
end

return M
