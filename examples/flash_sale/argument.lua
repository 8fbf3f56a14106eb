-- Reads the arguments of the two flash sales: ../flash_sale.lua and ../openresty/demo.lua.

--- Returns argument number `place` of the program `program`; `default` if it is missing. If the
-- argument is not a whole number from `least` to `most`, prints a message and ends the program.
return function(program, place, name, default, least, most)
  local number = tonumber(arg[place] or default)
  if not number or number % 1 ~= 0 or number < least or number > most then
    io.stderr:write(("%s: %s is %q, wanted a whole number from %d to %d\n"):format(
      program, name, arg[place], least, most))
    os.exit(2)
  end
  return number
end
