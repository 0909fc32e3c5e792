#!/usr/bin/env bash
# Installs the packages that are missing to build grail, and with "tests" to test it, with "python" to build its
# package for Python, with "wheel" to make a wheel of it (tools/make_wheel.sh), on Debian 12 or 13. Asks no questions; needs root or sudo only when a package is missing.
#
# usage: tools/setup.sh [tests|python|wheel]
set -euo pipefail

packages=(gcc libc6-dev cmake ninja-build pkgconf libblis-openmp-dev libjansson-dev libpcre2-dev
    libutf8proc-dev zlib1g-dev libjpeg-dev libpng-dev libmd-dev liblapacke-dev
    libdnnl-dev scdoc)
if [[ ${1-} == tests ]]; then
    # libomp-dev: omp.h for clang. clang, clang-format and libomp-dev name the release's own version.
    packages+=(libcmocka-dev python3 python3-dev python3-venv g++ clang libomp-dev clang-format locales strace zsh)
fi

if [[ ${1-} == python ]]; then
    packages+=(python3-dev python3-venv)
fi
if [[ ${1-} == wheel ]]; then
    packages=("${packages[@]/blis-openmp/blis-pthread}" python3-dev python3-venv)
fi

# Several processes (docs/scale.md): left out where they cannot be installed, with the tests of them.
optional=()
if [[ ${1-} == tests ]]; then
    optional=(libopenmpi-dev openmpi-bin)
fi

is_missing() {
    [[ $(dpkg-query -W -f '${Status}' "$1" 2>/dev/null) != "install ok installed" ]]
}

missing=()
for package in "${packages[@]}"; do
    if is_missing "$package"; then
        missing+=("$package")
    fi
done
missing_optional=()
for package in ${optional[@]+"${optional[@]}"}; do
    if is_missing "$package"; then
        missing_optional+=("$package")
    fi
done
if ((${#missing[@]} + ${#missing_optional[@]} == 0)); then
    exit 0
fi

echo "installing: ${missing[*]-} ${missing_optional[*]-}"
as_root=()
if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
        ((${#missing[@]} > 0)) || exit 0
        echo "cannot install these packages: run as root, or install sudo" >&2
        exit 1
    fi
    as_root=(sudo)
fi
"${as_root[@]}" apt-get update -q
install_packages() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
}
if ((${#missing[@]} > 0)); then
    install_packages "${missing[@]}"
fi
if ((${#missing_optional[@]} > 0)) && ! install_packages "${missing_optional[@]}"; then
    echo "these could not be installed, so several processes are not tested: ${missing_optional[*]}" >&2
fi
