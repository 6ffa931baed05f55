#!/usr/bin/env bash
# All checks: format, lints, dependencies, tests, documentation, and the main job itself.
# Needs the Rust toolchain; uses cargo-nextest, cargo-deny and cargo-audit where they are installed, and
# Python with venv for the wheel.
set -euo pipefail
cd "$(dirname "$0")/.."

# Each step's name and its seconds, for the table at the end.
names=() begun=()
step() {
    names+=("$*") begun+=("$SECONDS")
    printf '\n== %s\n' "$*"
}

step "format"
cargo fmt --all --check

step "lints"
cargo clippy --workspace --all-targets --locked -- -D warnings

step "dependencies"
scripts/dependencies.sh

if cargo nextest --version >/dev/null 2>&1; then
    step "the tests' programs"
    cargo nextest run --workspace --locked --no-run
    step "tests"
    # Most tests wait most of the time: with one thread per core, half of the processors' time was unused.
    cargo nextest run --workspace --locked --no-fail-fast --test-threads $(($(nproc) * 2))
    step "examples in the documentation"
    cargo test --workspace --locked --doc
else
    step "tests"
    cargo test --workspace --locked
fi

step "scripts"
if python3 -c 'import tomllib' > /dev/null 2>&1; then
    python3 -B -m unittest discover --quiet --start-directory scripts
else
    echo "skipped: the tests of scripts need Python 3.11 or later"
fi

step "Python"
# Some of the tests run the program.
PATH="$PATH:$(realpath "${CARGO_TARGET_DIR:-target}")/debug" scripts/test-python.sh --if-installed

step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet

step "the main job"
# The build of the tests: another one would take as long as the tests.
"${CARGO_TARGET_DIR:-target}/debug/tributary" run examples/digits.toml

step "all passed"
for ((at = 0; at + 1 < ${#names[@]}; at++)); do
    printf '%6d s  %s\n' $((begun[at + 1] - begun[at])) "${names[at]}"
done
printf '%6d s  together\n' "$SECONDS"
