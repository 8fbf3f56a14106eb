-- Locales of other countries, for programs that call os.setlocale.

local proc = require "spec.support.programs.proc"
local temporary = require "spec.support.harness.temporary"

local M = {}

-- Compiles the locale |source| in |charmap| ("de_DE", "UTF-8") from the C library's sources into a
-- temporary directory (temporary.remove_all). Returns the value of LOCPATH with which a program
-- finds it by the name |source|, or nil and why not.
function M.compile(source, charmap)
  local directory = temporary.directory()
  local ok, out, code, err = pcall(proc.run,
    { "localedef", "-i", source, "-f", charmap, directory .. "/" .. source })
  if not ok or code ~= 0 then
    return nil, ("localedef cannot compile the locale %s (Debian: the package locales): %s")
      :format(source, ok and err or out)
  end
  return directory
end

return M
