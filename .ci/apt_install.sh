#!/bin/sh
# Installs Debian packages, as root, but not the services that etcd, nginx and
# redis-server would be: nobody asked for a database on port 2379 or a web server
# on port 80. They are not started, now or at boot; specs and demos start their
# own. Nothing is removed that is in the way of them.
#
#   apt_install.sh PACKAGE...
set -eu

POLICY=/usr/sbin/policy-rc.d
MARK='# etcdlock: while it installs packages'
# Those that we have begun to install, until they are there and disabled: an
# installation may end half-way.
BEGUN=/var/lib/etcdlock.begun

package_of() {
  if [ "$1" = etcd ]; then echo etcd-server; else echo "$1"; fi
}

# Is the service somebody's already? Then it stays as it is.
is_somebodys() {
  if grep -qsx "$1" "$BEGUN"; then return 1; fi
  [ -e "/etc/systemd/system/$1.service" ] ||
    dpkg-query -W -f '${db:Status-Status}\n' "$(package_of "$1")" 2>/dev/null |
    grep -qx installed
}

unwanted=
for service in etcd nginx redis-server; do
  if ! is_somebodys "$service"; then unwanted="$unwanted $service"; fi
done

disable_unwanted() {
  for service in $unwanted; do
    if [ -e "/etc/init.d/$service" ]; then update-rc.d "$service" disable; fi
    if [ -e "/lib/systemd/system/$service.service" ] &&
      command -v deb-systemd-helper >/dev/null; then
      # It wants to know on whose behalf.
      DPKG_MAINTSCRIPT_PACKAGE=etcdlock deb-systemd-helper disable "$service.service"
    fi
  done
}

finish() {
  code=$?
  disable_unwanted || code=1
  if [ -e "$POLICY" ] && grep -qxF "$MARK" "$POLICY"; then rm -f "$POLICY"; fi
  if [ "$code" -eq 0 ]; then rm -f "$BEGUN"; fi
  exit "$code"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

printf '%s\n' $unwanted >"$BEGUN"

# This file is asked about every service that is to be started. One that is
# there already (in containers, mostly) knows better, unless we have left it.
if [ -n "$unwanted" ] && { [ ! -e "$POLICY" ] || grep -qxF "$MARK" "$POLICY"; }; then
  {
    printf '#!/bin/sh\n%s\n' "$MARK"
    for service in $unwanted; do
      echo "case \$1 in $service | $service.service) exit 101 ;; esac"
    done
  } >"$POLICY"
  chmod 755 "$POLICY"
fi

# Some other repository may be out of order, and somebody else be installing.
apt-get -q update || echo 'apt-get update failed; the packages may be there all the same'
DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends --no-remove \
  -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confold "$@"
