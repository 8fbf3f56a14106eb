#!/bin/sh
# Runs the suite with several versions of etcd, one after the other, and the stress test with the
# newest three. Prints a table of the results, and in the last line the sum: "N passed, N failed, N
# skipped".
#
#   SPEC=... SHORT=... test_etcd.sh [short]
#
# Runs the specs SPEC with each version, and the specs SHORT with the newest release, three members,
# certificates and passwords. With "short": only the specs SHORT.
set -u

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

# Prints the number before the word $1 in the summary line of the last run; 0 if there is none.
count() {
  sed -n 's/.*[^0-9]\([0-9][0-9]*\) '"$1"'.*/\1/p' "$work/sum" | grep . || echo 0
}

# build_or_count ETCD: builds ETCD, unless it is "installed". Counts a failure: as skipped if there is
# no Go or no such release (status 3), else as failed.
build_or_count() {
  test "$1" = installed || sh spec/support/servers/build_etcd.sh "$1" "build/etcd/$1" && return
  status=$?
  if [ $status -eq 3 ]; then skipped=$((skipped + 1)); else failed=$((failed + 1)); fi
  return 1
}

# row NAME PASSED FAILED SKIPPED START: adds a line to the table.
row() {
  printf '%-44s %4d passed %4d failed %4d skipped %5d s\n' "$1" "$2" "$3" "$4" \
    $(($(date +%s) - $5)) >>"$work/table"
  passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
}

# etcd_of ETCD: prints its name and version.
etcd_of() {
  program=etcd
  test "$1" = installed || program=build/etcd/$1/etcd
  "$program" --version | sed -n 's/^etcd Version: /etcd /p'
}

# suite ETCD MEMBERS SECURE SPECS: ETCD is a version for `make suite ETCD=...`, or "installed".
suite() {
  build_or_count "$1" || return
  name="$(etcd_of "$1")${2:+, $2 members}${3:+, certificates and passwords}"
  echo "==== $name"
  start=$(date +%s)
  # A hang counts as a failure; the other configurations still run.
  timeout --kill-after=10 1800 "${MAKE:-make}" --no-print-directory TESTING=1 \
    suite ETCD="${1#installed}" MEMBERS="$2" SECURE="$3" SPEC="$4" 2>&1 | tee "$work/log"
  grep -E '^[0-9]+ passed, [0-9]+ failed' "$work/log" | tail -n 1 |
    sed 's/^/ /' >"$work/sum"
  # Without a summary line the whole configuration counts as one failure.
  test -s "$work/sum" || echo ' 0 passed, 1 failed' >"$work/sum"
  f=$(count failed)
  # A sanitizer report or a failure of make counts as a failure, too.
  if [ "$f" -eq 0 ] && grep -q '^make.*\*\*\*' "$work/log"; then f=1; fi
  row "$name" "$(count passed)" "$f" "$(count skipped)" "$start"
}

# stress ETCD: runs the stress test.
stress() {
  build_or_count "$1" || return
  name="$(etcd_of "$1"), random use and faults"
  echo "==== $name"
  start=$(date +%s)
  if timeout --kill-after=10 600 "${MAKE:-make}" --no-print-directory stress ETCD="$1" SECONDS=120 SEED="$start"; then
    row "$name" 1 0 0 "$start"
  else
    row "$name" 0 1 0 "$start"
  fi
}

if [ $# -eq 0 ]; then
  for etcd in installed 3.5 3.6 3.7 next; do suite $etcd '' '' "$SPEC"; done
fi
suite 3.7 3 1 "$SHORT"
if [ $# -eq 0 ]; then
  stress 3.6
  stress 3.7
  stress next
fi

echo
cat "$work/table" 2>/dev/null
echo "$passed passed, $failed failed, $skipped skipped"
test "$failed" -eq 0
