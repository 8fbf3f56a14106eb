#!/bin/sh
# Builds etcd and its tools with Go: the newest release of a minor version, the given release, or the
# newest preview of the next minor version.
#
#   build_etcd.sh 3.7|3.5.30|next DIR     -> DIR/etcd, DIR/etcdctl, DIR/etcdutl
#
# DIR is not changed if it has that release, or has any and Go cannot list or download releases.
# Otherwise, without Go, such a release or a download, it ends with status 3 and one line on
# standard error.
set -eu

wanted=$1 target=$2
skip() {
  echo "etcd $wanted cannot be built, so it is not tested: $1" >&2
  exit 3
}

mkdir -p "$target"
cd "$target"
# keep REASON: goes on with the programs that are there, or skips.
keep() {
  if [ -x etcd ]; then exit 0; fi
  skip "$1"
}
command -v go >/dev/null || keep "there is no Go to build it ('make test-go' installs Go)"
versions=$(go list -m -versions go.etcd.io/etcd/server/v3 2>&1) ||
  keep "Go cannot list its versions: $(echo "$versions" | tail -n 1)"
list() { echo "$versions" | tr ' ' '\n' | grep -Ex "$1" | sort -V | tail -n 1; }
if [ "$wanted" = next ]; then
  newest=$(list 'v[0-9.]+-(alpha|beta|rc).*')
  test -n "$newest" && test -z "$(list "${newest%%-*}")" || skip "there is no preview of a later version"
else
  newest=$(list "v$wanted(\.[0-9]+)?")
  test -n "$newest" || skip "Go has no such release (the first ones are those of 3.5)"
fi
if [ -x etcd ] && [ "$(cat version 2>/dev/null)" = "$newest" ]; then exit 0; fi

echo "Building etcd $newest (a minute)"
rm -rf new
mkdir new
cd new
go mod init etcd 2>/dev/null
# `go install PROGRAM@VERSION` refuses: the modules of etcd have replace directives.
for program in server etcdctl etcdutl; do
  echo "go.etcd.io/etcd/$program/v3@$newest"
done | xargs go get >build.log 2>&1 || { why=$(tail -n 1 build.log); cd ..; keep "$why"; }
for program in server etcdctl etcdutl; do
  name=$(echo $program | sed s/server/etcd/)
  go build -o "$name" "go.etcd.io/etcd/$program/v3" || exit 1
done
echo "$newest" >version
mv -f etcd etcdctl etcdutl version ..
cd ..
rm -rf new
