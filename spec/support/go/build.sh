#!/bin/sh
# Builds a program in Go from Debian's sources of etcd's client: no module is fetched.
#
#   build.sh PROGRAM FILE...
#
# Ends with 3 where Go isn't here, or etcd's client for it.
set -eu

GOPATH=/usr/share/gocode
OLD=go.etcd.io/etcd/clientv3
NEW=go.etcd.io/etcd/client/v3 # of etcd 3.5 and later, Debian 13's

program=$1
shift
missing() {
  echo "No $1 here" >&2
  exit 3
}
command -v go >/dev/null || missing Go
if [ -d "$GOPATH/src/$NEW" ]; then client=$NEW recipes=$NEW/experimental/recipes
elif [ -d "$GOPATH/src/$OLD" ]; then client=$OLD recipes=go.etcd.io/etcd/contrib/recipes
else missing "client of etcd in Go"; fi

sources=$program-src
rm -rf "$sources"
mkdir -p "$sources"
for file; do
  sed "s,$OLD,$client,; s,go.etcd.io/etcd/contrib/recipes,$recipes," "$file" \
    >"$sources/${file##*/}"
done
if [ -z "${HOME:-}" ]; then export GOCACHE="$PWD/$program-cache"; fi
GO111MODULE=off GOPATH=$GOPATH exec go build -o "$program" "./$sources"
