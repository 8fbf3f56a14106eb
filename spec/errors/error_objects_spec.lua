-- Tests error objects that the function of with_lock raises.

-- Regression 125. The function of with_lock raised an error object whose __tostring raised an
-- error, too. The handler that takes the traceback then replaced the object by the second error.
-- Besides, with_lock kept the last error object alive, and with it all locks and clients that the
-- object referenced. In PUC Lua 5.1 the message of the event "raised" was the error object itself.
local raised
client_options {
  endpoints = suite.endpoint(), prefix = prefix,
  log = function(event)
    if event.event == "raised" then raised = event end
  end,
}

-- Returns what with_lock in a coroutine raises for the error |failure| of its function.
local function raise(client, failure)
  local thread = coroutine.create(function()
    client:with_lock("a", function() error(failure) end)
  end)
  local ok, caught = coroutine.resume(thread)
  assert.is_false(ok)
  return caught
end

describe("with_lock raises", function()
  it("an error object whose __tostring fails again, and reports it", function()
    for _, to_text in ipairs { function() error "no text" end, function() return {} end,
      coroutine.yield } do
      raised = nil
      local failure = setmetatable({}, { __tostring = to_text })
      assert.is_true(rawequal(failure, raise(client, failure)))
      assert.equal("string", type(raised.message))
      assert.matches('^etcdlock: lock "' .. prefix
        .. 'a": the function of with_lock raised', tostring(raised))
    end
  end)

  it("an error object again and does not keep it", function()
    local client, weak = connect(), setmetatable({}, { __mode = "v" })
    do
      local failure = {}
      weak[1] = failure
      assert.is_true(rawequal(failure, raise(client, failure)))
    end
    collectgarbage()
    collectgarbage()
    assert.is_nil(weak[1])
  end)
end)
