#!/bin/sh
# The rock of a release, as somebody has it who gets it from a server: packed with its
# sources, installed in a tree of its own, loaded, packed again as it was built, and
# removed.
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
cd /
# No module but the tree's, and what Debian has.
loaded=$(LUA_INIT='' LUA_PATH="$TREE/share/lua/$ABI/?.lua;$TREE/share/lua/$ABI/?/init.lua;;" \
  LUA_CPATH="$TREE/lib/lua/$ABI/?.so;;" "$LUA" -e 'print(require "etcdlock"._VERSION)')
if [ "$loaded-1" != "$VERSION" ]; then
  echo "What was loaded is etcdlock $loaded." >&2
  exit 1
fi
sh "$HOSTILE" "$TREE/bin/etcdlock" --version
cd "$ROCK"
rocks --tree="$TREE" pack etcdlock
rocks --tree="$TREE" remove etcdlock
if find "$TREE" -name '*etcdlock*' | grep .; then
  echo 'This was left of the rock.' >&2
  exit 1
fi
echo "The rock of $VERSION can be packed, installed, loaded and removed with $LUA."
