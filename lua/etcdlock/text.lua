--- Functions on text that give the same result in every locale, and that make text from other
-- programs safe to show.
local M = {}

-- ---- characters ----

-- Patterns of the UTF-8 sequences of all characters from U+0080 on.
local SEQUENCES = {
  "^[\194-\223][\128-\191]",
  "^\224[\160-\191][\128-\191]",
  "^[\225-\236\238-\239][\128-\191][\128-\191]",
  "^\237[\128-\159][\128-\191]",
  "^\240[\144-\191][\128-\191][\128-\191]",
  "^[\241-\243][\128-\191][\128-\191][\128-\191]",
  "^\244[\128-\143][\128-\191][\128-\191]",
}

local function find_sequence(text, position)
  for _, pattern in ipairs(SEQUENCES) do
    local sequence = text:match(pattern, position)
    if sequence then
      return sequence
    end
  end
end

-- M.lower and M.upper do not use Lua's string.lower and string.upper, because these obey the
-- locale. In a Turkish locale, for example, string.lower("I") may not return "i".
local function make_shift(offset)
  return function(letter)
    return string.char(letter:byte() + offset)
  end
end

local lower_letter, raise_letter = make_shift(32), make_shift(-32)

--- Returns `text` with the letters A to Z in lower case.
function M.lower(text)
  return (text:gsub("[A-Z]", lower_letter))
end

--- Returns `text` with the letters a to z in upper case.
function M.upper(text)
  return (text:gsub("[a-z]", raise_letter))
end

--- Returns `text` with some of its characters replaced. Parts that match the pattern `plain` stay
-- as they are. Each other UTF-8 sequence from U+0080 on is replaced by on_character(sequence), and
-- each other byte by on_byte(byte).
function M.replace(text, plain, on_character, on_byte)
  local parts, position = {}, 1
  while position <= #text do
    local kept = text:match(plain, position)
    local part = kept or find_sequence(text, position)
    if part then
      parts[#parts + 1] = kept or on_character(part)
    else
      part = text:sub(position, position)
      parts[#parts + 1] = on_byte(part)
    end
    position = position + #part
  end
  return table.concat(parts)
end

-- Patterns of the UTF-8 sequences of control characters (C1), of line and paragraph separators, and
-- of characters that set the direction of writing.
local CONTROLS = {
  "^\194[\128-\159]", "^\216\156", "^\226\128[\142\143\168-\174]", "^\226\129[\166-\169]",
}

--- Returns a function for the parameter `on_character` of M.replace. That function replaces the
-- characters of CONTROLS by replacement(sequence) and keeps all other characters.
function M.make_control_filter(replacement)
  return function(sequence)
    for _, pattern in ipairs(CONTROLS) do
      if sequence:find(pattern) then
        return replacement(sequence)
      end
    end
    return sequence
  end
end

local function escape_bytes(bytes)
  return (bytes:gsub(".", function(byte)
    return ("\\x%02x"):format(byte:byte())
  end))
end

local escape_controls = M.make_control_filter(escape_bytes)

--- Returns `text` as one line that is safe to show. The bytes of control characters, of line
-- and paragraph separators, of characters that set the direction of writing, and of invalid UTF-8
-- are replaced by escapes such as \x1b.
--
-- Names, values and messages may come from any program that can write to etcd or send requests to a
-- web server. Without the escapes they could add lines to a log or control a terminal.
function M.escape(text)
  return M.replace(text, "^[\32-\126]+", escape_controls, escape_bytes)
end

--- Returns `text` escaped and in double quotes, for a message.
function M.quote(text)
  return '"' .. M.escape((text:gsub('["\\]', "\\%0"))) .. '"'
end

-- Largest numbers of bytes that are shown. KEY_MAX: of a key. KEYS_MAX: of the text of several.
local KEY_MAX, KEYS_MAX = 80, 120

--- Returns the keys of the list `keys`, each escaped, in quotes and with a blank in front, for a
-- message. A long key is cut. If there are too many keys, the last ones are counted.
function M.quote_keys(keys)
  local text = ""
  for i, key in ipairs(keys) do
    local shown = " " .. M.quote(key:sub(1, KEY_MAX)) .. (#key > KEY_MAX and "..." or "")
    if i > 1 and #text + #shown > KEYS_MAX then
      return string.format("%s and %d more", text, #keys - i + 1)
    end
    text = text .. (i > 1 and "," or "") .. shown
  end
  return text
end

-- ---- numbers ----
-- After a call of os.setlocale, PUC Lua may write 2.5 as "2,5", which neither JSON nor Prometheus'
-- text format allows. PUC Lua before 5.3 may then fail to read "2.5". LuaJIT ignores the locale.

-- Returns the decimal point that Lua writes at present, a string. In some locales the string has
-- several bytes.
local function get_decimal_point()
  return string.format("%.1f", 0.5):sub(2, -2)
end

local function replace_decimal_point(text)
  local first, last = text:find(get_decimal_point(), 1, true)
  return first and text:sub(1, first - 1) .. "." .. text:sub(last + 1) or text
end

--- Returns string.format(format, number) with "." as the decimal point. `format` must not contain a
-- comma: where the decimal point is a comma, the first comma of the text becomes a ".".
function M.format_number(format, number)
  return replace_decimal_point(string.format(format, number))
end

--- Returns tostring(value); if `value` is a number, with "." as the decimal point.
function M.to_string(value)
  return type(value) == "number" and replace_decimal_point(tostring(value)) or tostring(value)
end

--- Returns the number that `text` contains, with "." as the decimal point; nil if it is no number.
function M.to_number(text)
  -- Refuses the decimal point of the locale, such as a comma, which tonumber would accept.
  if text:find "[^0-9A-Za-z.+ -]" then
    return nil
  end
  return tonumber((text:gsub("%.", get_decimal_point())))
end

-- ---- booleans ----

--- The words for true and false that etcdctl accepts in its variables and options (Go's
-- strconv.ParseBool): word -> boolean.
M.BOOLEANS = {}

for _, word in ipairs { "1", "t", "T", "true", "True", "TRUE" } do
  M.BOOLEANS[word] = true
end
for _, word in ipairs { "0", "f", "F", "false", "False", "FALSE" } do
  M.BOOLEANS[word] = false
end

return M
