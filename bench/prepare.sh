#!/bin/sh
# Installs and builds the programs that the benchmark compares with etcdlock, and its tools. If one
# cannot be prepared, prints that, and goes on with the next: the benchmark then runs without it.
#
#   prepare.sh PEER...
#
# PEER: go, java, python or node (clients of etcd; java: also of ZooKeeper and Redis), wrk (load for
# nginx), gnuplot (charts), valgrind (`make cost`), networks (`make networks`)
set -u

OUT=build/bench

deps() {
  sh .ci/deps.sh "$1" 5.4
}

prepare_python() {
  deps python
}

prepare_wrk() {
  deps wrk
}

prepare_gnuplot() {
  deps gnuplot
}

prepare_valgrind() {
  deps valgrind
}

prepare_networks() {
  deps networks
}

prepare_go() {
  deps go || return 1
  sh spec/support/go/build.sh "$OUT/go" bench/peers/go/*.go
}

prepare_java() {
  deps java || return 1
  sh spec/support/java/build.sh
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
