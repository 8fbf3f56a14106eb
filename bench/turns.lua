--- Calls turn(id), which returns a sample, for each of |ids|, one after the other. |number| is the
-- number of the round: in each round another id is first. Returns a table from id to sample.
return function(ids, number, turn)
  local samples = {}
  for i = 1, #ids do
    local id = ids[(number + i) % #ids + 1]
    samples[id] = turn(id)
  end
  return samples
end
