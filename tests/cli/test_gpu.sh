#!/usr/bin/env bash
# What a user meets of a GPU, on PyTorch's processor in place of one (tests/support/fake_gpu.c): GPUs that are not there, and
# a context that is lost.
#
# usage: test_gpu.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

[[ -n ${GRAIL_TORCH:-} ]] || skip "GRAIL_TORCH names no PyTorch"
measure=("$grail" eval "$demo/model" --data "$demo/held-out.txt" --windows 2 --context 64 --quiet --threads 1)
narrow=("$grail" compress "$demo/model" --calib "$demo/calibration.txt" --context 128 --samples 16 --sparsity 0.3 --quiet --threads 1
    --backend torch:cuda)

# on_gpu NAME=VALUE... COMMAND...: with a GPU
on_gpu() {
    env LD_PRELOAD="$GRAIL_TEST_GPU" "$@"
}

check "GPUs that are not there"
runs on_gpu "${measure[@]}" --backend torch:cuda:0
refuses 1 "there is no 'torch:cuda:9': PyTorch sees 1 GPU here" on_gpu "${measure[@]}" --backend torch:cuda:9
refuses 1 "PyTorch sees no GPU here: no such GPU in this test" on_gpu GRAIL_TEST_GPUS=0 "${measure[@]}" --backend torch:cuda
refuses 1 "the backend 'torch:cuda' has no device 64" on_gpu "${measure[@]}" --backend torch:cuda:64

check "a context that is lost ends the run with the first error, and the command that goes on"
runs on_gpu "${narrow[@]}" -o whole
run on_gpu GRAIL_TEST_GPU_COPIES=3000 "${narrow[@]}" -o out
((code == 1)) || { show; fail "exit code $code"; }
says "a copy failed: CUDA error: device-side assert triggered; the context of the GPU is lost, so only a new process can go on; 1 of 4 blocks are finished in 'out.partial', and the run can be resumed (--resume)" stderr
says "grail: continue it with:" stderr
(($(wc -l <stderr) == 3)) || { show; fail "more is said than the first error and how it goes on"; }
runs bash -c "LD_PRELOAD='$GRAIL_TEST_GPU' $(tail -n 1 stderr)"
same_result whole out
