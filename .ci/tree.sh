# Functions that make a fresh Debian $SUITE in the directory $tree and run commands in it. Scripts
# read this file with ".". Needs root, and access to the package server of this machine.

CODENAME=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=$(sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) .*/\2/p' \
  /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1)
command -v debootstrap >/dev/null || {
  echo 'apt-get install debootstrap, please' >&2
  exit 1
}

# make_tree [PACKAGE,...]: makes $tree, a minimal Debian with these packages (default: sudo and
# make), and with the package sources of this machine.
make_tree() {
  rm -rf --one-file-system "$tree"
  mkdir -p "$tree"
  # The script of sid, because debootstrap may be older than the suite.
  debootstrap --variant=minbase --include="${1:-sudo,make}" "$SUITE" "$tree" "$mirror" sid \
    >"$tree.log" 2>&1 || { tail "$tree.log" >&2; return 1; }
  cp /etc/resolv.conf /etc/hosts "$tree/etc/"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/* /etc/apt/apt.conf.d/99*; do
    if [ -f "$file" ]; then
      sed "s/$CODENAME/$SUITE/g" "$file" >"$tree$file"
    fi
  done
  # apt installs a package of experimental only if the caller names the suite.
  if [ "$SUITE" = forky ]; then
    echo "deb $mirror experimental main" >"$tree/etc/apt/sources.list.d/experimental.list"
  fi
}

# make_home USER: sets $home to the home directory of USER in the tree, and puts the sources of HEAD
# into $home/etcdlock. Creates the user unless USER is root.
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

# run USER COMMAND: runs the command as USER in the tree. When the command ends, its processes are
# killed and the mounts of the tree disappear.
run() {
  # shellcheck disable=SC2016 # the inner shell expands the variables
  unshare --mount --pid --fork --kill-child sh -c '
    mount -t proc proc "$1/proc" && mount -t sysfs sysfs "$1/sys" &&
    mount --rbind /dev "$1/dev" && mount -t tmpfs tmpfs "$1/tmp" && chmod 1777 "$1/tmp" &&
    chroot "$1" su --login --command "$3" "$2"
    exit $? # not exec: somebody has to reap orphans' sh "$tree" "$1" "$2"
}
