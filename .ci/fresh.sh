#!/bin/sh
# README's commands as a newcomer runs them, on a Debian that has nothing but what
# debootstrap puts there, sudo and make: once as an ordinary user, once as root,
# each in a tree of its own below build/fresh. Needs root, and where this machine
# gets its packages.
#
#   SUITE=bookworm|trixie [WITH="package ..."] fresh.sh [user|root]...
#
# WITH: packages that are there already.
set -eu

SUITE=${SUITE:-bookworm}
WITH=${WITH:-}
BASE=$PWD/build/fresh
COMMANDS='demo test demo-openresty'

. /etc/os-release
mirror=$(sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) .*/\2/p' \
  /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1)
command -v debootstrap >/dev/null || {
  echo 'fresh.sh: apt-get install debootstrap, please' >&2
  exit 1
}

# A tree with the checkout in the home of |1|.
make_tree() {
  rm -rf --one-file-system "$tree"
  mkdir -p "$tree"
  debootstrap --variant=minbase --include=sudo,make,procps "$SUITE" "$tree" "$mirror" \
    >"$tree.log" 2>&1 || { tail "$tree.log" >&2; return 1; }
  cp /etc/resolv.conf /etc/hosts "$tree/etc/"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/* /etc/apt/apt.conf.d/99*; do
    if [ -f "$file" ]; then
      sed "s/$VERSION_CODENAME/$SUITE/g" "$file" >"$tree$file"
    fi
  done
  if [ "$1" = root ]; then home=/root; else
    home=/home/user
    chroot "$tree" useradd --create-home --groups sudo --shell /bin/bash user
    echo 'user ALL=(ALL) NOPASSWD: ALL' >"$tree/etc/sudoers.d/user"
  fi
  mkdir "$tree$home/etcdlock"
  git archive HEAD | tar -x -C "$tree$home/etcdlock"
  chroot "$tree" chown -R "$1" "$home/etcdlock"
}

# Runs |2| as |1| in the tree, with processes and mounts that end with it.
run() {
  # shellcheck disable=SC2016 # expanded in there
  unshare --mount --pid --fork --kill-child sh -c '
    mount -t proc proc "$1/proc" && mount -t sysfs sysfs "$1/sys" &&
    mount --rbind /dev "$1/dev" && mount -t tmpfs tmpfs "$1/tmp" && chmod 1777 "$1/tmp" &&
    chroot "$1" su --login --command "$3" "$2"
    exit $? # not exec: somebody has to reap orphans' sh "$tree" "$1" "$2"
}

failed=0
for user in ${*:-user root}; do
  tree=$BASE/$SUITE-$user
  make_tree "$user"
  if [ -n "$WITH" ]; then
    run root "apt-get -q update && apt-get -q install -y --no-install-recommends $WITH" \
      >"$tree.with.log" 2>&1 || { tail "$tree.with.log" >&2; exit 1; }
  fi
  for command in $COMMANDS; do
    start=$(date +%s)
    if run "$user" "cd etcdlock && make $command" >"$tree.$command.log" 2>&1 </dev/null; then
      verdict=passed
    else
      verdict=FAILED
      failed=$((failed + 1))
      tail -n 40 "$tree.$command.log"
    fi
    echo "$SUITE${WITH:+ with $WITH}, as $user: make $command $verdict" \
      "($(($(date +%s) - start)) s): $(tail -n 1 "$tree.$command.log")"
  done
  rm -rf --one-file-system "$tree"
done
[ "$failed" -eq 0 ]
