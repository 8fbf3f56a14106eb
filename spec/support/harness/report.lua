-- Output handler for busted: prints the name of each file and one line per test when it ends, then
-- all failures, and as the last line "N passed, N failed[, N skipped]".

local busted = require "busted"

local MARKS = { success = "ok", pending = "skip", failure = "FAIL", error = "FAIL" }

local function describe(entry)
  local message = entry.message
  if type(message) == "table" then message = tostring(message.message or message) end
  local where = entry.element.trace
  return ("\nFAIL %s\n  %s:%s\n  %s\n"):format(entry.name,
    where and where.short_src or entry.element.name or "?",
    where and where.currentline or "?",
    (tostring(message):gsub("\n", "\n  ")))
end

return function()
  local handler = require "busted.outputHandlers.base"()

  local function say(text)
    io.stdout:write(text)
    io.stdout:flush()
    return nil, true
  end

  busted.subscribe({ "file", "start" }, function(file)
    return say(file.name .. "\n")
  end)

  busted.subscribe({ "test", "end" }, function(test, _, status)
    local seconds = busted.monotime() - (test.starttick or busted.monotime())
    return say(("  %-4s %s (%.2f s)\n"):format(MARKS[status],
      handler.getFullName(test), seconds))
  end)

  busted.subscribe({ "suite", "end" }, function()
    for _, list in ipairs { handler.failures, handler.errors } do
      for _, entry in ipairs(list) do say(describe(entry)) end
    end
    local skipped = handler.pendingsCount
    return say(("\n%d passed, %d failed%s\n"):format(handler.successesCount,
      handler.failuresCount + handler.errorsCount,
      skipped > 0 and (", %d skipped"):format(skipped) or ""))
  end)

  return handler
end
