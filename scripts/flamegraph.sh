#!/usr/bin/env bash
# Draws where the processors' time goes in a run of a job file, in user mode and in the kernel:
#     scripts/flamegraph.sh OUT.svg JOB.toml [OPTION OF tributary run]...
# Needs root, perf (Debian's linux-perf) and inferno (cargo install inferno).
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -lt 2 ]; then
    sed -n '2,4s/^# *//p' "$0" >&2
    exit 2
fi
out=$1
shift
for tool in perf inferno-collapse-perf inferno-flamegraph; do
    if ! command -v "$tool" >/dev/null; then
        echo "error: $tool is not on the PATH; see the top of $0" >&2
        exit 1
    fi
done

# Stacks are walked along frame pointers, which are left out by default.
CARGO_PROFILE_RELEASE_STRIP=false CARGO_PROFILE_RELEASE_DEBUG=line-tables-only RUSTFLAGS="-C force-frame-pointers=yes" cargo build --release --locked --target-dir target/flamegraph

samples=$(mktemp -d)
# Under perf, the switch writes the names of its machine code to /tmp/perf-PID.map.
trap 'find /tmp -maxdepth 1 -name "perf-*.map" -newer "$samples/begin" -delete; rm -r "$samples"' EXIT
touch "$samples/begin"
perf record --quiet --all-cpus --call-graph fp --freq 1999 --output "$samples/perf.data" \
    target/flamegraph/release/tributary run "$@"
perf script --input "$samples/perf.data" 2>/dev/null |
    inferno-collapse-perf |
    grep -E '^(switch|tributary|workers|bench|ps)' |
    inferno-flamegraph --deterministic --minwidth 0.1 --title "Processor time by function" >"$out"
