--- Numbers as text, the same in every locale. Where a program has called os.setlocale, a PUC
-- Lua writes 2.5 as "2,5", which is neither JSON nor Prometheus' format, and Lua 5.1 does not
-- read "2.5" any more. LuaJIT never looks at the locale.
local M = {}

-- What this Lua writes between the whole and the fraction now; more than one byte in some
-- locales.
local function point()
  return string.format("%.1f", 0.5):sub(2, -2)
end

local function with_point(text)
  local own = point()
  local first, last = text:find(own, 1, true)
  return first and text:sub(1, first - 1) .. "." .. text:sub(last + 1) or text
end

--- `number` as string.format writes it; `format` itself must contain no comma.
function M.format(format, number)
  return with_point(string.format(format, number))
end

--- `value` as tostring shows it; anything but a number is left to tostring.
function M.text(value)
  return type(value) == "number" and with_point(tostring(value)) or tostring(value)
end

--- The number that `text` is with a decimal point, whatever the locale; else nil.
function M.read(text)
  if text:find "[^0-9A-Za-z.+ -]" then -- in the locale's own form it would depend on that
    return nil
  end
  return tonumber((text:gsub("%.", point())))
end

return M
