--- Coroutines across pcall. On PUC Lua 5.1 none can yield inside a pcall;
-- there the package coxpcall helps, which runs the function in a coroutine of
-- its own.
local M = {}

--- Can a coroutine yield inside pcall?
M.crosses = _VERSION ~= "Lua 5.1" or rawget(_G, "jit") ~= nil

--- The running coroutine, as its loop knows it: not the one that coxpcall has
-- made; nil in the main one.
function M.running()
  local coxpcall = not M.crosses and package.loaded.coxpcall
  local thread, is_main = (coxpcall and coxpcall.running or coroutine.running)()
  return not is_main and thread or nil
end

--- Is the running coroutine one that coxpcall has made?
function M.is_inner()
  return not M.crosses and coroutine.running() ~= M.running()
end

--- xpcall(fn, handler) that fn can yield across where there is a way. handler
-- gets the error and a traceback.
function M.xpcall(fn, handler)
  if not M.crosses and coroutine.running() then
    local found, coxpcall = pcall(require, "coxpcall")
    if found then
      return coxpcall.xpcall(fn, function(trace, err)
        return handler(err, trace)
      end)
    end
  end
  return xpcall(fn, function(err)
    return handler(err, debug.traceback(type(err) == "string" and err or tostring(err), 2))
  end)
end

return M
