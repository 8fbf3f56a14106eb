-- An election: the leader publishes its address, and observers read the address. Start this example
-- in several terminals, each time with another address (make example NAME=leader
-- ARGS=10.0.0.1:80): these are the candidates. Start it in one more terminal without an address:
-- this is the observer. If etcd does not answer (try kill -STOP), the observer tells after 5 s, the
-- TTL, that it is unknown who leads.

local etcdlock = require "etcdlock"

local address = arg[1]

local client = assert(etcdlock.connect { ttl = 5 })
local election = assert(client:election "leader")

local function lead(leadership)
  print(("I lead with token %d, and get ready."):format(leadership:token()))
  os.execute "sleep 0.5"
  assert(leadership:proclaim(address)) -- fails if the leadership was lost
  print "I serve. Press Enter to resign."
  io.read()
end

local function follow()
  for leader, _, token, unknown_for in election:observe() do
    if unknown_for then -- etcd is away: the last leader may have lost the leadership
      print(("unknown for %.0f s; the last leader was %s"):format(unknown_for, leader or "nobody"))
    elseif leader then
      print(("the leader is %s, with token %d"):format(leader, token))
    else
      print "nobody leads"
    end
  end
end

if address then
  assert(election:with_leadership(address .. " soon", lead))
else
  follow()
end
client:close()
