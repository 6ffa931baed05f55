#!/usr/bin/env bash
# Drives our switch with stock P4Runtime clients: installs p4runtime-shell and finsy from PyPI (a
# virtual environment each: they want different versions of protobuf) and runs the tests of them.
# Needs Python 3.10 or later and the Rust toolchain. Takes the directory for the environments.
set -euo pipefail
cd "$(dirname "$0")/.."
environments="$(mkdir -p "${1:-target/p4runtime-clients}" && cd "${1:-target/p4runtime-clients}" && pwd)"

install() {
    local environment="$environments/$1"
    shift
    [ -x "$environment/bin/python" ] || python3 -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check "$@"
}

install p4runtime-shell p4runtime-shell==0.0.6 p4runtime==1.4.1 protobuf==3.20.3 grpcio==1.85.1
install finsy finsy==0.30.0 protobuf==6.33.6 grpcio==1.85.1

export P4RUNTIME_SHELL_PYTHON="$environments/p4runtime-shell/bin/python"
export FINSY_PYTHON="$environments/finsy/bin/python"
cargo test --locked -p tributary-switch --test switch -- clients:: --nocapture
