#!/bin/sh
# Builds a Go program with the modules of go.mod, among them etcd's Go client. They come from Go's
# module cache, or from the module proxy. Does nothing if the program is newer than its sources.
#
#   build.sh PROGRAM FILE...
#
# Exit status 3, and one line on standard error: there is no Go, it is too old, or the modules cannot
# be had.
set -eu

here=$(dirname "$0") program=$1
shift
skip() {
  echo "$1" >&2
  exit 3
}
newer=$(find "$@" "$here/go.mod" "$0" -newer "$program" 2>/dev/null || echo none)
if [ -z "$newer" ]; then exit 0; fi
command -v go >/dev/null || skip "Go is not installed: make test-go installs it"

sources=$program-src
rm -rf "$sources"
mkdir -p "$sources"
cp "$here/go.mod" "$here/go.sum" "$@" "$sources"
name=../${program##*/}
cd "$sources"
if [ -z "${HOME:-}" ]; then export GOCACHE="$PWD/../go-cache" GOPATH="$PWD/../go-path"; fi
log=$(timeout 120 go mod download 2>&1) ||
  skip "$(go env GOVERSION) cannot get the modules of $here/go.mod: $(echo "$log" | tail -n 1)"
exec go build -o "$name" .
