#!/bin/sh
# The rock of a release, as somebody has it who gets it from a server: packed with its
# sources, installed in a tree of its own, loaded, packed again as it was built, and
# removed; and the same of what was built, in another tree.
#
#   rock.sh VERSION LUA ABI
set -eu

VERSION=$1-1 LUA=$2 ABI=$3
ROCK=$PWD/build/rock
TREE=$ROCK/tree
HOSTILE=$PWD/.ci/hostile_directory.sh

rm -rf "$ROCK"
mkdir -p "$ROCK/server"

# Debian's, which luarocks doesn't know.
cat >"$ROCK/config.lua" <<'END'
rocks_provided = { ["lua-cjson"] = "2.1.0-1", argparse = "0.7.1-1", luv = "1.44.2-1" }
variables = { CFLAGS = "-O2 -fPIC -g" } -- debug information has paths of directories
END
export LUAROCKS_CONFIG="$ROCK/config.lua"

rocks() {
  luarocks --lua-version="$ABI" "$@"
}

# The sources aren't where the rockspec says, but beside it.
sed "s,https://etcdlock.example/,file://$PWD/build/dist/," \
  "build/dist/etcdlock-$VERSION.rockspec" >"$ROCK/etcdlock-$VERSION.rockspec"
cd "$ROCK/server"
rocks pack "$ROCK/etcdlock-$VERSION.rockspec"
luarocks-admin --lua-version="$ABI" make-manifest .

rocks --tree="$TREE" --only-server="$ROCK/server" install etcdlock
# No module but the tree's, and what Debian has.
use() {
  loaded=$(cd / && LUA_INIT='' LUA_CPATH="$1/lib/lua/$ABI/?.so;;" \
    LUA_PATH="$1/share/lua/$ABI/?.lua;$1/share/lua/$ABI/?/init.lua;;" \
    "$LUA" -e 'print(require "etcdlock"._VERSION)')
  if [ "$loaded-1" != "$VERSION" ]; then
    echo "What was loaded is etcdlock $loaded." >&2
    exit 1
  fi
  sh "$HOSTILE" "$1/bin/etcdlock" --version
  (cd "$1" && bin/etcdlock --version && cd bin && ./etcdlock --version)
}

remove() {
  rocks --tree="$1" remove etcdlock
  if find "$1" -name '*etcdlock*' | grep .; then
    echo 'This was left of the rock.' >&2
    exit 1
  fi
}

use "$TREE"
cd "$ROCK"
rocks --tree="$TREE" pack etcdlock
remove "$TREE"

mkdir "$ROCK/unpacked"
(cd "$ROCK/unpacked" && unzip -q "$ROCK/etcdlock-$VERSION".linux-*.rock)
if grep -rlaF -e "$ROCK" -e /luarocks_ "$ROCK/unpacked"; then
  echo 'These files of the built rock tell where it was built.' >&2
  exit 1
fi
rocks --tree="$ROCK/other" install "$ROCK/etcdlock-$VERSION".linux-*.rock
use "$ROCK/other"
remove "$ROCK/other"
echo "The rock of $VERSION can be packed, installed, loaded and removed with $LUA."
