#!/usr/bin/env bash
# Builds and tests grail from scratch: installs missing packages, then runs these steps:
#   release    gcc, optimised, all tests (fuzz corpora, lint and the installed tree among them)
#   asan       gcc with address and undefined behaviour sanitizers, all tests except those labelled slow
#   clang      build only
#   format     clang-format 14 agrees with the sources
# Logs are in build/logs. The last line is the summary; the exit status is 0 when nothing failed.
#
# usage: ./run-tests.sh [--fresh RELEASE]
#   --fresh   first build on a minimal Debian of that release, tests/fresh/run.sh
set -euo pipefail
export LC_ALL=C
# Waiting threads sleep instead of spin, which is faster on a busy machine.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY-passive}

if (($# != 0)) && [[ $# != 2 || $1 != --fresh ]]; then
    sed -n '9,10s/^# //p' "$0" >&2
    exit 2
fi
cd "$(dirname "$0")"
. tools/step.sh
mkdir -p build/logs
jobs=$(nproc)
passed=0 skipped=0
# Warnings are errors only with the compilers of Debian 12, which the sources are free of warnings with.
werror=OFF
if grep -q '^VERSION_ID="12"' /etc/os-release 2>/dev/null; then
    werror=ON
fi

build() {
    step "$1-configure" cmake --preset "$1" -DGRAIL_BUILD_TESTS=ON \
        -DGRAIL_WERROR=$werror && step "$1-build" cmake --build --preset "$1" -j "$jobs"
}

# attribute NAME FILE: of the first element of a JUnit file
attribute() {
    grep -o "\\b$1=\"[0-9]*\"" "$2" | head -n 1 | tr -dc 0-9
}

# Single tests that skipped themselves (no real weights, for one) inside programs that passed.
skipped_inside() {
    sed -n 's/^\[  SKIPPED \] \([A-Za-z_][A-Za-z0-9_]*\)$/\1/p' \
        "build/$1/Testing/Temporary/LastTest.log" | sort -u
}

# run_tests PRESET CTEST_ARGUMENTS...
run_tests() {
    local preset=$1 log=build/logs/$1-tests.log junit=$PWD/build/logs/$1-tests.xml
    local started=$SECONDS before=$passed all bad missed inside
    shift
    printf '%-22s' "$preset-tests"
    rm -f "$junit"
    ctest --test-dir "build/$preset" -j "$jobs" --output-on-failure --output-junit "$junit" \
        --test-output-size-passed 4000000 "$@" >"$log" 2>&1 || true
    if [[ ! -s $junit || $(attribute tests "$junit") == 0 ]]; then
        echo "FAILED  no tests ran, see $log"
        tail -n 20 "$log"
        failed=$((failed + 1))
        return
    fi
    all=$(attribute tests "$junit")
    bad=$(attribute failures "$junit")
    missed=$(($(attribute skipped "$junit") + $(attribute disabled "$junit")))
    inside=$(skipped_inside "$preset")
    passed=$((passed + all - bad - missed))
    failed=$((failed + bad))
    missed=$((missed + $(wc -w <<<"$inside")))
    skipped=$((skipped + missed))
    echo "$((passed - before)) passed, $bad failed, $missed skipped, $((SECONDS - started)) s"
    if [[ -n $inside ]]; then
        echo "    skipped inside programs: ${inside//$'\n'/ }"
    fi
    grep -E '^ *[0-9]+/[0-9]+ Test .*\*\*\*' "$log" | sed 's/^/    /' || true
    if ((bad > 0)); then
        echo "    see $log"
    fi
}

check_format() {
    git ls-files '*.c' '*.h' ':!tests/golden/*.h' | xargs clang-format --dry-run -Werror
}

# build_fresh RELEASE: counted as one test
build_fresh() {
    local code=0
    tests/fresh/run.sh "$1" || code=$?
    case $code in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)) ;;
    esac
}

if (($# == 2)); then
    build_fresh "$2"
fi
tools/setup.sh tests
if build release; then
    run_tests release
fi
if build asan; then
    run_tests asan -LE slow
fi
build clang || true
# Other versions format some constructs differently.
if clang-format --version 2>/dev/null | grep -q 'version 14\.' && git rev-parse >/dev/null 2>&1; then
    step format check_format || true
fi
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
