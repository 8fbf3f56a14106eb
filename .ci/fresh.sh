#!/bin/sh
# Runs the commands of README as a new user does, on a fresh Debian that has only the packages of
# debootstrap, sudo and make. Runs them twice, as an ordinary user and as root, each time in a new
# directory tree below build/fresh. The ordinary user begins with the installation, and root begins
# with the demo. So the installation and the demo are each tested before any other command has
# installed a package. Needs root, and access to the package server of this machine.
#
#   SUITE=bookworm|trixie|forky [WITH="package ..."] fresh.sh [user|root]...
#
# WITH: packages to install before the first command. In forky, a package may come from the suite
# experimental: libgrpc-dev/experimental libgrpc56/experimental and so on.
set -eu

SUITE=${SUITE:-bookworm}
WITH=${WITH:-}
BASE=$PWD/build/fresh
# --deps-mode=none, because LuaRocks does not know the Lua modules that Debian packages installed.
COMMANDS='make demo
make test
make demo-openresty
make rock
luarocks make --deps-mode=none --tree="$HOME/tree" && sh .ci/hostile_directory.sh "$HOME/tree/bin/etcdlock" --version'

INSTALL='make build-deps all && sudo make install'
INSTALL="$INSTALL && sh .ci/hostile_directory.sh etcdlock --version && sudo make uninstall"

# Succeeds if root owns no object file and no module: `sudo make install` must install what the user
# has built, not build it again. If it fails, it prints the files that root owns.
NOT_BUILT_AGAIN='! find build \( -name "*.o" -o -name core.so \) -user root | grep .'

# The command that must fail with the advice to install luajit2; empty if there is none. In
# bookworm, nginx has no Lua if the package luajit is installed.
REFUSED=
case "$SUITE $WITH " in "bookworm "*"luajit "*) REFUSED='make demo-openresty' ;; esac

. .ci/tree.sh

failed=0
for user in ${*:-user root}; do
  tree=$BASE/$SUITE-$user
  make_tree
  make_home "$user"
  case $user in
    root) commands="$COMMANDS
$INSTALL" ;;
    *) commands="$INSTALL && $NOT_BUILT_AGAIN && make clean
$COMMANDS" ;;
  esac
  if [ -n "$WITH" ]; then
    run root "apt-get -q update && apt-get -q install -y --no-install-recommends $WITH" \
      >"$tree.with.log" 2>&1 || { tail "$tree.with.log" >&2; exit 1; }
  fi
  while read -r command; do
    log=$tree.$(echo "$command" | sed 's/ [&-].*//; s/ /-/g').log
    start=$(date +%s)
    if run "$user" "cd etcdlock && $command" >"$log" 2>&1 </dev/null; then
      verdict=passed
      if [ "$command" = "$REFUSED" ]; then verdict=FAILED; fi
    elif [ "$command" = "$REFUSED" ] && grep -q "puts luajit2 in its place" "$log"; then
      verdict='refused, as it should be'
    else
      verdict=FAILED
    fi
    if [ "$verdict" = FAILED ]; then
      failed=$((failed + 1))
      tail -n 40 "$log"
    fi
    echo "$SUITE${WITH:+ with $WITH}, as $user: $command $verdict" \
      "($(($(date +%s) - start)) s): $(tail -n 1 "$log")"
  done <<END
$commands
END
  rm -rf --one-file-system "$tree"
done
[ "$failed" -eq 0 ]
