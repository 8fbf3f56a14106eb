#!/bin/sh
# Installs and builds the programs that the benchmark compares with etcdlock, and its tools. If one
# cannot be prepared, prints that, and goes on with the next: the benchmark then runs without it.
#
#   prepare.sh PEER...
#
# PEER: go or java (clients of etcd; java: also of ZooKeeper and Redis), redis (the server), wrk (load
# for nginx), gnuplot (charts), valgrind (`make cost`), networks (`make networks`)
set -u

OUT=build/bench

# Builds what the packages of the peer $1 do not contain.
build() {
  case $1 in
    go) sh spec/support/go/build.sh "$OUT/go" bench/peers/go/*.go ;;
    java) sh spec/support/java/build.sh ;;
  esac
}

mkdir -p "$OUT"
for peer; do
  { sh .ci/deps.sh "$peer" 5.4 && build "$peer"; } ||
    echo "It goes on without $peer, which can't be had: see above."
done
