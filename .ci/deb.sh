#!/bin/sh
# Debian packages of a release, for the Debian that this runs on, in build/deb. Fails if
# lintian finds anything to say about them.
#
#   deb.sh VERSION
set -eu

VERSION=$1
DEB=build/deb

# The same release is an update in the next Debian, whose libraries it needs.
suffix=$(. /etc/os-release && echo "${VERSION_ID:+~deb$VERSION_ID}")
# The build is no part of the make that has called this.
unset MAKEFLAGS MAKELEVEL MFLAGS
# Whoever gives them on gives two files on, not three.
export DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-} noautodbgsym"

rm -rf "$DEB"
mkdir -p "$DEB"
cp "build/dist/etcdlock-$VERSION.tar.gz" "$DEB/etcdlock_$VERSION.orig.tar.gz"
cd "$DEB"
tar -xzf "etcdlock_$VERSION.orig.tar.gz"
cd "etcdlock-$VERSION"
cp -R .ci/debian debian
sed -i "1s/(\(.*\))/(\1$suffix)/" debian/changelog

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
# One packaging for two Debians: the policy is that of the older one.
lintian --allow-root --display-info --pedantic --fail-on=error,warning,info,pedantic \
  --suppress-tags=out-of-date-standards-version "etcdlock_$VERSION-"*.changes
rm -r "etcdlock-$VERSION"
echo "Packed:"
ls "$PWD"/*.deb
