# A fresh Debian, $SUITE, in the directory $tree: to be read by scripts that run
# something in there. Needs root, and where this machine gets its packages.

CODENAME=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=$(sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) .*/\2/p' \
  /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1)
command -v debootstrap >/dev/null || {
  echo 'apt-get install debootstrap, please' >&2
  exit 1
}

# A tree with what debootstrap puts there, sudo and make.
make_tree() {
  rm -rf --one-file-system "$tree"
  mkdir -p "$tree"
  debootstrap --variant=minbase --include=sudo,make "$SUITE" "$tree" "$mirror" \
    >"$tree.log" 2>&1 || { tail "$tree.log" >&2; return 1; }
  cp /etc/resolv.conf /etc/hosts "$tree/etc/"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/* /etc/apt/apt.conf.d/99*; do
    if [ -f "$file" ]; then
      sed "s/$CODENAME/$SUITE/g" "$file" >"$tree$file"
    fi
  done
}

# The checkout in $home, that of |1|, who is made if need be.
make_home() {
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
