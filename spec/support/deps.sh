#!/bin/sh
# Installs the Debian packages that etcdlock needs and that are missing.
#
#   deps.sh run|openresty|dev LUA_VERSION
#
# run: to build the module and run the demo; openresty: the demo in nginx, too;
# dev: to test and check it all.
# "a|b" is satisfied by either and installs a.
set -eu

lua=$2
case $lua in
  jit) LUA='luajit2|luajit libluajit2-5.1-dev|libluajit-5.1-dev' ;;
  5.1) LUA='lua5.1 liblua5.1-0-dev' ;;
  *) LUA="lua$lua liblua$lua-dev" ;;
esac
RUN="gcc libc6-dev make pkg-config libgrpc-dev libprotobuf-c-dev libssl-dev
  protobuf-c-compiler uthash-dev etcd-server etcd-client $LUA
  lua-cjson lua-luv lua-socket"
# nginx comes with luajit2, which can't be installed together with luajit.
OPENRESTY="nginx libnginx-mod-http-lua luajit2 libluajit2-5.1-dev redis-server
  apache2-utils"
LOOPS="lua-cqueues lua-copas lua-coxpcall"
DEV="lua-busted lua-check clang-format luarocks openssl $LOOPS $OPENRESTY"

case $1 in
  run) wanted=$RUN ;;
  openresty) wanted="$RUN $OPENRESTY" ;;
  dev) wanted="$RUN $DEV" ;;
  *) echo "usage: deps.sh run|openresty|dev LUA_VERSION" >&2; exit 2 ;;
esac

installed() {
  dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null |
    grep -qx installed
}

missing=
for package in $wanted; do
  found=
  for name in $(echo "$package" | tr '|' ' '); do
    if installed "$name"; then found=yes; fi
  done
  if [ -z "$found" ]; then missing="$missing ${package%%|*}"; fi
done
if [ -z "$missing" ]; then exit 0; fi

if ! command -v apt-get >/dev/null; then
  echo "This is not a Debian system. Please install what these packages" \
    "provide there:$missing" >&2
  exit 1
fi
sudo=
if [ "$(id -u)" -ne 0 ]; then
  sudo=sudo
  if ! command -v sudo >/dev/null; then
    echo "Please install these packages as root:$missing" >&2
    exit 1
  fi
fi
echo "Installing:$missing"
# shellcheck disable=SC2086 # a list of words
$sudo sh "$(dirname "$0")/apt_install.sh" $missing
