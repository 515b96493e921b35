#!/bin/bash
# The demonstration: a data set made on the spot, then a folder of images that nobody generated.
# usage: tools/demo.sh [WORK_FOLDER]
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
forebay="${FOREBAY:-$root/build/release/bin/forebay}"
work="${1:-$root/build/demo}"
mkdir -p "$work"
cd "$work"

# Runs a command after showing it. Exit code 3 (the gate was not met) is a result, not a failure.
show() {
  printf '\n$ forebay %s\n' "$*"
  local code=0
  "$forebay" "$@" || code=$?
  [ "$code" -eq 0 ] || [ "$code" -eq 3 ] || exit "$code"
}

show generate demo --data data
show run demo --data data --accelerators 2

# The same job on storage that is too slow for it: who is to blame?
slow=slow:latency=20ms,bandwidth=150MB,over=local
show run demo --data data --accelerators 2 --storage "$slow" --out slow --trace slow/run.fbt

# Real pictures: FOREBAY_REAL_DATA when it is there, else the ones in examples/pictures.
images="$root/examples/pictures"
for candidate in "${FOREBAY_REAL_DATA:-}" "$root/../shared/real"; do
  if [ -n "$candidate" ] && [ -d "$candidate/exif-orientation" ]; then
    images="$candidate/exif-orientation"
    break
  fi
done
show inspect "$images" --format jpeg
show run demo_images --data "$images" dataset.format=jpeg reader.batch_size=2

# Why the slow run waited, and all of it on one page; a build without npm has none, and says so.
show explain slow
printf '\n$ forebay report slow\n'
"$forebay" report slow && printf 'open %s/slow/report.html in a browser\n' "$PWD" || true
