--- Texts that others have written, character by character, where what is no UTF-8 would spoil
-- a page, a log or a terminal.
local M = {}

-- Unicode's characters from 128 on, in UTF-8.
local SEQUENCES = {
  "^[\194-\223][\128-\191]",
  "^\224[\160-\191][\128-\191]",
  "^[\225-\236\238-\239][\128-\191][\128-\191]",
  "^\237[\128-\159][\128-\191]",
  "^\240[\144-\191][\128-\191][\128-\191]",
  "^[\241-\243][\128-\191][\128-\191][\128-\191]",
  "^\244[\128-\143][\128-\191][\128-\191]",
}

local function sequence_at(text, position)
  for _, pattern in ipairs(SEQUENCES) do
    local found = text:match(pattern, position)
    if found then
      return found
    end
  end
end

-- Lua's own lower and upper obey the locale: a Turkish one has no "I" for "i".

local function shifted(by)
  return function(letter)
    return string.char(letter:byte() + by)
  end
end

local lowered, raised = shifted(32), shifted(-32)

--- `text` with the letters from A to Z as those from a to z, in every locale.
function M.lower(text)
  return (text:gsub("[A-Z]", lowered))
end

--- `text` with the letters from a to z as those from A to Z, in every locale.
function M.upper(text)
  return (text:gsub("[a-z]", raised))
end

--- `text` with parts of it replaced: what fits the pattern `plain` stays; character(sequence)
-- gives a text for any other character from 128 on, byte(byte) for whatever is none.
function M.replace(text, plain, character, byte)
  local parts, position = {}, 1
  while position <= #text do
    local shown = text:match(plain, position)
    local taken = shown or sequence_at(text, position)
    if taken then
      parts[#parts + 1] = shown or character(taken)
    else
      taken = text:sub(position, position)
      parts[#parts + 1] = byte(taken)
    end
    position = position + #taken
  end
  return table.concat(parts)
end

-- Controls (C1), line ends, marks and overrides of the direction of writing.
local STEERING = {
  "^\194[\128-\159]", "^\216\156", "^\226\128[\142\143\168-\174]", "^\226\129[\166-\169]",
}

--- What `replace` takes for `character`: a character stays, but one that steers how a text is
-- shown becomes replacement(sequence).
function M.without_steering(replacement)
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

local or_escaped = M.without_steering(escaped)

--- `text` as one line that is safe to show: each byte of a control character, of what is no UTF-8,
-- and of what changes the direction of writing becomes \x1b and the like. Names, values and
-- messages may come from anybody who may write to etcd or ask a web server: they must not write
-- lines of their own into a log, nor steer a terminal.
function M.clean(text)
  return M.replace(text, "^[\32-\126]+", or_escaped, escaped)
end

--- `text` in quotes, for a message.
function M.quote(text)
  return '"' .. M.clean((text:gsub('["\\]', "\\%0"))) .. '"'
end

return M
