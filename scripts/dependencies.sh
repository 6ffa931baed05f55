#!/usr/bin/env bash
# Checks the dependencies: licences, banned crates and sources by the rules of deny.toml, and known
# vulnerabilities with the database of RustSec, which is fetched.
#
#   scripts/dependencies.sh
#   ADVISORIES=DIR scripts/dependencies.sh     with a clone of the database (github.com/RustSec/advisory-db)
#
# Needs cargo-deny and cargo-audit (`cargo install cargo-deny cargo-audit`). Prints one line for what is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

has() { cargo "$1" --version > /dev/null 2>&1; }
database=https://github.com/RustSec/advisory-db

if has deny; then
    cargo deny --all-features check licenses bans sources
else
    echo "skipped: licences, banned crates and sources: cargo-deny is missing (cargo install cargo-deny)"
fi

if ! has audit; then
    echo "skipped: known vulnerabilities: cargo-audit is missing (cargo install cargo-audit)"
elif [ -n "${ADVISORIES:-}" ]; then
    cargo audit --db "$ADVISORIES" --no-fetch --stale
elif GIT_TERMINAL_PROMPT=0 timeout 20 git ls-remote --heads --quiet "$database" > /dev/null 2>&1; then
    cargo audit
    if has deny; then
        cargo deny --all-features check advisories
    fi
else
    echo "skipped: known vulnerabilities: $database cannot be reached"
fi
