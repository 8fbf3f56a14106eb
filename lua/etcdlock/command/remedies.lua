--- What to do about a message: doc/errors.md in short.
local M = {}

-- A pattern of messages, and the remedy; the first that fits.
local BY_MESSAGE = {
  { "alarm:NOSPACE", "its quota is used up: etcdctl compact, etcdctl defrag, then etcdctl alarm"
    .. " disarm" },
  { "database space exceeded", "etcd's quota is used up: etcdctl compact, etcdctl defrag, then"
    .. " etcdctl alarm disarm" },
  { "alarm:CORRUPT", "its data differ from those of the others: remove it, and add it anew" },
  { "no leader", "it reaches no majority of the members: start those that are down" },
  { "[Cc]onnection refused", "start etcd there, or correct --endpoints (ETCDCTL_ENDPOINTS)" },
  { "can't be looked up", "correct the name in --endpoints, or this machine's name server" },
  { "no such socket", "correct the path in --endpoints" },
  { "takes connections, but says nothing", "it hangs, or a firewall swallows what is sent" },
  { "connecting takes too long", "it is down, or a firewall swallows what is sent" },
  { "no answer in time", "it hangs, has no leader, or a firewall swallows what is sent" },
  { "not an etcd v3 client port", "give etcd's client port, which is 2379 and not 2380" },
  { "not gRPC", "give etcd's client port, which is 2379 and not 2380" },
  { "is self%-signed", "give that certificate with --cacert, if it is etcd's" },
  { "signed by a CA that", "give the CA of etcd's certificate with --cacert" },
  { "is for .*, not for", "give one of the certificate's names as --server-name" },
  { "expired", "renew that certificate, and look at this machine's clock" },
  { "wants a client certificate", "give --cert and --key" },
  { "refuses the client certificate", "have --cert signed by a CA that etcd trusts" },
  { "user name is empty", "give --user, and ETCDCTL_PASSWORD" },
  { "password is wrong", "correct --user or ETCDCTL_PASSWORD" },
  { "permission denied", "etcdctl role grant-permission --prefix=true ROLE readwrite '%s'" },
  { "plain text", "use https://, or say --allow-plaintext-auth" },
  { "VERIFY", "unset it, and give etcd's CA with --cacert" },
  { "DISCOVERY_SRV", "unset it, and give --endpoints" },
  { "can't be read", "correct the path, or the rights of the file" },
}

-- Where rights are missing for names that have no prefix; those to all of etcd are no remedy.
local NO_PREFIX = "give --prefix: below which this user may have locks"

--- The remedy for a message of the module, or of etcd; nil: none is known. `prefix` of the
-- names.
function M.of_message(message, prefix)
  for _, row in ipairs(BY_MESSAGE) do
    if message:find(row[1]) then
      if prefix == "" and row[2]:find("%s", 1, true) then
        return NO_PREFIX
      end
      return (row[2]:gsub("%%s", ((prefix or "PREFIX"):gsub("%%", "%%%%"))))
    end
  end
end

-- Of each line of versions the first in which leases have rights; see doc/cluster.md.
local LEASES_HAVE_RIGHTS = { ["3.4"] = 42, ["3.5"] = 28 }

--- What is to be known of this version of etcd; nil: nothing.
function M.of_version(version)
  local line, patch = version:match "^(%d+%.%d+)%.(%d+)"
  local from = LEASES_HAVE_RIGHTS[line]
  if from and tonumber(patch) < from then
    return ("has known bugs that %s.%d has not (doc/cluster.md)"):format(line, from)
  end
end

return M
