--- Translates between the command line and the library. It makes the options of connect from the
-- options of the command. In messages of the library, it replaces names of the library's options by
-- the names of the command's options.
local quote = require("etcdlock.text").quote
local report = require "etcdlock.command.report"

local M = {}

-- Options of the command that connect takes, unchanged except a `user` with a password.
local CONNECT_OPTIONS = {
  "endpoints", "cacert", "cert", "key", "server_name", "user", "password", "prefix", "ttl",
  "lock_delay",
}

-- The log function of a client that gets no other one: the commands report a lost lock themselves.
local function ignore() end

--- Returns the options of connect for `args`, the result of parser.parse. If an option is missing,
-- connect itself reads its ETCDCTL_ variable. `loop` and `log` are options of connect, or nil.
function M.connect_options(args, loop, log)
  local opts = { loop = loop, log = log or ignore }
  for _, field in ipairs(CONNECT_OPTIONS) do
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

--- Ends the process with a usage error if --prefix is given. The list of locks and break call it:
-- they take full names, as messages and the list show them. `text` is the name that was given for
-- `argument`.
function M.refuse_prefix(args, argument, text)
  if args.prefix then
    args.refuse(("%s takes full names, without --prefix; give %s as %s"):format(args.subcommand,
      quote(args.prefix .. text), argument))
  end
end

-- Field of the library -> option or argument of the command.
local OPTION_OF = {
  name = "NAME", names = "NAME", value = "--value", n = "--permits", endpoint = "--endpoints",
  prefix = "--prefix",
}
for _, field in ipairs {
  "endpoints", "cacert", "cert", "key", "server_name", "user", "password", "ttl", "timeout",
  "lock_delay",
} do
  OPTION_OF[field] = "--" .. field:gsub("_", "-")
end

-- Each row: a pattern in messages of the library, and its replacement. They are applied in this
-- order. So a pattern must stand before each shorter pattern with which it begins ("set server_name
-- to a name" before "set server_name").
local REPLACEMENTS = {
  { "allow_plaintext_auth = true", "--allow-plaintext-auth" },
  { "set cert and key", "give --cert and --key" },
  { "give the options user and password", "give --user and --password" },
  { "set cacert", "give --cacert" },
  { "set server_name to a name in the certificate",
    "give a name in the certificate as --server-name" },
  { "not for server_name ", "not for --server-name " },
  { "set server_name", "give --server-name" },
  { ' in cert "', ' in "' },
  { ' in cacert "', ' in "' },
  { "^client:%a+: prefix", "PREFIX" },
  { "nothing to do in this period", "%0 (--once-per)" },
  { "during the wait; call again$", "during the wait; start etcdlock again" },
  { "was lost: the key was deleted", "%0, as by 'etcdlock break'" },
}

--- Returns `message`, a message of the library, with the names of the command's options.
function M.translate(message)
  for _, row in ipairs(REPLACEMENTS) do
    message = message:gsub(row[1], row[2])
  end
  local field, rest = message:match "^[a-z]+[:.][a-z_]+: ([a-z_]+)( .*)$"
  if OPTION_OF[field] then
    return OPTION_OF[field] .. rest
  end
  return (message:gsub("^etcdlock%.connect: ", ""))
end

--- Prints the translated `message` of a library call that failed with `code`. Returns the exit
-- status for `code`.
function M.fail(message, code)
  report.print_message("%s", M.translate(message))
  return report.status_of(code)
end

--- Creates a client. If that fails, prints the reason.
-- @return client; or nil, exit status
function M.connect(args, loop, log)
  local client, message, code = require "etcdlock".connect(M.connect_options(args, loop, log))
  if not client then
    return nil, M.fail(message, code)
  end
  return client
end

return M
