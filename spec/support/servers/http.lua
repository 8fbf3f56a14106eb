-- HTTP client that can have any number of requests under way.

local uv = require "luv"
local wait = require "spec.support.harness.wait"

local M = {}

local Request = {}
Request.__index = Request

local function finish(self, failure)
  if self.done then return end
  self.done, self.failure = true, failure
  self.took = wait.now() - self.from
  local head, body = self.text:match "^(.-)\r\n\r\n(.*)$"
  self.status = tonumber((head or ""):match "^HTTP/1%.%d (%d+)")
  self.body = body or ""
  if not self.socket:is_closing() then self.socket:close() end
end

local ONE = "GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n"
local OF_MANY = "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: %s\r\n\r\n"

local POST = "POST %s HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
  .. "Content-Length: %d\r\n\r\n%s"

local function text_of(path, opts)
  if opts.body then return POST:format(path, #opts.body, opts.body) end
  local times = opts.times
  if not times then return ONE:format(path) end
  return OF_MANY:format(path, "keep-alive"):rep(times - 1) .. OF_MANY:format(path, "close")
end

-- Sends a request for |path| to |port| of this host and returns it. Its fields: done (true at the
-- end); then status, body, took (seconds) and failure (why there is no answer). |opts.times|: send
-- this number of requests at once on one connection; body then contains all answers. |opts.body|:
-- post this JSON text.
function M.start(port, path, opts)
  local self = setmetatable({ text = "", from = wait.now(), socket = uv.new_tcp() }, Request)
  self.socket:connect("127.0.0.1", tonumber(port), function(failure)
    if failure then return finish(self, failure) end
    self.socket:write(text_of(path, opts or {}))
    self.socket:read_start(function(reading, data)
      if data then
        self.text = self.text .. data
      else
        finish(self, reading or self.text == "" and "closed without an answer" or nil)
      end
    end)
  end)
  return self
end

-- Closes the connection without waiting for the answer.
function Request:abort()
  finish(self, "aborted")
end

-- Waits for the answer, at most |seconds| (10), and returns the request.
function Request:wait(seconds)
  wait.eventually(function() return self.done end, seconds or 10, "an answer")
  return self
end

-- Sends a request for |path| to |port| of this host, waits at most |opts.seconds| (10) for the
-- answer, and returns the request.
function M.get(port, path, opts)
  local self = M.start(port, path)
  local ok, failure = pcall(self.wait, self, opts and opts.seconds)
  if not ok then
    self:abort()
    self.failure = failure
  end
  return self
end

return M
