-- Lists the ways in which a request can fail: the rules of src/base/error.c, written independently,
-- with an example for each.

local M = {}

local STATUS = {
  CANCELLED = 1, UNKNOWN = 2, INVALID_ARGUMENT = 3, DEADLINE_EXCEEDED = 4, NOT_FOUND = 5,
  PERMISSION_DENIED = 7, RESOURCE_EXHAUSTED = 8, FAILED_PRECONDITION = 9, OUT_OF_RANGE = 11,
  UNIMPLEMENTED = 12, INTERNAL = 13, UNAVAILABLE = 14, DATA_LOSS = 15, UNAUTHENTICATED = 16,
  ANY_STATUS = -1,
}

local NOT_ETCD = "the endpoint is not an etcd v3 client port"
local REQUEST_LIMIT = "etcd's default limit is 1.5 MiB (--max-request-bytes)"

-- One row for each rule, in the order of the rules: status, part of the text, code, flags, hint.
-- Named fields: `says` is an example of the server's text; `status` is the status of this example
-- if the rule is for any status; `cause` is the text that the message has instead of `says`.
local ROWS = {
  { "NOT_FOUND", "requested lease not found", "lost", "DEFINITE | LEASE_GONE",
    says = "etcdserver: requested lease not found" },
  { "FAILED_PRECONDITION", "lease already exists", "conflict", "DEFINITE | RETRIABLE",
    says = "etcdserver: lease already exists" },
  { "FAILED_PRECONDITION", "authentication is not enabled", "unauthenticated",
    "DEFINITE | AUTH_OFF", says = "etcdserver: authentication is not enabled" },
  { "UNAVAILABLE", "learner", "unavailable", "DEFINITE | RETRIABLE",
    says = "etcdserver: rpc not supported for learner" },
  { "FAILED_PRECONDITION", "learner", "unavailable", "DEFINITE | RETRIABLE",
    says = "etcdserver: rpc not supported for learner" },
  { "UNAVAILABLE", "leader changed", "unavailable", "RETRIABLE | NEW_LEADER",
    says = "etcdserver: leader changed" },
  { "INVALID_ARGUMENT", "user name is empty", "unauthenticated", "DEFINITE | TOKEN_BAD",
    "etcd requires a user and a password", says = "etcdserver: user name is empty" },
  { "INVALID_ARGUMENT", "authentication failed", "unauthenticated", "DEFINITE",
    "the user or the password is wrong",
    says = "etcdserver: authentication failed, invalid user ID or password" },
  { "INVALID_ARGUMENT", "revision of auth store is old", "unauthenticated",
    "DEFINITE | TOKEN_BAD", says = "etcdserver: revision of auth store is old" },
  { "INVALID_ARGUMENT", "too many operations", "invalid", "DEFINITE",
    "etcd's default limit is 128 operations (--max-txn-ops)",
    says = "etcdserver: too many operations in txn request" },
  { "INVALID_ARGUMENT", "request is too large", "invalid", "DEFINITE", REQUEST_LIMIT,
    says = "etcdserver: request is too large" },
  { "INVALID_ARGUMENT", nil, "invalid", "DEFINITE",
    says = "etcdserver: duplicate key given in txn request" },
  { "UNAUTHENTICATED", nil, "unauthenticated", "DEFINITE | TOKEN_BAD",
    says = "etcdserver: invalid auth token" },
  { "PERMISSION_DENIED", nil, "denied", "DEFINITE", says = "etcdserver: permission denied" },
  { "RESOURCE_EXHAUSTED", "database space exceeded", "no_space", "",
    "compact and defragment etcd, then disarm its NOSPACE alarm",
    says = "etcdserver: mvcc: database space exceeded" },
  { "RESOURCE_EXHAUSTED", "too many requests", "unavailable", "DEFINITE | RETRIABLE",
    says = "etcdserver: too many requests" },
  { "RESOURCE_EXHAUSTED", "grpc: received message larger", "invalid", "DEFINITE", REQUEST_LIMIT,
    says = "grpc: received message larger than max (3000000 vs. 2097152)" },
  { "RESOURCE_EXHAUSTED", "message larger than max", "invalid", "TOO_LARGE",
    "read less at once, and keep no other data below the name of a lock",
    says = "grpc: trying to send message larger than max (3000000 vs. 2097152)" },
  { "RESOURCE_EXHAUSTED", "Buffers full", "unavailable", "RETRIABLE",
    says = "Buffers full", cause = "unfinished answers take more than 128 MiB" },
  { "RESOURCE_EXHAUSTED", nil, "invalid", "",
    says = "received trailing metadata size exceeds limit" },
  { "OUT_OF_RANGE", "revision has been compacted", "invalid", "DEFINITE | COMPACTED",
    says = "etcdserver: mvcc: required revision has been compacted" },
  { "OUT_OF_RANGE", nil, "invalid", "DEFINITE",
    says = "etcdserver: mvcc: required revision is a future revision" },
  { "UNIMPLEMENTED", nil, "protocol", "DEFINITE", NOT_ETCD,
    says = "unknown service etcdserverpb.KV" },
  { "UNKNOWN", "status: 413", "invalid", "DEFINITE | OVER_LIMIT",
    "raise the proxy's limit of a request body (nginx: client_max_body_size)",
    says = "Received http2 header with status: 413",
    cause = "a proxy or web server has answered in place of etcd, HTTP status: 413" },
  { "INTERNAL", "RST_STREAM", "unavailable", "RETRIABLE | OVER_LIMIT",
    says = "Received RST_STREAM with error code 2", cause = "the server has ended the call" },
  { "DATA_LOSS", "corrupt cluster", "unavailable", "DEFINITE",
    "etcd refuses all writes until its CORRUPT alarm is disarmed",
    says = "etcdserver: corrupt cluster" },
  { "DEADLINE_EXCEEDED", nil, "unavailable", "RETRIABLE | UNANSWERED",
    says = "context deadline exceeded", cause = "no answer in time" },
  { "ANY_STATUS", nil, "unavailable", "RETRIABLE",
    says = "etcdserver: request timed out", status = "UNAVAILABLE" },
}

local function has(row, flag)
  return row[4]:find(flag, 1, true) ~= nil
end

-- Adds to each row its name, the number of its status, and the flags that tests use.
for _, row in ipairs(ROWS) do
  row.name = ("%s %q"):format(row[1], row.says)
  row.number = STATUS[row.status or row[1]]
  row.definite, row.retriable = has(row, "DEFINITE"), has(row, "RETRIABLE")
  row.lease_gone, row.token_bad = has(row, "LEASE_GONE"), has(row, "TOKEN_BAD")
  row.auth_off = has(row, "AUTH_OFF")
end

M.STATUS, M.ROWS = STATUS, ROWS

-- Returns the function each_row(test, is_wanted), which defines with busted's |it| one test
-- test(row) for each row; only for rows for which is_wanted(row) is true, if is_wanted is not nil.
function M.tests_with(it)
  return function(test, is_wanted)
    for _, row in ipairs(ROWS) do
      if not is_wanted or is_wanted(row) then
        it(row.name, function() test(row) end)
      end
    end
  end
end

return M
