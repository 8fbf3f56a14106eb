-- Certificates and keys for specs, good and bad ones, in a temporary directory.

local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local uv = require "luv"

local Certs = {}
Certs.__index = Certs

-- `openssl ca` is the one command of OpenSSL 3.0 that takes any dates.
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

-- A new file name in the directory, which says what it is for.
function Certs:path(name)
  self.files = self.files + 1
  return ("%s/%d-%s"):format(self.dir, self.files, (name:gsub(" ", "-")))
end

-- Puts |text| into a new file and returns its name.
function Certs:write(name, text)
  local path = self:path(name)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
  return path
end

function Certs.read(path)
  return assert(read_file(path))
end

-- ---- keys and certificates --------------------------------------------------

-- A new private key: "ec" (default), "p384", "rsa", "rsa1024", "ed25519".
function Certs:key(algorithm)
  local path = self:path "key.pem"
  openssl("genpkey", "-out", path, "-algorithm",
    (table.unpack or unpack)(ALGORITHMS[algorithm or "ec"]))
  return path
end

-- The time |days| from now, as ASN.1 has it.
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

-- A CA: { cert = file, key = file }. |opts|: name ("test CA"), issuer (another
-- CA: an intermediate one), algorithm, and from and to, in days from now.
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

-- A certificate for |use| ("server", "client" or "both") by |ca| (nil: signed
-- by itself): { cert = file, key = file }. |opts|: name (common name), hosts
-- (subjectAltName), key (file), algorithm, and from and to, in days from now.
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

-- A copy of |key| that wants a password.
function Certs:encrypted(key)
  local path = self:path "encrypted.pem"
  openssl("pkey", "-in", key, "-aes256", "-passout", "pass:secret", "-out", path)
  return path
end

-- One file with the contents of several.
function Certs:bundle(...)
  local parts = {}
  for i = 1, select("#", ...) do parts[i] = Certs.read((select(i, ...))) end
  return self:write("bundle.pem", table.concat(parts))
end

-- |file| with its middle spoilt, still looking like PEM.
function Certs:damaged(file)
  local text = Certs.read(file)
  local middle = #text / 2 - #text / 2 % 1
  return self:write("damaged.pem", text:sub(1, middle) .. "!!" .. text:sub(middle + 3))
end

-- |file| as somebody finds it who reads while it is being written.
function Certs:half(file)
  local text = Certs.read(file)
  return self:write("half.pem", text:sub(1, #text / 2 - #text / 2 % 1))
end

-- ---- all of them ------------------------------------------------------------

-- Each is made when it is first asked for: one run of openssl takes a while.
local CAST = {
  ca = function(self) return self:ca() end,
  other_ca = function(self) return self:ca { name = "other CA" } end,
  -- The same name, another key: only the signature tells them apart.
  namesake_ca = function(self) return self:ca() end,
  expired_ca = function(self) return self:ca { from = -20, to = -10 } end,

  server = function(self, cast) return self:issue(cast.ca, "server") end,
  server_expired = function(self, cast)
    return self:issue(cast.ca, "server", { from = -20, to = -10 })
  end,
  server_future = function(self, cast)
    return self:issue(cast.ca, "server", { from = 10, to = 20 })
  end,
  server_elsewhere = function(self, cast)
    return self:issue(cast.ca, "server", { hosts = "DNS:etcd.example,IP:127.9.9.9" })
  end,
  server_other = function(self, cast) return self:issue(cast.other_ca, "server") end,
  server_alone = function(self) return self:issue(nil, "server") end,
  server_as_client = function(self, cast)
    return self:issue(cast.ca, "client", { name = "not a server" })
  end,

  client = function(self, cast) return self:issue(cast.ca, "client") end,
  client_expired = function(self, cast)
    return self:issue(cast.ca, "client", { from = -20, to = -10 })
  end,
  client_future = function(self, cast)
    return self:issue(cast.ca, "client", { from = 10, to = 20 })
  end,
  client_other = function(self, cast) return self:issue(cast.other_ca, "client") end,
  client_as_server = function(self, cast)
    return self:issue(cast.ca, "server", { name = "not a client" })
  end,
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

-- The usual cast: good ones (ca, server, client) and everything that is wrong
-- with certificates. Each is { cert = file, key = file } or a file.
function Certs:cast()
  return setmetatable({}, { __index = function(cast, name)
    local make = CAST[name] or error("nobody is called " .. name, 2)
    cast[name] = make(self, cast)
    return cast[name]
  end })
end

-- An empty directory for certificates.
function Certs.new()
  local temporary = os.getenv "TMPDIR" or "/tmp"
  local self = setmetatable({ files = 0 }, Certs)
  self.dir = assert(uv.fs_mkdtemp(temporary .. "/etcdlock-XXXXXX"))
  self.config = self:write("config", CONFIG:format(self.dir))
  local index = assert(io.open(self.dir .. "/index.txt", "w"))
  index:close()
  return self
end

-- Removes the directory; may be repeated.
function Certs:remove()
  proc.run { "rm", "-rf", self.dir }
end

return Certs
