#!/bin/sh
# Makes the pictures of docs/operate/watch.md with headless Chromium: of examples/esa-two-jobs.toml in virtual time.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
tributary=${TRIBUTARY:-target/release/tributary}
"$tributary" run examples/esa-two-jobs.toml --fabric sim --record "$work/run.jsonl"
"$tributary" watch --replay "$work/run.jsonl" 2> "$work/address" &
watch=$!
trap 'kill "$watch"; rm -r "$work"' EXIT
until grep -q '^watch at ' "$work/address"; do sleep 0.1; done
url=$(sed -n 's/^watch at //p' "$work/address")
picture() {
    chromium --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" --hide-scrollbars \
        --window-size=1280,980 --virtual-time-budget=3000 --screenshot="docs/images/$1" "$2" 2> "$work/log"
}
picture watch.png "$url#at=${AT:-33700}"
