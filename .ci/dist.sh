#!/bin/sh
# Makes the two files of a release in build/dist: a tar archive of the sources of HEAD, and the
# rockspec for that archive. The same commit gives the same tar archive on every machine.
#
#   dist.sh VERSION
set -eu

NAME=etcdlock-$1
DIST=build/dist

rm -rf "$DIST"
mkdir -p "$DIST"

# An unpacked release archive has no .git directory. There, all files of the directory are packed.
if [ -e .git ]; then
  if [ -n "$(git status --porcelain)" ]; then
    echo 'What is not committed is not packed:' >&2
    git status --short >&2
  fi
  git -c tar.umask=0022 archive --format=tar --prefix="$NAME/" HEAD >"$DIST/$NAME.tar"
else
  tar --create --file="$DIST/$NAME.tar" --exclude=./build --sort=name --owner=0 --group=0 \
    --numeric-owner --transform="s,^\.,$NAME," .
fi
gzip --no-name --best "$DIST/$NAME.tar"

sed -e "s/^version = .*/version = \"$1-1\"/" \
  -e "s,git+\(https://[^\"]*\)/etcdlock\.git,\1/$NAME.tar.gz," \
  etcdlock-scm-1.rockspec >"$DIST/$NAME-1.rockspec"
echo "Packed $DIST/$NAME.tar.gz and $DIST/$NAME-1.rockspec."
