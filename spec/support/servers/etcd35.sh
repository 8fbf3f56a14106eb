#!/bin/sh
# Puts Debian 13's etcd (3.5) into DIR, beside this Debian's own: same package
# sources, another release's name. Its binaries run on Debian 12.
#
#   etcd35.sh DIR      -> DIR/usr/bin/etcd, DIR/usr/bin/etcdctl
set -eu

target=$1
failed() {
  echo "etcd35.sh: Debian 13's etcd can't be had, so nothing can be said about" \
    "etcd 3.5: $1" >&2
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

apt update || failed "apt-get update says why"
(cd "$work/packages" && apt download etcd-server etcd-client) ||
  failed "apt-get download says why"
for package in "$work"/packages/*.deb; do
  dpkg-deb -x "$package" "$target"
done
"$target/usr/bin/etcd" --version || failed "its binary doesn't run here"
