#!/bin/sh
# Downloads Debian 13's etcd (3.5) and unpacks it into DIR. The installed etcd is not changed.
# The script uses the machine's package sources with the name of Debian 13. The binaries also
# run on Debian 12.
#
#   etcd35.sh DIR      -> DIR/usr/bin/etcd, DIR/usr/bin/etcdctl
set -eu

target=$1
failed() {
  echo "etcd35.sh: cannot install Debian 13's etcd, so etcd 3.5 is not tested: $1" >&2
  exit 1
}

if [ -x "$target/usr/bin/etcd" ] && [ -x "$target/usr/bin/etcdctl" ]; then
  exit 0
fi
. /etc/os-release
test -n "${VERSION_CODENAME:-}" || failed "this is not a Debian release"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/sources" "$work/lists/partial" "$work/packages" "$target"

for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
  if [ -f "$file" ]; then
    sed "s/$VERSION_CODENAME/trixie/g" "$file" >"$work/sources/${file##*/}"
  fi
done

apt() {
  apt-get -q -o Dir::Etc::SourceList=/dev/null \
    -o Dir::Etc::SourceParts="$work/sources" \
    -o Dir::State::Lists="$work/lists" \
    -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
    -o APT::Sandbox::User=root "$@"
}

apt update || failed "apt-get update failed"
(cd "$work/packages" && apt download etcd-server etcd-client) ||
  failed "apt-get download failed"
for package in "$work"/packages/*.deb; do
  dpkg-deb -x "$package" "$target"
done
"$target/usr/bin/etcd" --version || failed "its binary does not run on this machine"
