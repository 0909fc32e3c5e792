#!/usr/bin/env bash
# grail quantize: the file opens, is nearer to the dense model than one that is rounded without samples,
# and what cannot be meant is refused. A run that is killed, or for which there is no room, leaves no file.
#
# usage: test_quantize.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

demo=$source_dir/demo
quantize=("$grail" quantize "$demo/model" --calib "$demo/calibration.txt" --samples 64 --context 128 --quiet)

check "feedback comes nearer to the dense model than rounding alone"
runs "${quantize[@]}" --type q4_0 -o rounded.gguf
says "rounded.gguf: llama, Q4_0, " stdout
runs "$grail" export "$demo/model" --type q4_0 -o plain.gguf
cmp <(head -c 2000 plain.gguf) <(head -c 2000 rounded.gguf) || fail "other keys"
(($(stat -c %s rounded.gguf) == $(stat -c %s plain.gguf))) || fail "$(ls -l)"
divergence() {
    "$grail" verify "$demo/model" "$1" --data "$demo/held-out.txt" --context 128 --windows 16 --json 2>/dev/null |
        sed -n 's/^ *"mean_kl": \([^,]*\).*/\1/p'
}
awk "BEGIN { exit !($(divergence rounded.gguf) < 0.8 * $(divergence plain.gguf)) }" ||
    fail "$(divergence rounded.gguf), without samples $(divergence plain.gguf)"

check "the same inputs give the same bytes"
runs "${quantize[@]}" --type q4_0 -o again.gguf
cmp rounded.gguf again.gguf || fail "other bytes"

check "narrowed layers of different widths"
runs "$grail" compress "$demo/model" -o layers --sparsity model.layers.1.mlp.down_proj=0.5 --compensate none --selector magnitude-l1 --align 32 --quiet
runs "$grail" quantize layers --calib "$demo/calibration.txt" --samples 16 --context 128 --type q8_0 -o layers.gguf --json
says '"architecture": "deci"' stdout
runs "$grail" eval layers.gguf --data "$demo/held-out.txt" --windows 2

check "what cannot be meant"
refuses 2 "--type" "${quantize[@]}" -o no.gguf
refuses 2 "q5_k" "${quantize[@]}" --type q5_k -o no.gguf
refuses 2 "--calib" "$grail" quantize "$demo/model" --type q4_0 -o no.gguf
refuses 1 "exists" "${quantize[@]}" --type q4_0 -o plain.gguf
refuses 1 "is a GGUF file already" "$grail" quantize plain.gguf --calib "$demo/calibration.txt" --type q4_0 -o no.gguf --quiet
refuses 1 "reads images" "$grail" quantize "$demo/vision/cnn.pth" --calib "$demo/vision/calibration" --preset cifar --type q4_0 -o no.gguf --quiet
[[ ! -e no.gguf ]] || fail "leaves a file"

check "no room for the file: refused before the pass, and nothing is left"
refuses 1 "File too large" bash -c 'ulimit -f 16 && exec "$@" --type q4_0 -o out' - "${quantize[@]}"
[[ -z $(find . -name '.grail-*.tmp') && ! -e out ]] || fail "left a file"

check "killed at any moment"
for pause in 0.02 0.1 0.3; do
    timeout -s KILL $pause "${quantize[@]}" --type q4_0 -o out >/dev/null 2>&1 || [[ ! -e out ]] ||
        fail "appears before it is complete"
    rm -f out
done

check "a NaN in the weights"
copy_model "$demo/model" damaged
patch_tensor damaged/model.safetensors model.layers.1.mlp.up_proj.weight ff ff ff ff
refuses 3 "model.layers.1.mlp.up_proj.weight" "$grail" quantize damaged --calib "$demo/calibration.txt" --samples 16 --context 128 --type q4_0 -o out --quiet
[[ ! -e out ]] || fail "left a file"
