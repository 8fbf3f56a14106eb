#!/bin/sh
# Installs the Debian packages (12 and 13) that etcdlock needs and that are
# missing.
#
#   deps.sh run|openresty|dev|all|deb|fuzz|go|python|node|wrk|perf LUA_VERSION
#
# run: to build the module and run the demo; openresty: the demo in nginx as well; dev: to run the
# tests; all: for `make check-all`, with a browser and clang; deb: to build packages; fuzz: clang, for
# `make fuzz`; the others: one peer of `make bench` each, and perf.
set -eu

LOG=build/apt.log
END='apt_install.sh ended with status' # the last line of the log

is_installed() {
  dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null |
    grep -qx installed
}

debian_version() {
  (. /etc/os-release && echo "${VERSION_ID:-}")
}

# nginx's Lua runs on luajit2 (Debian 12) or on luajit (13), which can't be installed
# side by side: what is there stays, and is used. So with luajit Debian 12's nginx can
# have no Lua: its lua-resty-core wants the other.
nginx_has_no_lua() {
  [ "$(debian_version)" = 12 ] && is_installed libluajit-5.1-2
}
NO_LUA="Debian 12's nginx has no Lua beside the luajit that is installed here: its Lua module
is for luajit2, and the packages of the two can't be installed together."

luajit_packages() {
  if ! is_installed libluajit-5.1-2 &&
    { is_installed libluajit2-5.1-2 || [ "$(debian_version)" = 12 ]; }; then
    echo luajit2 libluajit2-5.1-dev
  else
    echo luajit libluajit-5.1-dev
  fi
}

lua=$2
LUAJIT=$(luajit_packages)
case $lua in
  jit) LUA=$LUAJIT ;;
  5.1) LUA='lua5.1 liblua5.1-0-dev' ;;
  *) LUA="lua$lua liblua$lua-dev" ;;
esac
RUN="gcc libc6-dev make pkg-config libgrpc-dev libprotobuf-c-dev libssl-dev
  protobuf-c-compiler uthash-dev etcd-server etcd-client $LUA
  lua-argparse lua-cjson lua-luv lua-socket"
NGINX="nginx $LUAJIT redis-server apache2-utils"
if ! nginx_has_no_lua; then NGINX="libnginx-mod-http-lua $NGINX"; fi
LOOPS="lua-cqueues lua-copas lua-coxpcall"
DEV="lua-busted lua-check lua-ldoc clang-format luarocks locales openssl ca-certificates man-db
  python3-prometheus-client $LOOPS $NGINX"
FUZZ="clang libclang-rt-dev"
ALL="chromium-headless-shell $FUZZ"

case $1 in
  run) wanted=$RUN ;;
  openresty)
    if nginx_has_no_lua; then
      echo "$NO_LUA" >&2
      echo "This needs it: 'apt-get install luajit2' puts luajit2 in its place." >&2
      exit 1
    fi
    wanted="$RUN $NGINX"
    ;;
  dev | all)
    if nginx_has_no_lua; then
      echo "$NO_LUA The specs that need it are skipped."
    fi
    wanted="$RUN $DEV"
    if [ "$1" = all ]; then wanted="$wanted $ALL"; fi
    ;;
  deb)
    wanted="build-essential debhelper lintian $(sed -n '/^Build-Depends:/,/^Standards/ {
      s/^Build-Depends: //; s/^ *\([a-z0-9.+-]*\).*/\1/p
    }' .ci/debian/control | grep -v debhelper-compat)" ;;
  fuzz) wanted="$RUN $FUZZ openssl" ;;
  go) wanted='golang-go golang-etcd-server-dev' ;;
  python) wanted=python3-etcd3 ;;
  # Others' nodejs brings its own npm, which Debian's is in conflict with.
  node) wanted=$(command -v npm >/dev/null || echo nodejs npm) ;;
  wrk) wanted=wrk ;;
  perf) wanted=linux-perf ;;
  *) echo "usage: deps.sh run|openresty|dev|all|deb|fuzz|go|python|node|wrk|perf LUA_VERSION" >&2; exit 2 ;;
esac

missing=
for package in $wanted; do
  if ! is_installed "$package"; then missing="$missing $package"; fi
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
  # Asks for the password, if one is wanted, where it can be seen. ("sudo -v" wants
  # one also of those who may run everything without.)
  if ! command -v sudo >/dev/null || { ! $sudo -n true 2>/dev/null && ! $sudo -v; }; then
    echo "These packages are missing, and sudo can't install them:$missing" >&2
    echo "As root, 'make deps' installs them, and starts no services." >&2
    exit 1
  fi
fi

live=
if [ -t 1 ] && [ "${TERM:-dumb}" != dumb ]; then live=$(printf '\r\033[K'); fi # to the empty line
trap 'echo "${live}interrupted" >&2; exit 130' INT

# Writes what apt prints to the log and, on a terminal, its newest line to one line that is
# overwritten. Returns apt's status. Ctrl-C does not end it: apt_install.sh has to tidy up first.
follow() {
  trap '' INT
  cr=$(printf '\r')
  while IFS= read -r line; do
    printf '%s\n' "$line"
    if [ -n "$live" ]; then printf '%s  %.56s' "$live" "${line##*"$cr"}" >&3; fi
    case $line in "$END "*) return "${line#"$END "}" ;; esac
  done >"$LOG"
  return 1
}

# shellcheck disable=SC2086 # a list of words
set -- $missing
echo "Installing $# Debian packages, usually in 1 to 3 minutes (log: $LOG):$missing"
mkdir -p "${LOG%/*}"
if {
  $sudo sh "$(dirname "$0")/apt_install.sh" "$@" 2>&1 </dev/null && code=0 || code=$?
  echo "$END $code"
} | follow 3>&1; then
  echo "${live}The packages are installed."
else
  printf %s "$live"
  tail -n 20 "$LOG" >&2
  echo "apt could not install them; the end of $LOG is above." >&2
  exit 1
fi
