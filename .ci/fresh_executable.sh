#!/bin/sh
# Builds the executable of the command on this machine, and runs it on bare Debians: those that
# debootstrap makes, with libssl3 in addition, without Lua, gRPC and etcd. The etcd runs on this
# machine. Also checks that the loader names a missing libssl3. Needs root, and access to the
# package server of this machine.
#
#   SUITES="bookworm trixie forky" fresh_executable.sh
set -eu

EXECUTABLE=build/executable/etcdlock
BASE=$PWD/build/fresh
PORT=$((20000 + $$ % 10000))

. .ci/tree.sh

make executable
mkdir -p "$BASE"
data=$(mktemp -d)
url=http://127.0.0.1:$PORT
etcd --data-dir "$data" --listen-client-urls "$url" --advertise-client-urls "$url" \
  --listen-peer-urls http://127.0.0.1:0 >"$BASE/etcd.log" 2>&1 &
etcd=$!
trap 'kill "$etcd"; rm -rf "$data"' EXIT

# try WANTED ARGUMENT...: runs the executable in the tree; prints the command line, its output and its
# exit status. Fails if the exit status is not WANTED.
try() {
  wanted=$1
  shift
  echo "$SUITE: etcdlock $*"
  code=0
  run root "ETCDCTL_ENDPOINTS=$url etcdlock $*" </dev/null >"$tree.out" 2>&1 || code=$?
  sed 's/^/  /' "$tree.out"
  if [ "$code" -ne "$wanted" ]; then
    echo "$SUITE: exit status $code instead of $wanted"
    exit 1
  fi
}

for SUITE in ${SUITES:-bookworm trixie forky}; do
  tree=$BASE/$SUITE-executable
  make_tree "$(if [ "$SUITE" = bookworm ]; then echo libssl3; else echo libssl3t64; fi)"
  if find "$tree" -name 'liblua*' -o -name 'libgrpc*' -o -name 'lua5*' | grep .; then
    echo "$SUITE: this Debian is not bare."
    exit 1
  fi
  cp "$EXECUTABLE" "$tree/usr/bin/etcdlock"
  try 0 --version
  try 0 run fresh true
  try 0 run fresh -- etcdlock ls
  try 0 doctor
  rm "$tree"/usr/lib/*/libssl.so.3
  try 127 --version
  grep -q 'libssl.so.3: cannot open shared object file' "$tree.out"
  echo "$SUITE: the executable runs, and the loader names the missing library."
  rm -rf --one-file-system "$tree"
done
