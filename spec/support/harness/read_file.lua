-- read_file(path) returns the contents of the file at |path|, or nil and a message.
return function(path)
  local file, message = io.open(path, "rb")
  if not file then return nil, message end
  local text = file:read "*a"
  file:close()
  return text
end
