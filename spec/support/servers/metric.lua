-- metric(etcd, name) returns the sum of the metric `name` over all members and labels. Raises if a
-- member has no such metric.

local http = require "socket.http"

return function(etcd, name)
  local sum = 0
  for _, member in ipairs(etcd.members) do
    local text, is_known = assert(http.request(member.metrics .. "/metrics")), false
    for labels, value in ("\n" .. text):gmatch("\n" .. name .. "(%S*) (%S+)") do
      if labels == "" or labels:find "^{" then
        sum, is_known = sum + tonumber(value), true
      end
    end
    assert(is_known, name)
  end
  return sum
end
