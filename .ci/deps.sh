#!/bin/sh
# Installs the packages that a purpose needs, if they are missing, on Debian 12, 13 or the next
# release.
#
#   deps.sh run|executable|openresty|dev|all|deb|fuzz|go|java|redis|wrk|gnuplot|valgrind|networks LUA_VERSION
#
# The purposes:
#   run               build the module, run the demo
#   executable        build the command as one executable: static libraries
#   openresty         as run, and run the demo in nginx
#   dev               as run, and run the tests
#   all               as dev, and run `make check-all`: adds a browser, promtool, fish, zsh and clang
#   deb               build the Debian packages
#   fuzz              as run, and run `make fuzz`: adds clang
#   go, java          run the clients of that language in `make bench`
#   redis             run the locks in Redis of `make bench`
#   wrk               run the nginx row of `make bench`
#   gnuplot           draw the charts of `make bench`
#   valgrind          run `make cost`
#   networks          run `make networks`
set -eu

LOG=build/apt.log
END='apt_install.sh ended with status' # begins the last line of the log

is_installed() {
  dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null |
    grep -qx installed
}

debian_version() {
  (. /etc/os-release && echo "${VERSION_ID:-}")
}

# nginx_has_no_lua: succeeds if the Lua module of nginx cannot be installed. In Debian 12 that
# module needs luajit2, whose packages conflict with those of luajit. If luajit is installed, this
# script keeps it and uses it. In Debian 13 the Lua module of nginx runs on luajit itself.
nginx_has_no_lua() {
  [ "$(debian_version)" = 12 ] && is_installed libluajit-5.1-2
}
NO_LUA="Debian 12's nginx has no Lua beside the luajit that is installed here: its Lua module
is for luajit2, and the packages of the two can't be installed together."

# Prints the LuaJIT packages to install. These are the packages of luajit2 if luajit is not
# installed, and luajit2 is installed or this is Debian 12. Otherwise they are those of luajit.
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
BUILD="gcc libc6-dev make pkg-config libgrpc-dev libprotobuf-c-dev libssl-dev
  protobuf-c-compiler uthash-dev $LUA"
EXECUTABLE="$BUILD g++ libabsl-dev libc-ares-dev libre2-dev libuv1-dev
  lua-argparse lua-dkjson lua-luv-dev"
RUN="$BUILD etcd-server etcd-client lua-argparse lua-dkjson lua-luv lua-socket"
NGINX="nginx $LUAJIT"
if ! nginx_has_no_lua; then NGINX="libnginx-mod-http-lua $NGINX"; fi
LOOPS="lua-cqueues lua-copas lua-coxpcall"
DEV="lua-busted lua-check clang-format luarocks locales openssl ca-certificates man-db jq
  python3-grpcio python3-prometheus-client $LOOPS $NGINX"
FUZZ="clang libclang-rt-dev"
ALL="chromium-headless-shell fish prometheus zsh $FUZZ"

case $1 in
  run) wanted=$RUN ;;
  executable) wanted=$EXECUTABLE ;;
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
    }' .ci/debian/control | grep -v debhelper-compat)"
    if apt-cache show liblua5.5-dev >/dev/null 2>&1; then wanted="$wanted liblua5.5-dev lua5.5"; fi
    ;;
  fuzz) wanted="$RUN $FUZZ openssl" ;;
  go) wanted=$(command -v go >/dev/null || echo golang-go) ;;
  java) wanted=$(command -v mvn >/dev/null || echo default-jdk-headless maven) ;;
  redis) wanted=redis-server ;;
  wrk) wanted=wrk ;;
  gnuplot) wanted=gnuplot-nox ;;
  valgrind) wanted=valgrind ;;
  networks) wanted="haproxy iproute2 strace" ;;
  *) echo "usage: deps.sh run|executable|openresty|dev|all|deb|fuzz|go|java|redis|wrk|gnuplot|valgrind|networks LUA_VERSION" >&2; exit 2 ;;
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
  # If sudo needs a password, it asks for the password here, where its prompt is visible. "sudo -n
  # true" comes first, because "sudo -v" may ask for a password although sudo needs none.
  if ! command -v sudo >/dev/null || { ! $sudo -n true 2>/dev/null && ! $sudo -v; }; then
    echo "These packages are missing, and sudo can't install them:$missing" >&2
    echo "As root, 'make deps' installs them, and starts no services." >&2
    exit 1
  fi
fi

live= # on a terminal: the escape sequence that clears the line
if [ -t 1 ] && [ "${TERM:-dumb}" != dumb ]; then live=$(printf '\r\033[K'); fi
trap 'echo "${live}interrupted" >&2; exit 130' INT

# Copies the output of apt to the log. On a terminal, shows the newest line of the output, in place
# of the line before. Returns the status of apt_install.sh. Ctrl-C does not end this function,
# because apt_install.sh must first disable the services and report its status.
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
