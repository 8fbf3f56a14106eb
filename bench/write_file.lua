-- Makes |text| what is in the file at |path|.
return function(path, text)
  local file = assert(io.open(path, "wb"))
  assert(file:write(text))
  assert(file:close())
end
