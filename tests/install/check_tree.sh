#!/usr/bin/env bash
# Installs the build into an empty prefix and uses it as others do: a program of its own through
# find_package and through pkg-config, and the installed command line.
#
# usage: check_tree.sh CMAKE BUILD_DIRECTORY SOURCE_DIRECTORY CC CFLAGS GENERATOR
set -euo pipefail

cmake=$1 build=$2 source=$3 cc=$4 flags=$5 generator=$6
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

fail() {
    echo "FAIL: $*" >&2
    exit 1
}

# A sanitizer's run time must come first, whatever the program is linked with.
run() {
    env -u LD_LIBRARY_PATH ASAN_OPTIONS=detect_leaks=1 "$@"
}

"$cmake" --install "$build" --prefix "$prefix" >"$work/install.log" ||
    { cat "$work/install.log"; fail "cmake --install"; }

echo "-- installed files"
(cd "$prefix" && find . \( -type f -o -type l \) | sort)
for file in bin/grail include/grail/grail.h; do
    [[ -e $prefix/$file ]] || fail "$file is missing"
done
for header in "$source"/include/*/*.h; do
    cmp "$header" "$prefix/${header#"$source/"}" || fail "${header##*/} differs"
done
for name in libgrail.so grail.pc grailConfig.cmake grailConfigVersion.cmake README.md LICENSE; do
    [[ -n $(find "$prefix" -name "$name") ]] || fail "$name is missing"
done
for shell in completions/grail site-functions/_grail; do
    [[ -s $(find "$prefix" -path "*/$shell") ]] || fail "$shell is missing or empty"
done
bash -n "$(find "$prefix" -path '*/completions/grail')" || fail "bash completion does not parse"
if command -v zsh >/dev/null; then
    zsh -n "$(find "$prefix" -path '*/site-functions/_grail')" || fail "zsh completion does not parse"
fi

echo "-- grail --version"
version=$(run "$prefix/bin/grail" --version)
echo "$version"
[[ $version =~ ^grail\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "unexpected version '$version'"

echo "-- beside hostile libraries"
run bash "$source/tests/install/check_libraries.sh" "$prefix/bin/grail" "$source" "$cc"

echo "-- through find_package"
"$cmake" -S "$source/examples/embed" -B "$work/embed" -G "$generator" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS="$flags" >"$work/configure.log" 2>&1 ||
    { cat "$work/configure.log"; fail "find_package(grail)"; }
"$cmake" --build "$work/embed" >"$work/build.log" 2>&1 || { cat "$work/build.log"; fail "the program does not build"; }
run "$work/embed/embed" || fail "the program built through find_package"

echo "-- through pkg-config"
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name grail.pc)")
export PKG_CONFIG_PATH

# pkg_config_program PACKAGE SOURCE ARGUMENTS...: builds and runs it
pkg_config_program() {
    local package=$1 file=$2 compile link
    shift 2
    [[ "grail $(pkg-config --modversion "$package")" == "$version" ]] || fail "$package.pc has another version"
    read -ra compile <<<"$flags $(pkg-config --cflags "$package")"
    read -ra link <<<"$(pkg-config --libs "$package")"
    "$cc" -std=c17 "${compile[@]}" "$file" -o "$work/of-$package" "${link[@]}" \
        -Wl,-rpath,"$(pkg-config --variable=libdir "$package")" || fail "compiling with $package.pc"
    run env -u BLIS_ARCH_TYPE "$work/of-$package" "$@" || fail "$file built with $package.pc"
}
pkg_config_program grail "$source/examples/embed/main.c"
pkg_config_program grail "$source/tests/install/narrow.c" "$source/demo/vision" "$work/by-program"

echo "-- the same bytes from a program as from the command line"
run env -u BLIS_ARCH_TYPE "$prefix/bin/grail" compress "$source/demo/vision/cnn.pth" -o "$work/by-command" \
    --calib "$source/demo/vision/calibration" --sparsity 0.5 --samples 16 --quiet >/dev/null
cmp "$work/by-program/cnn.pth" "$work/by-command/cnn.pth" || fail "other weights"
