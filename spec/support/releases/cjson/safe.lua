-- In place of lua-cjson, for etcdlock 0.2.0 and 0.2.1-1, which need these functions of it.

local dkjson = require "dkjson"

local M = {}

M.encode = dkjson.encode

function M.decode(text)
  local value, _, message = dkjson.decode(text)
  return value, message
end

function M.new()
  return M
end

return M
