#!/bin/sh
# Installs Debian packages, as root, but not the services that nginx and
# redis-server would be: a web server on port 80 that nobody asked for. They are
# not started, now or at boot; specs and demos start their own. (An etcd of this
# machine is a different thing: the examples use it, and so it is left alone.)
#
#   apt_install.sh PACKAGE...
set -eu

POLICY=/usr/sbin/policy-rc.d
SERVICES="nginx redis-server"

installed() {
  dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null |
    grep -qx installed
}

# Those that are here already are somebody's, and stay as they are.
unwanted=
for service in $SERVICES; do
  if ! installed "$service"; then unwanted="$unwanted $service"; fi
done

# This file is asked about every service that is to be started. One that is
# there already (in containers, mostly) knows better.
if [ ! -e "$POLICY" ] && [ -n "$unwanted" ]; then
  trap 'rm -f "$POLICY"' EXIT
  trap 'exit 1' HUP INT TERM
  {
    echo '#!/bin/sh'
    for service in $unwanted; do
      echo "case \$1 in $service | $service.service) exit 101 ;; esac"
    done
  } >"$POLICY"
  chmod 755 "$POLICY"
fi

# What is in the way of these packages (luajit of luajit2, say) is not ours to remove.
apt-get -q update
DEBIAN_FRONTEND=noninteractive \
  apt-get -q install -y --no-install-recommends --no-remove "$@"

for service in $unwanted; do
  if installed "$service"; then update-rc.d "$service" disable; fi
done
