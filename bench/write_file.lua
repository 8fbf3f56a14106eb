-- Writes |text| to the file |path|, in place of its old content.
return function(path, text)
  local file = assert(io.open(path, "wb"))
  assert(file:write(text))
  assert(file:close())
end
