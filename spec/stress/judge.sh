#!/bin/sh
# Judges with porcupine whether the history in a file is linearizable; record.lua describes it.
# Without Go, or without its modules, prints one line and succeeds.
#
#   judge.sh FILE
set -eu

PROGRAM=build/spec/go_linearizable
sh spec/support/go/build.sh $PROGRAM spec/support/go/linearizable.go || {
  status=$?
  if [ "$status" -eq 3 ]; then echo "The history is not judged."; exit 0; fi
  exit "$status"
}
exec $PROGRAM "$1"
