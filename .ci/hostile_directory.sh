#!/bin/sh
# Runs COMMAND in a new directory that has some modules of etcdlock and of LuaRocks: each as a .lua
# file that raises an error, and as a .so file that cannot be loaded. COMMAND fails if it loads one.
# Regression 052 tries all modules that the command asks for.
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
