--- A client that is made when it is needed first, and anew after its end.

--- A function that returns the client of connect(opts): client | nil, message, code.
return function(connect, opts)
  local client
  return function()
    if client and client._core:usable() then
      return client
    end
    local message, code
    client, message, code = connect(opts)
    return client, message, code
  end
end
