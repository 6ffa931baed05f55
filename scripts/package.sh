#!/usr/bin/env bash
# Builds the Debian package target/debian/tributary_VERSION_ARCHITECTURE.deb, and prints its name.
#
#   scripts/package.sh [OPTIONS]              from a release build
#   scripts/package.sh --no-build [OPTIONS]   from the program that exists in target/release
#
# OPTIONS are those of `cargo deb`. Needs cargo-deb (`cargo install cargo-deb`).
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo deb --version > /dev/null 2>&1; then
    echo "cargo-deb is missing; install it with \`cargo install cargo-deb\`" >&2
    exit 1
fi
if [ "${1:-}" = --no-build ]; then
    shift
else
    cargo build --release --locked --package tributary
fi

built=${CARGO_TARGET_DIR:-target}/release
rm -rf "$built/package"
PROGRAM=$built/tributary DESTDIR=$built/package PREFIX=/usr deploy/install.sh > /dev/null
gzip --best --no-name "$built"/package/usr/share/man/man1/*
# cargo-deb takes the program of the build, strips it, and finds the libraries that it needs.
rm -r "$built/package/usr/bin"
cargo deb --locked --package tributary --no-build --strip "$@"
