#!/bin/sh
# README's commands as a newcomer runs them, on a Debian that has nothing but what
# debootstrap puts there, sudo and make: once as an ordinary user, once as root, each in a
# tree of its own below build/fresh. The user begins with the installation, root with the
# demo, so that both are tried where nothing else is yet. Needs root, and where this machine
# gets its packages.
#
#   SUITE=bookworm|trixie [WITH="package ..."] fresh.sh [user|root]...
#
# WITH: packages that are there already.
set -eu

SUITE=${SUITE:-bookworm}
WITH=${WITH:-}
BASE=$PWD/build/fresh
# Debian's modules are not known to luarocks.
COMMANDS='make demo
make test
make demo-openresty
make rock
luarocks make --deps-mode=none --tree="$HOME/tree" && sh .ci/hostile_directory.sh "$HOME/tree/bin/etcdlock" --version'

INSTALL='make build-deps all && sudo make install'
INSTALL="$INSTALL && sh .ci/hostile_directory.sh etcdlock --version && sudo make uninstall"

# What is found is told of.
NOT_BUILT_AGAIN='! find build \( -name "*.o" -o -name core.so \) -user root | grep .'

# What can't be had there, and says so.
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
