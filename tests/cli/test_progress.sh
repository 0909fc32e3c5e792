#!/usr/bin/env bash
# Long commands say how far they are in a log, a line a minute, and short ones do not. A clock that goes on by
# 100 seconds whenever it is read makes each command a long one. Needs a C compiler for it.
#
# usage: test_progress.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

command -v cc >/dev/null || skip "cc is not installed"
cat >clock.c <<'END'
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time)
{
    static int readings;
    const long failed = syscall(SYS_clock_gettime, clock, time);
    if (clock == CLOCK_MONOTONIC) {
        time->tv_sec += 100L * __atomic_add_fetch(&readings, 1, __ATOMIC_RELAXED);
    }
    return (int)failed;
}
END
cc -shared -fPIC -o clock.so clock.c
write_ids ids.npy 8 32 96
write_ids other.npy 16 32 96 2
tiny=$golden/llama3
narrow=(compress "$tiny" --calib ids.npy --sparsity 0.5 --align 1)
runs "$grail" "${narrow[@]}" -o narrow --compensate none --quiet
compress_images=(compress "$demo/vision/cnn.pth" --calib "$demo/vision/calibration" --samples 8 --sparsity conv=0.5)
runs "$grail" "${compress_images[@]}" -o cnn --compensate none --quiet

# progresses PATTERN COMMAND...: the whole of a line on stderr is like PATTERN, in a log without what rewrites lines;
# with --quiet there is none, nor by the clock of the wall
progresses() {
    local pattern=$1 output=
    shift
    check "a log of grail $1 says how far it is"
    [[ " $* " != *" -o "* ]] || output=$(sed 's/.* -o \([^ ]*\).*/\1/' <<<"$*")
    rm -rf ${output:+"$output"}
    runs env LD_PRELOAD="$work/clock.so" "$grail" "$@"
    grep -qE "^$pattern(, about [0-9][^,]* left)?\$" stderr || { show; fail "no line like '$pattern'"; }
    ! grep -q $'[\r\e]' stderr || fail "control characters in a pipe"
    for quiet in --quiet ""; do
        rm -rf ${output:+"$output"}
        runs ${quiet:+env LD_PRELOAD="$work/clock.so"} "$grail" "$@" $quiet
        ! grep -qE "^$pattern(, about .*)?\$" stderr || { show; fail "prints it ${quiet:-in a short run}, too"; }
    done
}

progresses 'block 2/2: [0-9]+ %, [0-2] sites? done' "${narrow[@]}" -o out
progresses 'measuring the metric of errors: [0-9]+ %' "${narrow[@]}" -o out --metric fisher
progresses 'measuring the (dense|plain cut|result): [0-9]+/16 windows' "${narrow[@]}" --eval other.npy -o out
progresses '  healing block 1/2: step [0-9]+ of 8, loss [0-9.]+ -> [0-9.]+(, about .* left)?' "${narrow[@]}" -o out \
    --heal block --heal-steps 8
progresses '  through block 1/2: [0-9]+ %' heal narrow --teacher "$tiny" --calib ids.npy --heal block --heal-steps 8 -o out
progresses 'counting in block 2/2: [0-9]+ %' gram "$tiny" --calib ids.npy -o out.gguf
progresses 'rounding block 4/4: [0-9]+ %' quantize "$demo/model" --calib "$demo/calibration.txt" --samples 4 --context 32 \
    --type q4_0 -o out.gguf
progresses '[0-9]+/16 windows measured(, perplexity so far [0-9.]+)?' eval "$tiny" --data other.npy
progresses '[0-9]+/64 images measured, top-1 so far [0-9.]+ %' eval "$demo/vision/cnn.pth" --data "$demo/vision/test" --images 64
progresses '[0-9]+/16 windows compared' verify "$tiny" narrow --data other.npy --windows 16
progresses '[0-9]+/64 images compared' verify "$demo/vision/cnn.pth" cnn --data "$demo/vision/test" --images 64
progresses 'measuring block 1/2: [0-9]+ %' plan "$tiny" --calib ids.npy --target-ratio 0.8 --budget error -o out.json
progresses 'weighing site [0-9]+/4 .* divergence [0-9.]+(, about [^;]* left)?; now block [12]/2: [0-9]+ %' \
    plan "$tiny" --calib ids.npy --target-ratio 0.8 --budget divergence -o out.json
progresses '[0-9]+ tokens generated' generate "$demo/model" --prompt Once --tokens 8 --json
progresses 'writing the file: [0-9][^,]* so far' export "$demo/vision/cnn.pth" -o out.onnx
progresses 'writing the file: [0-9][^,]* so far' export "$demo/model" --type q8_0 -o out.gguf
progresses 'computing logits: [0-9][^,]* so far' logits "$tiny" --ids ids.npy -o out.safetensors
