-- Tests the time limit of election:leader.
-- Runs alone: it measures a time.

-- Regression 090. election:leader may send two requests. Each of them had a limit of 5 s of its
-- own, so the call could take 10 s.
scripted_client { ttl = 60 }

it("election:leader ends within 5.25 s if only its first request is answered", function()
  for i = 1, 5 do etcd:put(prefix .. "boss/data" .. i, "x") end
  local ask, from = client._run_txn, wait.now()
  function client:_run_txn(...)
    client._run_txn = ask
    local answer = { ask(self, ...) }
    wait.sleep(2)
    server:answer("Txn", "never", 14)
    return (table.unpack or unpack)(answer, 1, 4)
  end
  assert_fails("unavailable", assert(client:election "boss"):leader())
  assert.is_true(wait.now() - from < 5.4, wait.now() - from)
end)
