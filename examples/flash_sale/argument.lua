-- The arguments of the flash sales.

--- Returns the argument at |place| of the program |program|, a whole number from |least| to |most|,
-- or |default|. Ends the program if the argument is none.
return function(program, place, name, default, least, most)
  local number = tonumber(arg[place] or default)
  if not number or number % 1 ~= 0 or number < least or number > most then
    io.stderr:write(("%s: %s is %q, wanted a whole number from %d to %d\n"):format(
      program, name, arg[place], least, most))
    os.exit(2)
  end
  return number
end
