#!/bin/sh
# Runs COMMAND in a new directory. There each module that etcdlock or LuaRocks may look for is a .lua
# file that raises an error and a .so file that cannot be loaded. COMMAND fails if it loads one.
#
#   hostile_directory.sh COMMAND [ARGUMENT...]
set -eu

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
mkdir -p "$directory/cjson" "$directory/etcdlock" "$directory/luarocks/core"
for module in argparse cjson cjson/safe etcdlock etcdlock/command luarocks luarocks/loader \
  luarocks/core/hardcoded luv; do
  echo 'error "loaded from the current directory"' >"$directory/$module.lua"
  echo 'not a shared object' >"$directory/$module.so"
done
cd "$directory"
"$@"
