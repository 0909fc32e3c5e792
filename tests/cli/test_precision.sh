#!/usr/bin/env bash
# --precision on the command line: what each command takes and says, that bf16 changes little and
# repeats its bytes.
#
# usage: test_precision.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

model=$golden/llama3-bf16
vision=$demo/vision
write_ids ids.npy 16 32 96
write_ids other.npy 16 32 96 2
narrow=("$grail" compress "$model" --calib ids.npy --sparsity 0.5 --align 1)
reads=(--data other.npy)

check "precisions that there are not"
for command in "compress $model --calib ids.npy --sparsity 0.5 -o out" \
    "plan $model --calib ids.npy --target-ratio 0.5 -o out" "eval $model --data other.npy" "verify $model $model" \
    "heal $model --teacher $model --calib ids.npy -o out"; do
    # shellcheck disable=SC2086
    refuses_clean 1 "does not compute in 'f16'; expected 'f32', 'bf16', 'bf16-gram', 'bf16x3' or 'auto'" \
        "$grail" $command --precision f16
done
refuses_clean 1 "does not compute in 'f64'" "${narrow[@]}" -o out --precision f64

check "a small network is f32 unless it is told otherwise"
runs "${narrow[@]}" -o auto
says '"precision": "f32"' auto/report.json
runs "$grail" eval auto "${reads[@]}" --json
says '"precision": "f32"' stdout

runs "$grail" doctor --json
if [[ $(field bf16_gflops stdout) == 0* ]]; then
    skip "this processor has no AVX-512"
fi

check "compress says that it is bf16, and its bytes repeat"
runs "${narrow[@]}" -o first --precision bf16
says "precision: products in bf16 with f32 sums" stdout
says '"precision": "bf16"' first/report.json
runs "${narrow[@]}" -o second --precision bf16
same_result first second
if cmp -s first/model.safetensors auto/model.safetensors; then
    fail "bf16 and f32 give the same bytes"
fi

check "Gram matrices of bf16 are made where they are asked for alone"
runs "${narrow[@]}" -o rounded --precision bf16-gram
says "precision: products and Gram matrices in bf16 with f32 sums" stdout
says '"precision": "bf16-gram"' rounded/report.json
runs "${narrow[@]}" -o again --precision bf16-gram
same_result rounded again
if cmp -s first/model.safetensors rounded/model.safetensors; then
    fail "bf16-gram and bf16 give the same bytes"
fi

# log_perplexity MODEL PRECISION
log_perplexity() {
    runs "$grail" eval "$1" "${reads[@]}" --precision "$2" --json
    says "\"precision\": \"$2\"" stdout
    field mean_nll stdout
}
# near A B: two log-perplexities that differ by at most 0.5 %
near() {
    holds "($1 - $2) * ($1 - $2) <= 0.005 * 0.005 * $1 * $1"
}
check "the log-perplexity of a run and of an evaluation in bf16 differs by less than 0.5 %"
exact=$(log_perplexity auto f32)
near "$exact" "$(log_perplexity first f32)"
near "$exact" "$(log_perplexity auto bf16)"
near "$exact" "$(log_perplexity rounded f32)"

check "verify: a plain cut equals zeroed columns"
runs "${narrow[@]}" -o plain --compensate none --precision bf16
runs "$grail" verify "$model" plain "${reads[@]}" --precision bf16 --json
says '"holds": true' stdout

check "plan, and what a search drops"
runs "$grail" plan "$model" --calib ids.npy -o plan.json --target-ratio 0.6 --tries 4 \
    --precision bf16
runs "$grail" compress "$model" --calib ids.npy -o planned --plan plan.json --precision bf16
log_perplexity planned bf16 >nll
[[ -s nll ]] || fail "no log-perplexity"

check "heal"
runs "$grail" heal first --teacher "$model" --calib ids.npy --heal-steps 8 -o healed \
    --precision bf16
log_perplexity healed bf16 >nll

check "images"
runs "$grail" compress "$vision/cnn.pth" --calib "$vision/calibration" --sparsity 0.3 -o images \
    --precision bf16
says '"precision": "bf16"' images/report.json
runs "$grail" eval images --data "$vision/test" --precision bf16 --json
holds "$(field top1 stdout) > 0.9"
