#!/usr/bin/env bash
# Every call by which a run changes the disk is interrupted, one run for each: by SIGKILL, and by a
# full disk. What was finished is never lost and never pretended, a full disk is told of with the
# file, and the continued run has the bytes of an uninterrupted one. Needs strace.
#
# usage: test_resume_calls.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

# strace knows of no leak checker, nor the leak checker of strace
export ASAN_OPTIONS=detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
command -v strace >/dev/null || skip "strace is not installed"
strace -qq -o /dev/null true 2>/dev/null || skip "strace may not trace here"

write_ids ids.npy 16 16 96
compress=("$grail" compress "$golden/llama3-sharded" --calib ids.npy --sparsity 0.5 --align 1
    --quiet --threads 1)
runs "${compress[@]}" -o whole

# interrupted CALL N HOW: the run's N-th such call meets HOW
interrupted() {
    rm -rf out out.partial
    # the shell tells of what is killed
    {
        run strace -f -qq -o trace -e trace="/^$1" -e inject="/^$1:$3:when=$2" "${compress[@]}" -o out
    } 2>/dev/null
    grep -q 'killed by SIGKILL\|INJECTED' trace
}

# continue_run CALL N
continue_run() {
    if [[ -e out ]]; then
        # the state is taken away last, from a result that is complete
        [[ $1 == unlink ]] || fail "out is there before all is done, at $1 $2"
        rm -f out/grail-state.jsonl
    else
        runs "${compress[@]}" -o out --resume
    fi
    same_result whole out
}

assert_told() {
    ((code == 1)) || { show; fail "exit code $code at $1 $2"; }
    (($(wc -l <stderr) == 1)) || { show; fail "not one line at $1 $2"; }
    grep -q "'out.*': No space left on device" stderr || { show; fail "unclear at $1 $2"; }
    if [[ -e out.partial ]]; then
        grep -q "[12] of 2 blocks are finished in 'out.partial', --resume" stderr ||
            { show; fail "out.partial is left without a word at $1 $2"; }
    fi
}

for call in mkdir rename unlink fallocate pwrite fsync; do
    check "killed at each $call"
    for ((n = 1;; n++)); do
        interrupted $call $n signal=KILL || break
        continue_run $call $n
    done
    echo "   $((n - 1)) of them"
    ((n > 1)) || fail "there was none"
    check "disk full at each $call"
    for ((n = 1;; n++)); do
        interrupted $call $n error=ENOSPC || break
        assert_told $call $n
        continue_run $call $n
    done
    ((n > 1)) || fail "there was none"
done
