#!/bin/bash
# usage: rgw_down.sh DIR    Ends what rgw_up.sh DIR started and waits until it is gone.
set -uo pipefail
shopt -s nullglob
for file in "$1"/run/*.pid; do
  pid=$(cat "$file")
  kill "$pid" 2>/dev/null || continue
  for _ in $(seq 100); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.2
  done
  kill -9 "$pid" 2>/dev/null
done
rm -rf "$1"
