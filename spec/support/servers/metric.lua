-- metric(etcd, name): what the metrics of its members tell as `name`, the sum of all labels.

local http = require "socket.http"

return function(etcd, name)
  local sum = 0
  for _, member in ipairs(etcd.members) do
    local text = assert(http.request(member.metrics .. "/metrics"))
    for labels, value in ("\n" .. text):gmatch("\n" .. name .. "(%S*) (%S+)") do
      if labels == "" or labels:find "^{" then sum = sum + tonumber(value) end
    end
  end
  return sum
end
