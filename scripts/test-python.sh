#!/usr/bin/env bash
# Builds the Python package and runs its tests, in a virtual environment under target/. It installs
# PyTorch there, which takes several GB, and the libraries of test_trainers.py. With --if-installed it
# uses the PyTorch that this machine has, and does nothing if there is none.
set -euo pipefail
cd "$(dirname "$0")/.."

venv="${CARGO_TARGET_DIR:-target}/python-tests"
if [[ "${1-}" == --if-installed ]]; then
    if ! python3 -c 'import torch' >/dev/null 2>&1; then
        echo "skipped: this machine has no PyTorch; scripts/test-python.sh installs it and runs the tests"
        exit 0
    fi
    python3 -m venv --system-site-packages "$venv"
else
    python3 -m venv "$venv"
fi
"$venv/bin/pip" install --quiet './python[test,examples]'
"$venv/bin/python" -m pytest python/tests
