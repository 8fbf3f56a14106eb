-- The protocol of Redis, for sockets of any kind.

local M = {}

--- Returns the text that sends a command to Redis, as in command("SET", "stock", 1).
function M.command(...)
  local parts = { ("*%d\r\n"):format(select("#", ...)) }
  for _, word in ipairs { ... } do
    word = tostring(word)
    parts[#parts + 1] = ("$%d\r\n%s\r\n"):format(#word, word)
  end
  return table.concat(parts)
end

--- Reads an answer of Redis. read_line() returns the next line without its end, and
-- read_bytes(count) the next bytes; both return nil and a message if they fail.
-- Returns the answer, a string; nil if the value does not exist. Raises an error if Redis answers
-- with one, or if the connection fails.
function M.read_answer(read_line, read_bytes)
  -- The first byte of an answer is its type.
  local kind, rest = assert(read_line()):match "^(.)(.-)\r?$"
  if kind == "-" then error("Redis: " .. rest, 0) end
  if kind ~= "$" then return rest end
  return rest ~= "-1" and assert(read_bytes(tonumber(rest) + 2)):sub(1, -3) or nil
end

return M
