#!/usr/bin/env bash
# Runs the fuzz targets of crates/fuzz with libFuzzer, and prints for each what was run and how much memory it took.
#
#   scripts/fuzz.sh [--seconds N] [--keep] [TARGET…]     default: 60 seconds for each of all targets
#
# An input that panics, hangs, or takes more memory than its target allows ends the run of that target. It is kept as
# crates/fuzz/tests/inputs/__fuzz__/TARGET/crashes/…, which all later tests run: fix the cause, and commit it.
# New inputs that reach more code are in target/fuzz-corpus. --keep reduces old and new ones to a smallest set that
# reaches all, and adds the 50 shortest of these to the kept inputs, for the next commit.
#
# Needs cargo-bolero (`cargo install cargo-bolero`) and a C++ compiler. The first build takes minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=60
keep=no
targets=()
while [ $# -gt 0 ]; do
    case $1 in
        --seconds) seconds=$2; shift ;;
        --keep) keep=yes ;;
        -*) echo "$1: the options are --seconds N and --keep" >&2; exit 2 ;;
        *) targets+=("$1") ;;
    esac
    shift
done
if ! cargo bolero --version > /dev/null 2>&1; then
    echo "cargo-bolero is missing; install it with \`cargo install cargo-bolero\`" >&2
    exit 1
fi
if [ ${#targets[@]} = 0 ]; then
    # In the order of the modules.
    targets=(wire::frame wire::channel endpoints::any_frames endpoints::foreign_frames switch::frames
        switch::p4runtime switch::p4info services::requests files::toml files::tensors files::trace
        sources::p4 sources::stf)
fi

inputs=crates/fuzz/tests/inputs/__fuzz__
# Mebibytes of the whole process. The targets themselves limit each input more tightly.
memory=3072

# fuzz TARGET CORPUS ARGUMENT…: runs libFuzzer, which adds to CORPUS.
fuzz() {
    local target=$1 corpus=$2 arguments=()
    shift 2
    for argument in "$@"; do
        arguments+=(-E="$argument")
    done
    # The compiler's coverage needs unstable options of rustc, but no sanitizer: there is next to no unsafe code.
    nice -n 19 cargo bolero test "$target" --package tributary-fuzz --engine libfuzzer --sanitizer NONE \
        --rustc-bootstrap --target-dir target/fuzz --corpus-dir "$corpus" \
        --crashes-dir "$inputs/${target//::/__}/crashes" --timeout 60s --max-input-length 65536 \
        "${arguments[@]}" -E=-rss_limit_mb=$memory -E=-print_final_stats=1
}

# number TEXT LOG: the number after the last TEXT.
number() { grep -oE "$1 *[0-9]+" "$2" | tail -n 1 | grep -oE '[0-9]+$' || echo -; }

failed=0
table=()
for target in "${targets[@]}"; do
    kept=$inputs/${target//::/__}/corpus
    corpus=target/fuzz-corpus/${target//::/__}
    log=$corpus.log
    mkdir -p "$kept" "$corpus"
    begin=$(date +%s)
    if fuzz "$target" "$corpus" "$kept" "-max_total_time=$seconds" > "$log" 2>&1; then
        outcome=ok
    else
        outcome="FAILED: see $log"
        failed=1
    fi
    if [ $keep = yes ] && [ "$outcome" = ok ]; then
        rm -rf "$corpus.new"
        mkdir "$corpus.new"
        fuzz "$target" "$corpus.new" "$kept" "$corpus" -set_cover_merge=1 > "$corpus.merge.log" 2>&1
        # The names are SHA-1 sums of the contents.
        old=$(find "$kept" -type f -exec sha1sum {} + | cut -d ' ' -f 1)
        ls -rS "$corpus.new" | { grep -vxF "$old" || true; } | sed -n 1,50p | while read -r name; do
            cp "$corpus.new/$name" "$kept/"
        done
    fi
    rmdir --ignore-fail-on-non-empty "$inputs/${target//::/__}/crashes"
    table+=("$(printf '%-26s %9s %13s %9s %8s %9s  %s' "$target" "$(($(date +%s) - begin))" \
        "$(number 'number_of_executed_units:' "$log")" "$(number 'cov:' "$log")" \
        "$(number 'corp:' "$log")" "$(number 'peak_rss_mb:' "$log")" "$outcome")")
    echo "${table[-1]}"
done
printf '\n%-26s %9s %13s %9s %8s %9s\n' target seconds executions coverage inputs 'peak MiB'
printf '%s\n' "${table[@]}"
exit $failed
