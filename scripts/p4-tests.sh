#!/bin/sh
# The table of docs/reference/test.md: what generated tests reach, and how many mutants fail one.
# Usage: scripts/p4-tests.sh [--minutes M] [--mutants N] [PROGRAM.p4 ...]
set -eu
cd "$(dirname "$0")/.."

minutes=3
mutants=200
while [ $# -gt 0 ]; do
    case "$1" in
        --minutes) minutes=$2; shift 2 ;;
        --mutants) mutants=$2; shift 2 ;;
        *) break ;;
    esac
done
[ $# -gt 0 ] || set -- p4src/v1model/*.p4 p4src/tna/*.p4 crates/switch/tests/stf/cases/*.p4

cargo build --release --package tributary-p4-tools
echo "| program | tests | statements | branches | parser | table actions, misses | all goals | mutants that fail a test |"
echo "| --- | --- | --- | --- | --- | --- | --- | --- |"
for program; do
    # There are no generated tests for PSA.
    case "$(basename "$program")" in psa_*) continue ;; esac
    target/release/tributary-p4 test "$program" --minutes "$minutes" --mutants "$mutants" |
        awk -v program="$program" '
            function add(kind, covered, of) { c[kind] += covered; n[kind] += of; C += covered; N += of }
            function share(kind) { return n[kind] ? c[kind] " of " n[kind] : "–" }
            / tests?$/ && NF == 2 { tests = $1 }
            /^statements /    { add("s", $2, $4) }
            /^branches /      { add("b", $2, $4) }
            /^parser states / { add("p", $3, $5) }
            /^transitions /   { add("p", $2, $4) }
            /^table actions / { add("t", $3, $5) }
            /^table misses /  { add("t", $3, $5) }
            /^mutants /       { mutants = $2 " of " $4 }
            END {
                printf "| `%s` | %d | %s | %s | %s | %s | %.1f %% | %s |\n", program, tests,
                    share("s"), share("b"), share("p"), share("t"), 100 * C / N, mutants
            }'
done
