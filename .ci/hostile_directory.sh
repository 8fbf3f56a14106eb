#!/bin/sh
# Runs COMMAND in a new directory that contains false modules, with names of modules that etcdlock
# and LuaRocks load. Each is a .lua file that raises an error and a .so file that cannot be loaded.
# COMMAND therefore fails if it loads a module from its current directory. Only some names are
# tested here; spec/command/hostile_directory_spec.lua tests all names that the command etcdlock loads.
#
#   hostile_directory.sh COMMAND [ARGUMENT...]
set -eu

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
mkdir -p "$directory/etcdlock" "$directory/luarocks/core"
for module in argparse dkjson etcdlock etcdlock/command luarocks luarocks/loader \
  luarocks/core/hardcoded luv; do
  echo 'error "loaded from the current directory"' >"$directory/$module.lua"
  echo 'not a shared object' >"$directory/$module.so"
done
cd "$directory"
"$@"
