#!/bin/sh
# Gets ready whom etcdlock is measured beside. Each comes by itself: who can't be had is
# told of, and left out.
#
#   prepare.sh PEER...      go, python, node, wrk; perf, to see where the time goes
set -u

OUT=build/bench
DEBIANS_GO=/usr/share/gocode
OLD_PATH=go.etcd.io/etcd/clientv3
NEW_PATH=go.etcd.io/etcd/client/v3 # of etcd 3.5 and later, Debian 13's

deps() {
  sh .ci/deps.sh "$1" 5.4
}

prepare_python() {
  deps python
}

prepare_wrk() {
  deps wrk
}

prepare_perf() {
  deps perf
}

# From Debian's sources alone: no module is fetched.
prepare_go() {
  deps go || return 1
  path=$OLD_PATH
  if [ -d "$DEBIANS_GO/src/$NEW_PATH" ]; then path=$NEW_PATH; fi
  mkdir -p "$OUT/go-src"
  for file in bench/peers/go/*.go; do
    sed "s,$OLD_PATH,$path," "$file" >"$OUT/go-src/${file##*/}"
  done
  if [ -z "${HOME:-}" ]; then export GOCACHE="$PWD/$OUT/go-cache"; fi
  [ -x "$OUT/go" ] || echo "Building $OUT/go"
  GO111MODULE=off GOPATH=$DEBIANS_GO go build -o "$OUT/go" "./$OUT/go-src"
}

prepare_node() {
  deps node || return 1
  [ -d "$OUT/node/node_modules/etcd3" ] || npm install --prefix "$OUT/node" --no-audit --no-fund \
    --ignore-scripts --loglevel error etcd3@1.1.2
}

mkdir -p "$OUT"
for peer; do
  "prepare_$peer" || echo "It goes on without $peer, which can't be had: see above."
done
