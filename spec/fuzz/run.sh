#!/bin/sh
# Runs each fuzz target for $SECONDS seconds, one after the other, also after a failure. The first
# inputs of a target are the seeds, inputs that failed in the past (spec/fuzz/regressions), and the
# inputs that earlier runs have found. An input that fails is kept in build/fuzz/found. To repeat
# the failure, run the target with this file as its argument.
#
#   run.sh TARGET...
set -u

status=0
for target in "$@"; do
  name=${target##*/} directory=${target%/*}
  mkdir -p "$directory/corpus/$name" "$directory/seeds/$name" "$directory/found"
  cp spec/fuzz/regressions/"$name"-* "$directory/seeds/$name" 2>/dev/null || true
  if "$target" -max_total_time="$SECONDS" -max_len=16384 -timeout=10 -print_final_stats=1 \
    -artifact_prefix="$directory/found/$name-" \
    "$directory/corpus/$name" "$directory/seeds/$name" >"$target.log" 2>&1; then
    echo "fuzz $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$target.log") inputs"
  else
    tail -n 60 "$target.log" >&2
    echo "fuzz $name: FAILED; the input and what it led to are above and in $target.log" >&2
    status=1
  fi
done
exit $status
