#!/bin/sh
# Builds a released version of etcdlock from the history of this repository.
#
#   build.sh COMMIT LUA_VERSION DIR     -> DIR/lua, DIR/bin/etcdlock, DIR/core/etcdlock/core.so
#
# Does nothing if DIR has that commit. Exit status 3, and one line on standard error: the history
# lacks the commit, or the version cannot be built on this system.
set -eu

commit=$1 lua=$2 target=$3
skip() {
  echo "$1" >&2
  exit 3
}
if [ "$(cat "$target/commit" 2>/dev/null)" = "$commit" ]; then exit 0; fi
git cat-file -e "$commit^{commit}" 2>/dev/null ||
  skip "there is no commit $commit here, as in a shallow clone or an unpacked archive"

rm -rf "$target"
mkdir -p "$target"
git archive "$commit" Makefile .ci bin lua src | tar -x -C "$target"
# The variables of the make that runs the specs must not reach this one.
log=$(env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -C "$target" CFLAGS=-O1 LUA_VERSION="$lua" \
  TESTING= SANITIZE= 2>&1) || skip "commit $commit cannot be built: $(echo "$log" | tail -n 1)"
mv "$target/build/$lua" "$target/core"
rm -rf "$target/build" "$target/src" "$target/.ci"
echo "$commit" >"$target/commit"
