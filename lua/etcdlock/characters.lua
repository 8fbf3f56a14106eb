--- Texts that others have written, character by character, where what is no UTF-8 would spoil
-- a page, or a terminal.
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

--- The other way round.
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

return M
