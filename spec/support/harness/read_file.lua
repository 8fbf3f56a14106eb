-- What is in the file at |path| | nil, message.
return function(path)
  local file, message = io.open(path, "rb")
  if not file then return nil, message end
  local text = file:read "*a"
  file:close()
  return text
end
