-- Encodes messages of etcd as protobuf does, for the scripted server.

local M = {}

local function varint(number)
  local bytes = {}
  while number >= 128 do
    bytes[#bytes + 1] = string.char(number % 128 + 128)
    number = math.floor(number / 128)
  end
  return table.concat(bytes) .. string.char(number)
end

-- Returns the field with the number |field| and the integer |number|, which is not below -1.
function M.number(field, number)
  local value = number == -1 and ("\255"):rep(9) .. "\1" or varint(number)
  return varint(field * 8) .. value
end

-- Returns the field with the number |field| and the string or encoded message |bytes|.
function M.bytes(field, bytes)
  return varint(field * 8 + 2) .. varint(#bytes) .. bytes
end

return M
