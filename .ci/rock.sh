#!/bin/sh
# Tests the rock of a release in new directory trees:
#   1. Packs the source rock into a directory that serves as a rock server.
#   2. Installs the rock from there into the first tree, and loads the module and the command.
#   3. Packs the binary rock from the first tree, and removes the rock from that tree. Fails if a
#      file of the binary rock contains the path of the directory in which it was built.
#   4. Installs the binary rock into the second tree, loads it, and removes it.
#
#   rock.sh VERSION LUA ABI
set -eu

VERSION=$1-1 LUA=$2 ABI=$3
ROCK=$PWD/build/rock
TREE=$ROCK/tree
HOSTILE=$PWD/.ci/hostile_directory.sh

rm -rf "$ROCK"
mkdir -p "$ROCK/server"

# rocks_provided: the modules that Debian packages have installed. LuaRocks does not find them
# itself.
cat >"$ROCK/config.lua" <<'END'
rocks_provided = { dkjson = "2.6-1", argparse = "0.7.1-1", luv = "1.44.2-1" }
variables = { CFLAGS = "-O2 -fPIC -g" } -- debug information has paths of directories
END
export LUAROCKS_CONFIG="$ROCK/config.lua"

rocks() {
  luarocks --lua-version="$ABI" "$@"
}

# The rock of the sources. `luarocks pack` would download the archive from the URL in the rockspec,
# which leads nowhere yet.
SOURCES=$ROCK/server/etcdlock-$VERSION.src.rock
(cd build/dist && zip -q "$SOURCES" "etcdlock-$VERSION.rockspec" "etcdlock-$1.tar.gz")
cd "$ROCK/server"
luarocks-admin --lua-version="$ABI" make-manifest .

rocks --tree="$TREE" --only-server="$ROCK/server" install etcdlock
# use TREE: loads the module and runs the command of the rock in the tree. Fails if the loaded
# version is not VERSION. Other modules come from the default search path.
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

# remove TREE: removes the rock from the tree. Fails if a file of it is left.
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
