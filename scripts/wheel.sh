#!/usr/bin/env bash
# Builds the wheel of the Python package into target/wheels/, tests its native part without PyTorch, and prints the
# wheel's name, alone on standard output.
#
#   scripts/wheel.sh [OPTIONS]       OPTIONS are those of `maturin build`, such as --zig
#   scripts/wheel.sh --if-possible   prints nothing if there is no Python with pip, or no way to install the two tools
#
# Installs PyPI's `build` and `maturin` into a virtual environment under target/.
set -euo pipefail
cd "$(dirname "$0")/.."

# The build runs in another directory.
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export CARGO_TARGET_DIR=$target
venv=$target/wheel
tools() {
    "$venv/bin/python" -c 'import build, maturin' 2> /dev/null ||
        { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet build 'maturin>=1.7,<2'; }
}
if [[ "${1-}" == --if-possible ]]; then
    shift
    if ! tools >&2; then
        echo "skipped: the wheel of the Python package needs Python with venv, and build and maturin of PyPI" >&2
        exit 0
    fi
else
    tools >&2
fi

# What `pip install ./python` builds fits this machine only. The tag of this wheel names the oldest glibc that it runs with.
options="--locked $*"
[[ $options == *--compatibility* ]] || options+=" --compatibility pypi"
rm -f "$target"/wheels/tributary-*.whl
# With "workspace", which some developers set, Cargo would build a third more packages, for features of other crates.
unset CARGO_RESOLVER_FEATURE_UNIFICATION
# build finds maturin on the PATH. maturin leaves the wheel in target/wheels/, and build wants to copy it elsewhere.
. "$venv/bin/activate"
python -m build --wheel --no-isolation --outdir "$venv/dist" -C build-args="$options" python >&2

wheels=("$target"/wheels/tributary-*.whl)
name=${wheels[0]##*/}
if ((${#wheels[@]} != 1)) || [[ ! $name =~ ^tributary-[0-9.]+-cp39-abi3-(many|musl)linux_[0-9_]+_[a-z0-9_]+\.whl$ ]]; then
    echo "there should be one wheel for CPython 3.9 and later, with the tag of a C library: ${wheels[*]}" >&2
    exit 1
fi

pip install --quiet --no-deps --force-reinstall "${wheels[0]}" >&2
python python/tests/native.py >&2
echo "${wheels[0]}"
