-- Creates valid and invalid certificates and keys for specs, in a temporary directory.

local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local uv = require "luv"
local write_file = require "bench.write_file"

local Certs = {}
Certs.__index = Certs

-- Configures `openssl ca`, the only command of OpenSSL 3.0 that accepts arbitrary dates.
local CONFIG = [[
[ca]
default_ca = this
[this]
dir = %s
database = $dir/index.txt
new_certs_dir = $dir
rand_serial = yes
unique_subject = no
default_md = sha256
policy = any
[any]
commonName = supplied
[req]
distinguished_name = nothing
[nothing]
]]

local CA_EXTENSIONS = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n"
local USES = { server = "serverAuth", client = "clientAuth" }

local ALGORITHMS = {
  ec = { "EC", "-pkeyopt", "ec_paramgen_curve:P-256" },
  p384 = { "EC", "-pkeyopt", "ec_paramgen_curve:P-384" },
  rsa = { "RSA", "-pkeyopt", "rsa_keygen_bits:2048" },
  rsa1024 = { "RSA", "-pkeyopt", "rsa_keygen_bits:1024" },
  ed25519 = { "ED25519" },
}

-- ---- files ------------------------------------------------------------------

local function openssl(...)
  local out, code, err = proc.run { "openssl", ... }
  if code ~= 0 then error("openssl " .. table.concat({ ... }, " ") .. ": " .. err, 3) end
  return out
end

-- Returns a new path in the directory; it ends with |name|, with "-" in place of each blank.
function Certs:path(name)
  self.files = self.files + 1
  return ("%s/%d-%s"):format(self.dir, self.files, (name:gsub(" ", "-")))
end

-- Writes |text| to a new file and returns its path, which ends with |name|.
function Certs:write(name, text)
  local path = self:path(name)
  write_file(path, text)
  return path
end

function Certs.read(path)
  return assert(read_file(path))
end

-- ---- keys and certificates --------------------------------------------------

-- Creates a private key and returns its path. |algorithm|: "ec" (default), "p384", "rsa", "rsa1024"
-- or "ed25519".
function Certs:key(algorithm)
  local path = self:path "key.pem"
  openssl("genpkey", "-out", path, "-algorithm",
    (table.unpack or unpack)(ALGORITHMS[algorithm or "ec"]))
  return path
end

-- Returns the time |days| days from now in the format of ASN.1.
local function date(days)
  return os.date("!%Y%m%d%H%M%SZ", os.time() + days * 86400)
end

local function sign(self, opts, extensions)
  local request, cert = self:path "request.pem", self:path(opts.name .. ".pem")
  openssl("req", "-new", "-config", self.config, "-key", opts.key, "-subj",
    "/CN=" .. opts.name, "-out", request)
  local argv = {
    "ca", "-batch", "-notext", "-config", self.config,
    "-startdate", date(opts.from or -1), "-enddate", date(opts.to or 30),
    "-extfile", self:write("extensions", extensions),
    "-in", request, "-out", cert,
  }
  local issuer = opts.issuer and { "-cert", opts.issuer.cert, "-keyfile", opts.issuer.key }
    or { "-selfsign", "-keyfile", opts.key }
  for _, value in ipairs(issuer) do argv[#argv + 1] = value end
  openssl((table.unpack or unpack)(argv))
  return { cert = cert, key = opts.key }
end

-- Creates a CA and returns { cert = file, key = file }. |opts|: name ("test CA"), issuer (the CA
-- that issues an intermediate CA), algorithm; from (-1) and to (30): validity in days from now.
function Certs:ca(opts)
  opts = opts or {}
  return sign(self, {
    name = opts.name or "test CA",
    key = self:key(opts.algorithm),
    issuer = opts.issuer,
    from = opts.from,
    to = opts.to,
  }, CA_EXTENSIONS)
end

-- Creates a certificate for |use| ("server", "client" or "both"), issued by |ca| (nil:
-- self-signed), and returns { cert = file, key = file }. |opts|: name (common name), hosts
-- (subjectAltName), key (file), algorithm; from (-1) and to (30): validity in days from now.
function Certs:issue(ca, use, opts)
  opts = opts or {}
  local extensions = "extendedKeyUsage=" .. (USES[use] or "serverAuth,clientAuth") .. "\n"
  if use ~= "client" then
    extensions = extensions .. "subjectAltName="
      .. (opts.hosts or "DNS:localhost,IP:127.0.0.1,IP:::1") .. "\n"
  end
  return sign(self, {
    name = opts.name or use,
    key = opts.key or self:key(opts.algorithm),
    issuer = ca,
    from = opts.from,
    to = opts.to,
  }, extensions)
end

-- Returns the path of a copy of |key| that is encrypted with a password.
function Certs:encrypted(key)
  local path = self:path "encrypted.pem"
  openssl("pkey", "-in", key, "-aes256", "-passout", "pass:secret", "-out", path)
  return path
end

-- Concatenates the files |...| into a new file and returns its path.
function Certs:bundle(...)
  local parts = {}
  for i = 1, select("#", ...) do parts[i] = Certs.read((select(i, ...))) end
  return self:write("bundle.pem", table.concat(parts))
end

-- Returns the path of a copy of |file| whose middle is damaged; it still looks like PEM.
function Certs:damaged(file)
  local text = Certs.read(file)
  local middle = #text / 2 - #text / 2 % 1
  return self:write("damaged.pem", text:sub(1, middle) .. "!!" .. text:sub(middle + 3))
end

-- Returns the path of a copy of the first half of |file|, as a reader finds it during a write.
function Certs:half(file)
  local text = Certs.read(file)
  return self:write("half.pem", text:sub(1, #text / 2 - #text / 2 % 1))
end

-- ---- the shared set ---------------------------------------------------------

-- Name -> the name of the issuer, the use, and the options of Certs:issue.
local EXPIRED, FUTURE = { from = -20, to = -10 }, { from = 10, to = 20 }
local ISSUED = {
  -- The certificate is also valid for clients, because the gateway of etcd 3.5 connects as a client
  -- to one of the addresses of its own etcd. Go picks the address at random, and the address may
  -- require a client certificate.
  server = { "ca", "both", { name = "server" } },
  server_expired = { "ca", "server", EXPIRED },
  server_future = { "ca", "server", FUTURE },
  server_elsewhere = { "ca", "server", { hosts = "DNS:etcd.example,IP:127.9.9.9" } },
  server_other = { "other_ca", "server" },
  server_as_client = { "ca", "client", { name = "not a server" } },
  client = { "ca", "client" },
  client_expired = { "ca", "client", EXPIRED },
  client_future = { "ca", "client", FUTURE },
  client_other = { "other_ca", "client" },
  client_as_server = { "ca", "server", { name = "not a client" } },
}

-- Name -> function that creates the other files and certificates.
local CREATORS = {
  ca = function(self) return self:ca() end,
  other_ca = function(self) return self:ca { name = "other CA" } end,
  -- The same name as `ca`, another key: only the signature distinguishes them.
  namesake_ca = function(self) return self:ca() end,
  expired_ca = function(self) return self:ca(EXPIRED) end,
  server_alone = function(self) return self:issue(nil, "server") end,
  client_encrypted = function(self, cast)
    return { cert = cast.client.cert, key = self:encrypted(cast.client.key) }
  end,
  client_mismatch = function(self, cast)
    return { cert = cast.client.cert, key = self:key() }
  end,
  rubbish = function(self) return self:write("rubbish.pem", "This is not PEM.\n") end,
  damaged = function(self, cast) return self:damaged(cast.client.cert) end,
  empty = function(self) return self:write("empty.pem", "") end,
}

-- Returns valid certificates (ca, server, client) and invalid ones of all kinds. Each field is
-- { cert = file, key = file } or a file. It is created at its first use, because openssl is slow.
function Certs:cast()
  return setmetatable({}, { __index = function(cast, name)
    local row = ISSUED[name]
    cast[name] = row and self:issue(cast[row[1]], row[2], row[3]) or CREATORS[name](self, cast)
    return cast[name]
  end })
end

-- Returns a new Certs object with an empty directory.
function Certs.new()
  local temporary = os.getenv "TMPDIR" or "/tmp"
  local self = setmetatable({ files = 0 }, Certs)
  self.dir = assert(uv.fs_mkdtemp(temporary .. "/etcdlock-XXXXXX"))
  self.config = self:write("config", CONFIG:format(self.dir))
  write_file(self.dir .. "/index.txt", "")
  return self
end

-- Removes the directory; may be repeated.
function Certs:remove()
  proc.run { "rm", "-rf", self.dir }
end

return Certs
