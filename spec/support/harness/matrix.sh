#!/bin/sh
# Runs the suite in every configuration of the matrix, one after the other. Prints a table of the
# results, and in the last line the sum: "N passed, N failed, N skipped".
#
#   TESTING=1 SPEC=... matrix.sh [ETCD_VERSION MEMBERS SECURE]...
#
# Without arguments: etcd 3.4 and 3.5, each with one and three members, each plain and secure.
set -u

if [ $# -eq 0 ]; then
  set -- 3.4 1 '' 3.4 1 1 3.4 3 '' 3.4 3 1 3.5 1 '' 3.5 1 1 3.5 3 '' 3.5 3 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

# Prints the number before the word $1 in the sum of the last run; 0 if there is none.
count() {
  sed -n 's/.*[^0-9]\([0-9][0-9]*\) '"$1"'.*/\1/p' "$work/sum" | grep . || echo 0
}

while [ $# -ge 3 ]; do
  configuration="etcd $1, $2 member(s), ${3:+secure}"
  test -n "$3" || configuration="${configuration}plain"
  echo "==== $configuration"
  start=$(date +%s)
  # A hang counts as a failure; the other configurations still run.
  timeout --kill-after=10 1200 "${MAKE:-make}" --no-print-directory TESTING=1 \
    suite ETCD_VERSION="$1" MEMBERS="$2" SECURE="$3" 2>&1 | tee "$work/log"
  seconds=$(($(date +%s) - start))
  grep -E '^[0-9]+ passed, [0-9]+ failed' "$work/log" | tail -n 1 |
    sed 's/^/ /' >"$work/sum"
  # Without a sum the whole configuration counts as one failure.
  test -s "$work/sum" || echo ' 0 passed, 1 failed' >"$work/sum"
  p=$(count passed) f=$(count failed) s=$(count skipped)
  # A sanitizer report or a failure of make counts as a failure, too.
  if [ "$f" -eq 0 ] && grep -q '^make.*\*\*\*' "$work/log"; then f=1; fi
  printf '%-32s %4d passed %4d failed %4d skipped %5d s\n' "$configuration" \
    "$p" "$f" "$s" "$seconds" >>"$work/table"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  shift 3
done

echo
cat "$work/table"
echo "$passed passed, $failed failed, $skipped skipped"
test "$failed" -eq 0
