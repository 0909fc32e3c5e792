#!/usr/bin/env bash
# Makes a virtual environment with the package for Python, which holds the library and the program of a build that is
# there: only the extension is compiled.
#
# usage: tools/venv.sh packages DIRECTORY [PACKAGE...]   from PyPI: what it needs to be built and to run, and others
#        tools/venv.sh wheel DIRECTORY [BUILD]           the package itself, of build/release or another build;
#                                                        build/python/wheel keeps its wheel
set -euo pipefail
cd "$(dirname "$0")/.."
step=$1 directory=$2
shift 2
case $step in
packages)
    rm -rf "$directory"
    python3 -m venv "$directory"
    "$directory/bin/python" -m pip install --quiet scikit-build-core cffi numpy "$@"
    ;;
wheel)
    rm -rf build/python/wheel
    "$directory/bin/python" -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir build/python/wheel . \
        --config-settings=build-dir=build/python/cmake --config-settings=cmake.define.GRAIL_PREBUILT="$PWD/${1:-build/release}"
    "$directory/bin/python" -m pip install --quiet --force-reinstall --no-deps build/python/wheel/*.whl
    ;;
esac
