--- Lets each of |ids| have its turn(id), a sample, one after the other; in each round
-- |number| another one is the first. Returns id → sample.
return function(ids, number, turn)
  local samples = {}
  for i = 1, #ids do
    local id = ids[(number + i) % #ids + 1]
    samples[id] = turn(id)
  end
  return samples
end
