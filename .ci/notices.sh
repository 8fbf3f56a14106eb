#!/bin/sh
# Prints the licence notices of the executable etcdlock: our LICENSE, the copyright files of the
# Debian packages that own the given FILEs, and the full licences to which these refer.
#
#   notices.sh FILE...
set -eu

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
line=$(printf '%079d' 0 | tr 0 =)

# heading TEXT: prints TEXT between two lines.
heading() {
  printf '\n%s\n%s\n%s\n\n' "$line" "$1" "$line"
}

echo "The executable etcdlock contains etcdlock, and the libraries that are named below."
heading etcdlock
cat LICENSE

# Packages may share a copyright file.
for file in "$@"; do
  owner=$(dpkg-query -S "$(realpath "$file")") || {
    echo "$file is of no Debian package, so its licence is unknown." >&2
    exit 1
  }
  realpath "/usr/share/doc/${owner%%:*}/copyright"
done >"$directory/files"

sort -u "$directory/files" | while read -r file; do
  heading "$(basename "$(dirname "$file")")"
  cat "$file"
done | tee "$directory/copyrights"

grep -oE '/usr/share/common-licenses/[A-Za-z0-9.+-]*[A-Za-z0-9]' "$directory/copyrights" |
  xargs realpath | sort -u | while read -r file; do
  heading "$file"
  cat "$file"
done
