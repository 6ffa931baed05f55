#!/bin/sh
# The numbers of docs/reference/test.md about p4testgen: its tests of the programs, on the embedded switch.
# Needs p4testgen on the PATH. TRIBUTARY names a built `tributary-p4` to use.
# Usage: scripts/p4testgen.sh [--tests N] [--minutes M] PROGRAM.p4 ...
set -eu

tests=10
minutes=0.5
while [ $# -gt 0 ]; do
    case "$1" in
        --tests) tests=$2; shift 2 ;;
        --minutes) minutes=$2; shift 2 ;;
        *) break ;;
    esac
done

if [ -z "${TRIBUTARY:-}" ]; then
    root=$(cd "$(dirname "$0")/.." && pwd)
    cargo build --release --manifest-path "$root/Cargo.toml" --package tributary-p4-tools
    TRIBUTARY=$root/target/release/tributary-p4
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for program; do
    # One test of our own is enough here.
    said=$("$TRIBUTARY" test "$program" --out "$out/tests" --max-tests 1 --minutes "$minutes" \
        --with-p4testgen "$tests" 2>&1 | grep -E '^(FAIL|p4testgen|error)' || true)
    printf '%s\n' "$said" | sed "s|^|$(basename "$program" .p4): |"
    for test in "$out"/tests/p4testgen/*.stf; do
        [ -e "$test" ] || continue
        grep -qi '^expect' "$test" && echo "packet"
        grep -qiE '^(add|setdefault)' "$test" && echo "table"
    done > "$out/kinds" || true
    echo "kinds: $(grep -c packet "$out/kinds" || true) $(grep -c table "$out/kinds" || true)"
    rm -rf "$out/tests"
done | awk '
    /^kinds: / { packets += $2; tables += $3; next }
    { print }
    / tests pass; / { programs += 1; pass += $3; of += $5 }
    END {
        printf "%d of %d tests of %d programs pass; %d expect a packet, %d change a table\n",
            pass, of, programs, packets, tables
    }'
