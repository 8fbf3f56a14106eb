#!/bin/sh
# Builds a Go program with Debian's sources of etcd's Go client. It downloads no Go module.
#
#   build.sh PROGRAM FILE...
#
# Exit status 3: Go or etcd's Go client is not installed.
set -eu

GOPATH=/usr/share/gocode
OLD=go.etcd.io/etcd/clientv3
NEW=go.etcd.io/etcd/client/v3 # etcd 3.5 and later (Debian 13)

program=$1
shift
missing() {
  echo "$1 is not installed" >&2
  exit 3
}
command -v go >/dev/null || missing Go
if [ -d "$GOPATH/src/$NEW" ]; then client=$NEW recipes=$NEW/experimental/recipes
elif [ -d "$GOPATH/src/$OLD" ]; then client=$OLD recipes=go.etcd.io/etcd/contrib/recipes
else missing "etcd's Go client"; fi

sources=$program-src
rm -rf "$sources"
mkdir -p "$sources"
for file; do
  sed "s,$OLD,$client,; s,go.etcd.io/etcd/contrib/recipes,$recipes," "$file" \
    >"$sources/${file##*/}"
done
if [ -z "${HOME:-}" ]; then export GOCACHE="$PWD/$program-cache"; fi
GO111MODULE=off GOPATH=$GOPATH exec go build -o "$program" "./$sources"
