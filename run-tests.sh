#!/usr/bin/env bash
# Builds and tests grail from scratch: installs missing packages, then runs these steps:
#   release    gcc, optimised; all tests except those labelled sanitized
#   asan       gcc with address and undefined behaviour sanitizers; all tests except those labelled optimised
#              or slow
#   clang      the warnings of the second compiler, without a build
#   format     clang-format 14 agrees with the sources
#   python     the wheel in a new virtual environment with numpy alone; pytest, mypy and ruff. Left out where
#              PyPI cannot be reached; no other step needs a package from there
# So each test runs in one of the two builds at least, and only there its program is made. Logs are in build/logs.
# The last line is the summary; the exit status is 0 when nothing failed.
#
# usage: ./run-tests.sh [--all] [--fresh RELEASE]
#   --all     run every test in both builds, except those labelled slow with sanitizers; let each allocation
#             fail, not a sample; keep the tests' files on the disk, not in memory; build with clang
#   --fresh   first build on a minimal Debian of that release, tests/fresh/run.sh
set -euo pipefail
export LC_ALL=C
# Waiting threads sleep instead of spin, which is faster on a busy machine.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY-passive}

usage() {
    sed -n '13,16s/^# //p' "$0" >&2
    exit 2
}

everything= release=
while (($# > 0)); do
    case $1 in
    --all)
        everything=yes
        shift
        ;;
    --fresh)
        (($# > 1)) || usage
        release=$2
        shift 2
        ;;
    *) usage ;;
    esac
done
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

# configure PRESET CMAKE_ARGUMENTS...
configure() {
    step "$1-configure" cmake --preset "$1" -DGRAIL_BUILD_TESTS=ON -DGRAIL_WERROR=$werror "${@:2}"
}

# build PRESET CMAKE_ARGUMENTS...
build() {
    configure "$@" && step "$1-build" cmake --build --preset "$1" -j "$jobs"
}

# Tests wait longer for the disk, which each finished file is forced to, than they compute. Their files lie in
# memory where there is enough of it for files, and where programs may run.
use_memory() {
    local room
    room=$(df --output=avail -B 1M /dev/shm 2>/dev/null | tail -n 1)
    if ((${room:-0} >= 4096)) && memory=$(mktemp -d /dev/shm/grail-tests-XXXXXX); then
        trap 'rm -rf "$memory"' EXIT
        cp "$(type -P true)" "$memory/true"
        if "$memory/true" 2>/dev/null; then
            export TMPDIR=$memory
        fi
    fi
}

# Other versions format some constructs differently.
find_format() {
    local name
    for name in clang-format-14 clang-format; do
        if "$name" --version 2>/dev/null | grep -q 'version 14\.'; then
            echo "$name"
            return
        fi
    done
    return 1
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

# failed_output LOG: the last lines of what each test printed that failed
failed_output() {
    awk -v most=15 '
        function tell(  i) {
            for (i = lines > most ? lines - most : 0; i < lines; i++)
                print "    | " line[i]
        }
        /^ *[0-9]+\/[0-9]+ Test / || /^ *Start +[0-9]+: / {
            if (on) tell()
            on = 0
        }
        on && NF { line[lines++] = $0 }
        /^ *[0-9]+\/[0-9]+ Test .*\*\*\*/ && !/\*\*\*(Skipped|Not Run)/ { on = 1; lines = 0; print "    " $0 }
        END { if (on) tell() }' "$1"
}

# run_tests NAME PRESET CTEST_ARGUMENTS...
run_tests() {
    local name=$1 preset=$2 log=build/logs/$1-tests.log junit=$PWD/build/logs/$1-tests.xml
    local started=$SECONDS before=$passed all bad missed inside
    shift 2
    printf '%-22s' "$name-tests"
    rm -f "$junit"
    # One more than there are cores: many wait for a disk, a signal or another process.
    ctest --test-dir "build/$preset" -j "$((jobs + 1))" --output-on-failure --output-junit "$junit" \
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
    grep -E '^ *[0-9]+/[0-9]+ Test .*\*\*\*(Skipped|Not Run)' "$log" | sed 's/^/    /' || true
    if ((bad > 0)); then
        failed_output "$log"
        echo "    see $log"
    fi
}

# build_and_test PRESET LABELS_LEFT_OUT CMAKE_ARGUMENTS...
build_and_test() {
    local preset=$1 labels=$2
    shift 2
    if build "$preset" -DGRAIL_LEAVE_OUT="$labels" "$@"; then
        run_tests "$preset" "$preset" ${labels:+-LE "^($labels)\$"}
    fi
}

# leave_out STEP REASON
leave_out() {
    printf '%-22sSKIPPED %s\n' "$1" "$2"
    skipped=$((skipped + 1))
}

# check_format CLANG_FORMAT
check_format() {
    git ls-files '*.c' '*.h' ':!tests/golden/*.h' | xargs "$1" --dry-run -Werror
}

check_types_and_style() {
    "$python" -m mypy && "$python" -m ruff check python tests/python &&
        "$python" -m ruff format --check python tests/python
}

test_python() {
    local python=$PWD/build/python/venv/bin/python junit=$PWD/build/logs/python-tests.xml
    mkdir -p build/python
    # The newest packages that pyproject.toml names, but for the linter, whose taste changes.
    if ! tools/venv.sh packages build/python/venv pytest mypy ruff==0.17.6 >build/logs/python-packages.log 2>&1; then
        leave_out python "packages for it cannot be fetched from PyPI, see build/logs/python-packages.log"
        return
    fi
    step python-style check_types_and_style || true
    step python-wheel tools/venv.sh wheel build/python/venv || return 0
    rm -f "$junit"
    step python-tests "$python" -m pytest -q --junit-xml="$junit" || true
    if [[ -s $junit ]]; then
        passed=$((passed + $(attribute tests "$junit") - $(attribute failures "$junit") -
            $(attribute errors "$junit") - $(attribute skipped "$junit")))
        skipped=$((skipped + $(attribute skipped "$junit")))
    fi
}

# The suite of the backends, and whole runs, with the PyTorch that the user named or that python3 has.
test_torch() {
    local where=$1
    if [[ -z $where ]]; then
        where=$(python3 -I -c 'from importlib.util import find_spec as f
print(f("torch").submodule_search_locations[0] if f("torch") else "")' 2>/dev/null) || true
    fi
    if [[ -z $where ]]; then
        leave_out torch "python3 has no package torch, and GRAIL_TORCH names none"
        return
    fi
    GRAIL_TORCH=$where run_tests torch release -R '^(conformance/test_(backend|matrix|instances|fallbacks).*|unit/exec/test_parameters|unit/pipeline/test_transfers|cli/torch)$' \
        ${left_out_release:+-LE "^($left_out_release)\$"}
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

if [[ -n $release ]]; then
    build_fresh "$release"
fi
tools/setup.sh tests
if [[ -n $everything ]]; then
    export GRAIL_TEST_ALL=1
    benchmarks=ON
    left_out_release='' left_out_asan='slow'
else
    use_memory
    benchmarks=OFF
    left_out_release='sanitized' left_out_asan='optimised|slow'
fi
torch=${GRAIL_TORCH:-}
unset GRAIL_TORCH
build_and_test release "$left_out_release"
test_torch "$torch"
test_python
build_and_test asan "$left_out_asan" -DGRAIL_BUILD_BENCHMARKS=$benchmarks
if [[ -n $everything ]]; then
    build clang || true
elif configure clang; then
    step clang-check tools/check_syntax.py clang build/clang "$jobs" || true
fi
if ! git rev-parse >/dev/null 2>&1; then
    leave_out format "this is no checkout of git, which knows the sources"
elif ! formatter=$(find_format); then
    leave_out format "clang-format 14 is not installed"
else
    step format check_format "$formatter" || true
fi
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
