-- Writes the first inputs of the fuzz targets to DIRECTORY, one file for each: seeds.lua DIRECTORY.
-- Many have the form of etcd's answers, which a fuzzer would take long to find.

local protobuf = require "spec.support.servers.protobuf"
local write_file = require "bench.write_file"

local number, bytes = protobuf.number, protobuf.bytes

local directory = assert(arg[1], "usage: seeds.lua DIRECTORY")
local LEASE = 0x1234

local function write(target, name, content)
  local path = directory .. "/" .. target
  assert(os.execute(("mkdir -p '%s'"):format(path)))
  write_file(path .. "/" .. name, content)
end

-- Returns |content| as a part of an input, in the form that fuzz_part reads.
local function part(content)
  return string.char(#content % 256, math.floor(#content / 256)) .. content
end

-- ---- transactions ----

local header = bytes(1, number(1, 9) .. number(2, 8) .. number(3, 12) .. number(4, 2))

local function kv(key, revision, lease, value)
  return bytes(1, key) .. number(2, revision) .. number(3, revision) .. number(4, 1)
    .. bytes(5, value or "v") .. number(6, lease)
end

local function range(...)
  local list = { ... }
  for i, one in ipairs(list) do list[i] = bytes(2, one) end
  return bytes(3, bytes(1, table.concat(list)))
end

local put, deleted = bytes(3, bytes(2, "")), bytes(3, bytes(3, number(2, 1)))

local function answer(succeeded, ...)
  return header .. (succeeded and number(2, 1) or "") .. table.concat { ... }
end

local own = kv("a/1234", 7, LEASE)
local MODES = { lock = 0, read = 1, write = 2, permit = 3, multi = 4 }
local REQUESTS = { try = 0, enqueue = 1, read = 2, delete = 3, contention = 4, guarded = 5 }

local function member(mode, request, flags)
  return string.char(MODES[mode], flags or 0, REQUESTS[request])
end

local ANSWERS = {
  { "enqueue", member("lock", "enqueue"), answer(true, put, range(own, kv("a/77", 3, 0x77))) },
  { "enqueue-again", member("lock", "enqueue"), answer(false, range(own)) },
  { "enqueue-permit", member("permit", "enqueue"),
    answer(true, put, range(kv("a/permit/77.2", 3, 0x77), kv("a/permit/78.2", 4, 0x78))) },
  { "enqueue-multi", member("multi", "enqueue"),
    answer(true, put, put, put, range(own), range(), range(kv("c/77", 3, 0x77))) },
  { "try", member("write", "try", 4), answer(false, range(), range(kv("a/read/77", 3, 0x77))) },
  { "read", member("lock", "read", 8), answer(true, range(own), range(kv("a/77", 3, 0x77))) },
  { "read-of-readers", member("read", "read", 8), answer(true, range(kv("a/read/1234", 7, LEASE)),
    range(), range(kv("a/write/77", 3, 0x77)), range(kv("a/write/read/3", 4, 0x77))) },
  { "delete", member("lock", "delete"), answer(true, range(own), deleted) },
  { "contention", member("lock", "contention"),
    answer(true, range(own), range(kv("a/79", 9, 0x79))) },
  { "guarded", member("lock", "guarded", 1), answer(true, range(kv("data", 3, 0)), put) },
}

for _, row in ipairs(ANSWERS) do
  write("txn", row[1], "\0" .. row[2] .. part(row[3]))
end
write("txn", "nested", "\1" .. member("lock", "enqueue") .. member("lock", "delete")
  .. part(answer(true, bytes(3, bytes(4, answer(true, put, range()))),
    bytes(3, bytes(4, answer(true, range(own), deleted))))))
write("txn", "joined", "\1" .. member("lock", "read", 8) .. member("lock", "contention")
  .. part(answer(true, range(own), range(), range(own), range())))

-- ---- leases, watches, members, tokens ----

local function lease(id, ttl) return header .. number(2, id) .. number(3, ttl) end

write("lease", "grant", "\0" .. part(lease(LEASE, 5)))
write("lease", "list", "\1" .. part(lease(LEASE, 4) .. number(4, 5) .. bytes(5, "a/1234")
  .. bytes(5, "b/1234")))
write("lease", "keepalive", "\2" .. part(lease(LEASE, 5)) .. "\0" .. part(lease(LEASE, 0)))

local function watched(id, rest) return part(header .. number(2, id) .. (rest or "")) end

local created, cancelled = number(3, 1), number(4, 1)
local function event(kind, key) return bytes(11, number(1, kind) .. bytes(2, kv(key, 9, LEASE))) end
write("watch", "events", watched(1, created) .. watched(2, created)
  .. watched(1, event(0, "a/1")) .. watched(2, event(1, "b/2") .. event(0, "b/3")))
write("watch", "refused", watched(-1, created .. cancelled
  .. bytes(6, "etcdserver: permission denied")) .. watched(2, created))
write("watch", "cancelled", watched(1, created) .. watched(1, cancelled
  .. bytes(6, "rpc error: invalid auth token") .. number(5, 4)) .. part "" .. watched(3, created))

write("status", "status", part(header .. bytes(2, "3.5.16") .. number(3, 20480) .. number(4, 8)
  .. number(6, 2) .. bytes(8, "etcdserver: no leader") .. number(9, 8192) .. number(10, 1)))
write("auth", "token", part(header .. bytes(2, "abcdefghijklmnop.12")) .. part(answer(true)))

-- ---- texts ----

for i, row in ipairs {
  { "a", "a/1234" }, { "a", "a/read/1234-5" }, { "a", "a/permit/1234.2" },
  { "a/b", "a/b/write/1700000000000000000" }, { "a", "a/write/read/7" }, { "a/read/order", "a/f" },
} do
  write("key", tostring(i), "\1" .. part(row[1]) .. part(row[2]))
end
for i, text in ipairs {
  "localhost:2379", "https://10.0.0.1:2379", "[fe80::1%eth0]:2379", "unix:/run/etcd.sock",
  "unixs:///run/etcd.sock", "http://a.example:2379/v3?x#y",
} do
  write("endpoint", tostring(i), "\0" .. text)
end
for i, row in ipairs {
  { 14, "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to "
    .. "connect to remote host: Connection refused" },
  { 14, "DNS resolution failed for a: C-ares status is not ARES_SUCCESS" },
  { 3, "etcdserver: user name is empty" }, { 8, "Received message larger than max (9 vs. 4)" },
  { 13, "a\n\27[2J\194\133" },
} do
  write("error", tostring(i), string.char(row[1]) .. row[2])
end
for i, text in ipairs {
  '{"host":"h","pid":7,"since":1700000000}',
  '{"host":"h","pid":7,"since":1700000000,"owner":"o","value":"v","lock_delay":2.5}',
  '{"host":"h","pid":7,"since":1,"names":["a","b"]}',
  '{"host":"h","pid":1e999,"since":-1,"first":"a"}',
  "a\226\128\168\194\133\255\n",
} do
  write("label", tostring(i), text)
end

-- ---- certificates ----

-- Returns a new certificate with its key in one text.
local function certificate(subject, names)
  local pipe = assert(io.popen("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 "
    .. "-nodes -keyout - -subj " .. subject .. " -addext subjectAltName=" .. names
    .. " 2>/dev/null"))
  local pem = pipe:read "*a"
  pipe:close()
  assert(pem:find("BEGIN CERTIFICATE", 1, true), "openssl made no certificate")
  return pem
end

local pem = certificate("/CN=fuzz", "DNS:a.example,IP:::1,URI:x:y")
write("pem", "both", pem)
write("pem", "short", pem:sub(1, -100))
-- Regression 307. The end of a text with more than 95 bytes, for a message, was written one byte
-- behind its buffer.
write("pem", "long", certificate("/O=" .. ("o"):rep(60) .. "/CN=" .. ("n"):rep(60),
  "DNS:" .. ("d"):rep(60) .. ".example,DNS:" .. ("e"):rep(60) .. ".example"))
write("pem", "encrypted", "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"
  .. "DEK-Info: AES-256-CBC,00112233445566778899AABBCCDDEEFF\n\nMHcCAQ==\n"
  .. "-----END EC PRIVATE KEY-----\n")

-- The first bytes that a server sends: an alert, a ServerHello of TLS 1.3, and HTTP/2's SETTINGS.
write("handshake", "alert", "\21\3\3\0\2\2\40")
write("handshake", "hello", "\22\3\3\0\90\2\0\0\86\3\3" .. ("r"):rep(32) .. "\32" .. ("s"):rep(32)
  .. "\19\1\0\0\14\0\43\0\2\3\4\0\51\0\4\0\23\0\0")
write("handshake", "http2", "\0\0\0\4\0\0\0\0\0")
