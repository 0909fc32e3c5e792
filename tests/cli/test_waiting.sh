#!/usr/bin/env bash
# Threads that wait sleep, unless the user has chosen how they wait.
#
# usage: test_waiting.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

vision=$demo/vision

# setting NAME [NAME=VALUE]: of a grail that runs with this environment, which has no other choice
setting() {
    local name=$1 found= pid
    shift
    rm -rf out out.partial
    env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT -u KMP_BLOCKTIME "$@" "$grail" compress \
        "$vision/vit" --calib "$vision/calibration" --sparsity 0.5 -o out >/dev/null 2>&1 &
    pid=$!
    for ((i = 0; i < 50 && ${#found} == 0; i++)); do
        sleep 0.02
        found=$(tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | sed -n "s/^$name=//p") || true
    done
    kill -9 "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
    echo "$found"
}

check "grail sets how threads wait"
[[ $(setting GOMP_SPINCOUNT) == 1000 ]] || fail "threads spin"
[[ $(setting KMP_BLOCKTIME) == 0 ]] || fail "threads of LLVM's OpenMP spin"

check "what is started again is the same program"
plain() {
    run env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT -u KMP_BLOCKTIME "$grail" "$@"
}
plain inspect "a  b" --json
cp stdout first.out
cp stderr first.err
first=$code
run "$grail" inspect "a  b" --json
((code == first && code != 0)) || fail "exit codes $first and $code"
cmp stdout first.out && cmp stderr first.err || fail "prints something else"
plain doctor
((code == 0)) || { show; fail "doctor: exit code $code"; }

check "what is set stays"
[[ -z $(setting GOMP_SPINCOUNT OMP_WAIT_POLICY=active) ]] || fail "did not keep active waiting"
[[ $(setting GOMP_SPINCOUNT GOMP_SPINCOUNT=7) == 7 ]] || fail "did not keep GOMP_SPINCOUNT"
