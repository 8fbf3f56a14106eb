#!/bin/sh
# Installs Debian packages, as root, but not the services that etcd, nginx and
# redis-server would be: nobody asked for a database on port 2379 or a web server
# on port 80. They are not started, now or at boot; specs and demos start their
# own. Nothing is removed that is in the way of them.
#
#   apt_install.sh PACKAGE...
set -eu

POLICY=/usr/sbin/policy-rc.d
SERVICES="etcd nginx redis-server"

# Those that are here already are somebody's, and stay as they are.
unwanted=
for service in $SERVICES; do
  if [ ! -e "/etc/init.d/$service" ] &&
    [ ! -e "/lib/systemd/system/$service.service" ]; then
    unwanted="$unwanted $service"
  fi
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

apt-get -q update
DEBIAN_FRONTEND=noninteractive \
  apt-get -q install -y --no-install-recommends --no-remove "$@"

for service in $unwanted; do
  if [ -e "/etc/init.d/$service" ]; then update-rc.d "$service" disable; fi
  if [ -e "/lib/systemd/system/$service.service" ] &&
    command -v deb-systemd-helper >/dev/null; then
    # It wants to know on whose behalf.
    DPKG_MAINTSCRIPT_PACKAGE=etcdlock deb-systemd-helper disable "$service.service"
  fi
done
