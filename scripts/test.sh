#!/usr/bin/env bash
# All checks: format, lints, dependencies, tests, documentation, and the main job itself.
# Needs the Rust toolchain; uses cargo-nextest, cargo-deny and cargo-audit where they are installed.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }

step "format"
cargo fmt --all --check

step "lints"
cargo clippy --workspace --all-targets --locked -- -D warnings

step "dependencies"
scripts/dependencies.sh

step "tests"
if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --workspace --locked --no-fail-fast
    cargo test --workspace --locked --doc
else
    cargo test --workspace --locked
fi

step "measurements"
if python3 -c 'import tomllib' > /dev/null 2>&1; then
    python3 -B -m unittest discover --quiet --start-directory scripts
else
    echo "skipped: the tests of scripts/measure.sh need Python 3.11 or later"
fi

step "Python"
scripts/test-python.sh --if-installed

step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet

step "the main job"
# The build of the tests: another one would take as long as the tests.
"${CARGO_TARGET_DIR:-target}/debug/tributary" run examples/digits.toml

step "all passed"
