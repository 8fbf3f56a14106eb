--- A table of texts, in columns.
local characters = require "etcdlock.characters"
local texts = require "etcdlock.command.texts"

local GAP = "  "

--- The lines of a table: `head` and each of `rows` is a list of texts, as many in each;
-- `is_number` (column -> true) has those at the right.
-- @return a list of lines, without line ends
return function(head, rows, is_number)
  local all, widths = { head }, {}
  for _, row in ipairs(rows) do
    local cleaned = {}
    for i, text in ipairs(row) do
      cleaned[i] = characters.clean(text)
    end
    all[#all + 1] = cleaned
  end
  for _, row in ipairs(all) do
    for i, text in ipairs(row) do
      widths[i] = math.max(widths[i] or 0, texts.width(text))
    end
  end
  local lines = {}
  for n, row in ipairs(all) do
    local cells = {}
    for i, text in ipairs(row) do
      local space = (" "):rep(widths[i] - texts.width(text))
      cells[i] = is_number[i] and space .. text or text .. space
    end
    -- gsub(" +$", "") takes hours for a text with a million blanks in the middle.
    lines[n] = table.concat(cells, GAP):match "^.*[^ ]" or ""
  end
  return lines
end
