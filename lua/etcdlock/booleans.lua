--- The words for true and false that etcdctl knows (Go's strconv.ParseBool), in its variables
-- and behind its options: word -> boolean.
local M = {}

for _, word in ipairs { "1", "t", "T", "true", "True", "TRUE" } do
  M[word] = true
end
for _, word in ipairs { "0", "f", "F", "false", "False", "FALSE" } do
  M[word] = false
end

return M
