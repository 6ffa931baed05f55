#!/usr/bin/env bash
# Builds the wheel of the Python package and runs the package's tests, in a virtual environment under target/. It installs
# PyTorch there, which takes several GB, and the libraries of test_trainers.py. With --if-installed it uses what
# this machine has: without PyTorch, it tests only what the wheel does alone, and without a library, no training with it.
set -euo pipefail
cd "$(dirname "$0")/.."

venv="${CARGO_TARGET_DIR:-target}/python-tests"
extras=test,examples
if [[ "${1-}" == --if-installed ]]; then
    wheel=$(scripts/wheel.sh --if-possible)
    if [[ -z "$wheel" ]]; then
        exit 0
    fi
    if ! python3 -c 'import torch' > /dev/null 2>&1; then
        echo "skipped: this machine has no PyTorch; scripts/test-python.sh installs it and runs all tests of the package"
        exit 0
    fi
    python3 -m venv --system-site-packages "$venv"
else
    wheel=$(scripts/wheel.sh)
    python3 -m venv "$venv"
    extras+=,trainers
fi
"$venv/bin/pip" install --quiet "$wheel[$extras]"
# pip leaves a package of the same version as it is.
"$venv/bin/pip" install --quiet --no-deps --force-reinstall "$wheel"
"$venv/bin/python" -m pytest python/tests
