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
# The Luas for which this Debian has dkjson.
luas=$(for lua in 5.5 5.1 5.2 5.3 5.4; do
  if [ -d "/usr/include/lua$lua" ] && [ -e "/usr/share/lua/$lua/dkjson.lua" ]; then echo "$lua"; fi
done | paste -s -d ' ')
sed -i "s/^LUAS :=.*/LUAS := $luas/" debian/rules
sed -i "s/^Lua-Versions:.*/Lua-Versions: $luas/
  s/^Provides:.*/Provides: lua$(echo "$luas" | sed 's/ /-etcdlock, lua/g')-etcdlock/" debian/control

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
# .ci/debian/control serves Debian 12 and later. It names the policy version of Debian 12, which a
# later lintian would report as outdated.
lintian --allow-root --display-info --fail-on=error,warning,info \
  --suppress-tags=out-of-date-standards-version "etcdlock_$VERSION-"*.changes
rm -r "etcdlock-$VERSION"
echo "Packed:"
ls "$PWD"/*.deb
