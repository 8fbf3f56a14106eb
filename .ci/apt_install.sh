#!/bin/sh
# Installs Debian packages, as root. If the package of etcd, nginx, redis-server or prometheus was
# not installed before, its service is not started, now or at boot: the specs and demos start their
# own servers, and the user did not ask for a database on port 2379 or a web server on port 80. If
# apt would have to remove an installed package, the installation fails.
#
#   apt_install.sh PACKAGE...
set -eu

POLICY=/usr/sbin/policy-rc.d
MARK='# etcdlock: while it installs packages'
# The list of the services that this script disables, because it may install their packages. The
# script removes the file only if it succeeds. After a failed or killed run, the next run reads the
# list, and does not mistake these services for services that were there before.
BEGUN=/var/lib/etcdlock.begun

# package_of SERVICE: prints the Debian package of the service.
package_of() {
  if [ "$1" = etcd ]; then echo etcd-server; else echo "$1"; fi
}

# is_somebodys SERVICE: succeeds if the machine had the service before this script began to install
# it. Such a service stays as it is.
is_somebodys() {
  if grep -qsx "$1" "$BEGUN"; then return 1; fi
  [ -e "/etc/systemd/system/$1.service" ] ||
    dpkg-query -W -f '${db:Status-Status}\n' "$(package_of "$1")" 2>/dev/null |
    grep -qx installed
}

unwanted=
for service in etcd nginx redis-server prometheus; do
  if ! is_somebodys "$service"; then unwanted="$unwanted $service"; fi
done

disable_unwanted() {
  for service in $unwanted; do
    if [ -e "/etc/init.d/$service" ]; then update-rc.d "$service" disable; fi
    if [ -e "/lib/systemd/system/$service.service" ] &&
      command -v deb-systemd-helper >/dev/null; then
      # deb-systemd-helper requires the name of the package that calls it.
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

# Before a package starts its service during the installation, Debian runs policy-rc.d; exit code
# 101 forbids the start. If the machine has its own policy-rc.d (containers often do), that file
# stays. If an interrupted run of this script left its file, the script overwrites it.
if [ -n "$unwanted" ] && { [ ! -e "$POLICY" ] || grep -qxF "$MARK" "$POLICY"; }; then
  {
    printf '#!/bin/sh\n%s\n' "$MARK"
    for service in $unwanted; do
      echo "case \$1 in $service | $service.service) exit 101 ;; esac"
    done
  } >"$POLICY"
  chmod 755 "$POLICY"
fi

# "apt-get update" may fail because an unrelated repository is unreachable. The installation waits
# up to 300 s if another process uses dpkg.
apt-get -q update || echo 'apt-get update failed; the packages may be there all the same'
DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends --no-remove \
  -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confold "$@"
