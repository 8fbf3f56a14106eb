#!/bin/sh
# Tests `make deb` and its packages on a fresh Debian. Builds the packages in one directory tree. In
# a second tree, installs them with apt, uses them, and removes them. Fails if the second tree does
# not have the same paths after the removal as before the installation. Needs root, and access to
# the package server of this machine.
#
#   SUITE=bookworm|trixie fresh_deb.sh
set -eu

SUITE=${SUITE:-bookworm}
BASE=$PWD/build/fresh/$SUITE-deb
# The LuaJIT package that the Lua module of nginx needs in this Debian. The two LuaJIT packages
# conflict, so only this one can be tested.
LUAJIT=$(if [ "$SUITE" = bookworm ]; then echo luajit2; else echo luajit; fi)
APT='DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3'

. .ci/tree.sh

# step NAME COMMAND: runs the command as root in the tree. Prints whether it passed; exits if it
# failed.
step() {
  start=$(date +%s)
  if ! run root "$2" >"$BASE.log" 2>&1 </dev/null; then
    tail -n 40 "$BASE.log"
    echo "$SUITE: $1 FAILED"
    exit 1
  fi
  echo "$SUITE: $1 passed ($(($(date +%s) - start)) s): $(tail -n 1 "$BASE.log")"
}

# Prints all paths in the tree, except those below /tmp, /run, /var/log, the home directory, and the
# directories in which apt keeps downloaded files and package lists.
list() {
  (cd "$tree" && find . -xdev \( -path ./var/cache -o -path ./var/lib/apt -o -path ./var/log \
    -o -path ".$home" -o -path ./tmp -o -path ./run \) -prune -o -print | sort)
}

tree=$BASE-build
make_tree
make_home root
step 'make deb' "cd etcdlock && $APT update && make deb-deps deb"
rm -rf --one-file-system "$BASE"
mkdir -p "$BASE"
cp "$tree$home"/etcdlock/build/deb/*.deb "$BASE"
rm -rf --one-file-system "$tree"

tree=$BASE-use
make_tree
mkdir "$tree$home/debs"
cp "$BASE"/*.deb "$tree$home/debs"
cp .ci/hostile_directory.sh "$tree$home"
# The dependencies of the packages, and etcd, nginx and the Luas for the test, are installed before
# the first list, so that the lists differ only by the packages under test. No service starts,
# because the tree has no init.
step 'what they need' "$APT update &&
  $APT install --no-install-recommends etcd-server curl nginx libnginx-mod-http-lua \
    lua5.1 lua5.2 lua5.3 lua5.4 $LUAJIT \
    \$($APT -s install --no-install-recommends ./debs/*.deb | awk '/^Inst/ && !/etcdlock/ { print \$2 }')"
list >"$BASE/before"
step 'apt install' "$APT install --no-install-recommends ./debs/*.deb"
step 'use' 'set -e
  etcd --data-dir /tmp/etcd >/tmp/etcd.log 2>&1 & etcd=$!
  trap "kill $etcd" EXIT
  for lua in lua5.1 lua5.2 lua5.3 lua5.4 luajit; do
    $lua -e "print(_VERSION, assert(require([[etcdlock]]).with_lock([[fresh]], { timeout = 60 },
      function(lock) return lock:token() end)))"
  done
  cat >/tmp/nginx.conf <<END
    include /etc/nginx/modules-enabled/*.conf;
    events {}
    http {
      client_body_temp_path /tmp/body; proxy_temp_path /tmp/proxy; scgi_temp_path /tmp/scgi;
      fastcgi_temp_path /tmp/fastcgi; uwsgi_temp_path /tmp/uwsgi;
      server {
        listen 127.0.0.1:8080;
        location / {
          content_by_lua_block { ngx.say(require("etcdlock").with_lock("fresh", ngx.get_phase)) }
        }
      }
    }
END
  nginx -c /tmp/nginx.conf
  curl --silent --fail --retry 10 --retry-connrefused http://127.0.0.1:8080/ | tee /tmp/answer
  nginx -s stop
  grep -qx truecontent /tmp/answer
  sh hostile_directory.sh etcdlock --version
  etcdlock --licenses | grep -q "MIT License"
  test -e /usr/share/man/man1/etcdlock.1.gz
  test -e /usr/share/doc/etcdlock/examples/worker.service -a -e /usr/share/doc/etcdlock/NOTICES.gz
  test -e /usr/share/zsh/vendor-completions/_etcdlock
  test -e /usr/share/fish/vendor_completions.d/etcdlock.fish
  sh hostile_directory.sh etcdlock run fresh -- echo "the command has had the lock, like each Lua and nginx"'
step 'apt purge' "$APT purge \$(cd debs && ls | sed 's/_.*//')"
list >"$BASE/after"
if ! diff "$BASE/before" "$BASE/after"; then
  echo "$SUITE: what differs after the removal is above."
  exit 1
fi
echo "$SUITE: nothing is left ($(wc -l <"$BASE/before") files and directories, before and after)"
rm -rf --one-file-system "$tree"
