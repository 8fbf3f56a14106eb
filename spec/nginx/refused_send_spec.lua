-- Tests an nginx that refuses to send.

-- Regression 142. In nginx's stream module, tcp_nodelay can refuse a send on a Unix socket. The
-- message then named a lack of descriptors, and asked for more of them.
it('if nginx refuses to send on the wake-up connection, the message says so',
  function()
    local nginx = start_nginx {
      locations = {
        ["/refused"] = [[
          local make = ngx.socket.tcp
          ngx.socket.tcp = function()
            local socket = make()
            return setmetatable({ send = function() return nil, "operation not supported" end }, {
              __index = function(_, name)
                return function(_, ...) return socket[name](socket, ...) end
              end,
            })
          end
          local lock, message, code = client:lock("refused", { timeout = 1 })
          ngx.socket.tcp = make
          ngx.say(tostring(lock), " ", tostring(code), " ", tostring(message))
          ngx.say(tostring(client:lock("refused", { timeout = 5 })))
        ]],
      },
    }
    local body = nginx:get("/refused").body
    assert.matches("^nil context .*nginx cannot send on it: operation not supported\n", body)
    assert.matches("held, token", body)
  end)
