#!/bin/sh
# Builds the Java programs here and in bench/peers/java with Maven: build/java/classes, and their
# libraries in build/java/lib. The libraries come from Maven's local or remote repository. Does
# nothing if the programs are newer than their sources. Run it in the root of the checkout.
#
# Exit status 3, and one line on standard error: there is no Java or Maven, or the libraries cannot
# be had.
set -eu

OUT=build/java
SOURCES='spec/support/java bench/peers/java'
skip() {
  echo "$1" >&2
  exit 3
}
# shellcheck disable=SC2086 # a list of words
newer=$(find $SOURCES -type f -newer $OUT/ready 2>/dev/null || echo none)
if [ -z "$newer" ]; then exit 0; fi
command -v javac >/dev/null && command -v mvn >/dev/null || skip "Java or Maven is not installed"

# make runs several spec files at the same time.
mkdir -p $OUT
exec 9>$OUT/lock
flock 9
# shellcheck disable=SC2086 # a list of words
newer=$(find $SOURCES -type f -newer $OUT/ready 2>/dev/null || echo none)
if [ -z "$newer" ]; then exit 0; fi
rm -rf $OUT/src $OUT/target $OUT/lib $OUT/classes $OUT/ready
mkdir -p $OUT/src
cp spec/support/java/pom.xml $OUT
cp spec/support/java/*.java bench/peers/java/*.java $OUT/src
cd $OUT
maven() {
  timeout 500 mvn -q -B "$@" -Daether.connector.connectTimeout=10000 dependency:copy-dependencies \
    -DoutputDirectory=lib
}
log=$(maven -o 2>&1) || log=$(maven 2>&1) || {
  why=$(echo "$log" | sed -n 's/.*ERROR\S* *//p' | head -n 1 | cut -c 1-200)
  skip "Maven cannot get the libraries of spec/support/java/pom.xml: $why"
}
mkdir classes
javac -nowarn -d classes -cp 'lib/*' src/*.java
touch ready
