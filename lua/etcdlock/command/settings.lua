--- From the command's options to a client. What isn't given comes from etcdctl's variables:
-- connect's own business.
local exit = require "etcdlock.command.exit"
local texts = require "etcdlock.command.texts"

local M = {}

-- Options of the command that are connect's.
local OPTIONS = {
  "endpoints", "cacert", "cert", "key", "server_name", "user", "password", "prefix", "ttl",
}

--- connect's options, of what the parser has found. `loop` as connect has it.
function M.options(args, loop)
  local opts = { loop = loop }
  for _, field in ipairs(OPTIONS) do
    opts[field] = args[field]
  end
  if args.insecure_transport then
    opts.insecure_transport = args.insecure_transport == "true"
  end
  opts.allow_plaintext_auth = args.allow_plaintext_auth
  local user, password = (args.user or ""):match "^([^:]*):(.*)$"
  if user and not args.password then
    opts.user, opts.password = user, password
  end
  return opts
end

--- Says what is wrong, in the words of the module: the exit status.
function M.fail(message, code)
  texts.say("%s", texts.of_module(message))
  return exit.of(code)
end

--- A client | nil, exit status, which was told.
function M.connect(args, loop)
  local client, message, code = require "etcdlock".connect(M.options(args, loop))
  if not client then
    return nil, M.fail(message, code)
  end
  return client
end

return M
