#!/usr/bin/env bash
# Builds the Debian package target/debian/tributary_VERSION_ARCHITECTURE.deb, and prints its name.
#
#   scripts/package.sh [OPTIONS]                          from a release build
#   scripts/package.sh --profile dev --no-build OPTIONS   from the debug build that exists
#
# OPTIONS are those of `cargo deb`. Needs cargo-deb (`cargo install cargo-deb`).
set -euo pipefail
cd "$(dirname "$0")/.."

profile=release
build=yes
options=()
while [ $# -gt 0 ]; do
    case $1 in
        --profile) profile=$2; shift ;;
        --no-build) build=no ;;
        *) options+=("$1") ;;
    esac
    shift
done

if ! cargo deb --version > /dev/null 2>&1; then
    echo "cargo-deb is missing; install it with \`cargo install cargo-deb\`" >&2
    exit 1
fi
if [ $build = yes ]; then
    cargo build --locked --package tributary --profile "$profile"
fi

directory=$profile
[ "$profile" = dev ] && directory=debug
rm -rf target/package
PROGRAM="${CARGO_TARGET_DIR:-target}/$directory/tributary" DESTDIR=target/package PREFIX=/usr \
    deploy/install.sh > /dev/null
# The program itself: cargo-deb takes the one of the build, strips it, and finds the libraries that it needs.
rm -r target/package/usr/bin
cargo deb --locked --package tributary --profile "$profile" --no-build "${options[@]}"
