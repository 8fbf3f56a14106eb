-- Writes the C file with the Lua modules of the executable, as bytecode without debug information:
--
--   lua5.4 .ci/embed.lua NOTICES FILE...
--
-- NOTICES is the file that `etcdlock --licenses` prints. A FILE is bin/etcdlock, a file below lua/,
-- or a module of another project. src/lua/executable.h declares what the C file defines.

local function read(file)
  local handle = assert(io.open(file, "rb"))
  local text = handle:read "*a"
  handle:close()
  return text
end

-- Returns the name by which `require` finds the module |file|.
local function name_of(file)
  local path = file:match "^lua/(.*)%.lua$" or file:match "([^/]*)%.lua$"
  return (path:gsub("/init$", ""):gsub("/", "."))
end

-- Returns C's initializer of an el_embedded.
local function initializer(name, chunk)
  local bytes = string.dump(chunk, true)
  local literal = bytes:gsub(".", function(byte) return ("\\%03o"):format(byte:byte()) end)
    :gsub(("."):rep(80), '%0"\n"')
  return ('{"%s", "%s", %d}'):format(name, literal, #bytes)
end

local modules, command = {}, nil
for i = 2, #arg do
  local chunk = assert(loadfile(arg[i]))
  if arg[i] == "bin/etcdlock" then
    command = initializer("etcdlock", chunk)
  else
    modules[#modules + 1] = initializer(name_of(arg[i]), chunk)
  end
end
modules[#modules + 1] = initializer("etcdlock.command.licenses",
  assert(load(("return %q"):format(read(arg[1])))))

print '#include "lua/executable.h"'
print(("const el_embedded el_embedded_command = %s;"):format(command))
print(("const el_embedded el_embedded_modules[] = {%s, {0}};"):format(table.concat(modules, ",\n")))
