#!/bin/sh
# Runs the suite ($SPEC) with $MAKE on every Lua, one after the other, also after a failure. The
# last line is the sum: "N passed, N failed[, N skipped]".
set -u

log=$(mktemp)
trap 'rm -f "$log" "$log.status"' EXIT
passed=0 failed=0 skipped=0

# Prints the number before |$1| in the suite's last line; 0 if there is none.
count() {
  grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1 |
    grep -oE "[0-9]+ $1" | grep -oE '[0-9]+' || echo 0
}

for lua in 5.1 5.2 5.3 5.4 5.5 jit; do
  if [ $lua = 5.5 ] && ! lua5.5 -e 'require "luv"' >"$log" 2>&1; then
    echo "==== Lua 5.5: skipped, because lua5.5 or luv for it is not installed"
    continue
  fi
  echo "==== Lua $lua"
  $MAKE LUA_VERSION=$lua deps &&
    { $MAKE LUA_VERSION=$lua TESTING=1 SPEC="$SPEC" suite 2>&1; echo $? >"$log.status"; } |
    tee "$log"
  status=$(cat "$log.status" 2>/dev/null || echo 1)
  rm -f "$log.status"
  broken=$(count failed)
  # The build or the end of the run can fail although no test failed.
  if [ $status -ne 0 ] && [ "$broken" -eq 0 ]; then broken=1; fi
  passed=$((passed + $(count passed)))
  failed=$((failed + broken))
  skipped=$((skipped + $(count skipped)))
  : >"$log"
done

summary="$passed passed, $failed failed"
if [ $skipped -gt 0 ]; then summary="$summary, $skipped skipped"; fi
echo "$summary"
[ $failed -eq 0 ]
