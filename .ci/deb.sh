#!/bin/sh
# Builds the Debian packages of a release in build/deb, for the Debian version of this machine.
# Fails if lintian reports anything about the packages.
#
#   deb.sh VERSION
set -eu

VERSION=$1
DEB=build/deb

# The package version ends in "~deb12" or "~deb13", because each Debian has other libraries. For
# apt, the package for Debian 13 is therefore newer than that for Debian 12, and replaces it.
suffix=$(. /etc/os-release && echo "${VERSION_ID:+~deb$VERSION_ID}")
# Without this, the make in dpkg-buildpackage would take over the options of the make that has
# called this script.
unset MAKEFLAGS MAKELEVEL MFLAGS
# noautodbgsym: builds no package of debug symbols, so a release has two packages instead of three.
export DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-} noautodbgsym"

rm -rf "$DEB"
mkdir -p "$DEB"
cp "build/dist/etcdlock-$VERSION.tar.gz" "$DEB/etcdlock_$VERSION.orig.tar.gz"
cd "$DEB"
tar -xzf "etcdlock_$VERSION.orig.tar.gz"
cd "etcdlock-$VERSION"
cp -R .ci/debian debian
sed -i "1s/(\(.*\))/(\1$suffix)/" debian/changelog
# Debian has Lua 5.5 after 13 only. The command needs luv, which Debian does not have for 5.5, so
# 5.5 is not the last Lua of the list.
if [ -d /usr/include/lua5.5 ]; then
  sed -i 's/^LUAS := /&5.5 /' debian/rules
  sed -i 's/^Lua-Versions:.*/& 5.5/; s/^Provides:.*/&, lua5.5-etcdlock/; s/Lua 5.1 to 5.4/Lua 5.1 to 5.5/
    s/^\( *\)liblua5.4-dev,/&\n\1liblua5.5-dev,/; s/^\( *\)lua5.4 <!nocheck>,/&\n\1lua5.5 <!nocheck>,/' \
    debian/control
fi

if ! dpkg-checkbuilddeps; then
  echo "'make deb-deps' installs what is missing." >&2
  exit 1
fi
if ! dpkg-buildpackage --no-sign >../build.log 2>&1; then
  tail -n 40 ../build.log >&2
  echo "The packages can't be built; the end of $DEB/build.log is above." >&2
  exit 1
fi
cd ..
# .ci/debian/control serves Debian 12 and 13. It names the policy version of Debian 12, which
# lintian of Debian 13 would report as outdated.
lintian --allow-root --display-info --pedantic --fail-on=error,warning,info,pedantic \
  --suppress-tags=out-of-date-standards-version "etcdlock_$VERSION-"*.changes
rm -r "etcdlock-$VERSION"
echo "Packed:"
ls "$PWD"/*.deb
