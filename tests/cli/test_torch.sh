#!/usr/bin/env bash
# The backend of PyTorch on the processor: what cannot be it is refused by name, and whole runs - every family, selectors,
# repairs, folding, streams with REPAIR, healing, plans, rounding - give what the backend cpu gives, within rounding.
#
# usage: test_torch.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

measure=("$grail" eval "$demo/model" --data "$demo/held-out.txt" --windows 2 --context 64 --quiet)

check "what is no PyTorch is refused by name"
mkdir -p none broken/lib foreign/torch/lib path
echo text >broken/lib/libtorch_cpu.so
for backend in torch torch:cpu torch:cuda; do
    refuses 1 "PyTorch was not found: python3 has no package torch; install release 2.11 or newer" \
        env -u GRAIL_TORCH PATH="$PWD/path" "$(command -v bash)" -c 'exec "$@"' - "${measure[@]}" --backend $backend
    refuses 1 "'none' has no libtorch_cpu.so; GRAIL_TORCH names the directory of the package torch (--torch)" "${measure[@]}" --backend $backend --torch none
    refuses 1 "PyTorch cannot be used: broken/lib/libtorch_cpu.so: file too short" \
        "${measure[@]}" --backend $backend --torch broken
done
if command -v cc >/dev/null; then
    cc -shared -o foreign/torch/lib/libtorch_cpu.so -xc /dev/null
    refuses 1 "its libraries lack the function aoti_torch_abi_version; expected torch 2.11 or newer" \
        "${measure[@]}" --backend torch --torch foreign
    refuses 1 "the PyTorch of 'foreign/torch/lib' was made without CUDA: it has no libtorch_cuda.so" \
        "${measure[@]}" --backend torch:cuda --torch foreign
    mkdir old
    cc -shared -o old/libtorch_cpu.so -xc - <<<'unsigned long aoti_torch_abi_version(void) { return 2UL << 56 | 10UL << 48; }'
    refuses 1 "PyTorch cannot be used: expected torch 2.11 or newer, found 2.10" "${measure[@]}" --backend torch --torch old
fi
refuses 1 "'none' has no libtorch_cpu.so" env GRAIL_TORCH=broken "${measure[@]}" --backend torch:cpu --torch none
refuses 1 "broken/lib/libtorch_cpu.so: file too short" env GRAIL_TORCH=none "${measure[@]}" --backend torch:cpu --torch broken
runs "$grail" doctor --seconds 0 --torch none
says "not torch (f32, bf16, f16), torch:cpu (f32, bf16, f16), torch:cuda (f32, bf16, f16): 'none' has no libtorch_cpu.so" stdout
refuses 1 "unknown backend 'torch:tpu'" "${measure[@]}" --backend torch:tpu
refuses 1 "the backend 'torch:cpu' has no device 1" "${measure[@]}" --backend torch:cpu:1
refuses 1 "the backend cannot be 'torch:mps': its memory has no addresses" "${measure[@]}" --backend torch:mps
refuses 1 "the backend cannot be 'torch:xpu:1': its memory has addresses, but" "${measure[@]}" --backend torch:xpu:1

[[ -n ${GRAIL_TORCH:-} ]] || skip "GRAIL_TORCH names no PyTorch"
runs "${measure[@]}" --backend torch:cpu
refuses 1 "this process has PyTorch loaded already, from" \
    env LD_PRELOAD="$(find "$GRAIL_TORCH" -name libtorch_cpu.so | head -n 1)" "${measure[@]}" --backend torch:cpu --torch broken

write_ids ids.npy 16 32 96
write_ids other.npy 16 16 96 2
text=(--calib "$demo/calibration.txt" --context 128 --samples 64)
ids=(--calib ids.npy)
images=(--calib "$demo/vision/calibration" --samples 32)

precision=f32 # torch's
# both NAME COMMAND...: what the command writes to OUT by both backends
both() {
    local backend type
    check "$1"
    rm -rf cpu torch
    for backend in cpu torch:cpu; do
        type=f32
        [[ $backend == cpu ]] || type=$precision
        runs "$grail" "${@:2}" --backend $backend --precision "$type" --quiet --threads 2
        mv OUT "${backend%:cpu}"
    done
}

# apart A B OPTIONS...: the largest difference of logits
apart() {
    runs "$grail" verify "$1" "$2" --json "${@:3}"
    field max_abs stdout
}

# near DENSE DATA...: both results give the same logits, within what rounding makes of a value; or, where a last bit decided
# between fits of almost the same error, logits that are as far from those of the dense network
near() {
    local ours theirs
    awk "BEGIN { exit !($(apart cpu torch "${@:2}") < 2e-2) }" && return
    apart "$1" cpu "${@:2}" >/dev/null
    ours=$(field relative_error stdout)
    apart "$1" torch "${@:2}" >/dev/null
    theirs=$(field relative_error stdout)
    holds "$theirs / $ours < 1.1 && $ours / $theirs < 1.1"
}

# alike DATA...: both results are as good, within 0.3 % of the loss, or 1 % where weights are rounded to four bits: a last
# bit moves one of them to the next step; 3 % where all values have 16 bits, of weights that are stored in f32. With few
# samples, greedy choices differ by more.
alike() {
    local ours theirs most=1.003
    [[ $checking != rounding* ]] || most=1.01
    [[ $precision == f32 ]] || most=1.03
    runs "$grail" eval cpu --json "$@"
    ours=$(field mean_nll stdout)
    runs "$grail" eval torch --json "$@"
    theirs=$(field mean_nll stdout)
    holds "$theirs / $ours < $most && $ours / $theirs < $most"
}

for family in "$golden"/*/; do
    family=$(basename "$family")
    both "$family" compress "$golden/$family" "${ids[@]}" -o OUT --sparsity 0.5 --align 1
    if grep -q experts "$golden/$family/config.json"; then
        alike --data other.npy # a last bit sends a row to other experts
    else
        near "$golden/$family" --data other.npy
    fi
done

narrow=(compress "$demo/model" "${text[@]}" -o OUT --sparsity 0.3)
held_out=(--data "$demo/held-out.txt" --windows 16)
for selector in magnitude-l1 wanda obs gram-css fold ziplm slimgpt flap leverage; do
    both "$selector" "${narrow[@]}" --selector $selector
    alike "${held_out[@]}"
done
for repair in none own grail; do
    both "repair $repair" "${narrow[@]}" --compensate $repair
    alike "${held_out[@]}"
done
both "an open loop" "${narrow[@]}" --loop open
alike "${held_out[@]}"
both "gradients of regions" "${narrow[@]}" --selector wanda++ --compensate own
alike "${held_out[@]}"
both "healing" "${narrow[@]}" --heal block,model --heal-steps 8
alike "${held_out[@]}"
both "rounding to groups" compress "$demo/model" "${text[@]}" -o OUT --sparsity ffn=0.3 --quantize w4a16
alike "${held_out[@]}"
both "rounding alone" quantize "$demo/model" "${text[@]}" -o OUT --type w4a16
alike "${held_out[@]}"
both "a plan by divergence" compress "$demo/model" "${text[@]}" -o OUT --target-ratio 0.8 --budget divergence
alike "${held_out[@]}"

for precision in bf16 f16; do
    both "values in $precision, healed" "${narrow[@]}" --heal block,model --heal-steps 8
    alike "${held_out[@]}"
    # Enough tokens for the table of embeddings, too; then block by block, as on a device without room.
    for room in 8G 1K; do
        both "values in $precision, all healed in $room of memory" compress "$golden/gemma3" "${ids[@]}" -o OUT --sparsity 0.5 --align 1 --compensate none \
            --heal model --heal-steps 64 --heal-batch 8 --memory $room
        alike --data other.npy
    done
done
precision=f32

test=(--data "$demo/vision/test")
both "streams with REPAIR" compress "$demo/vision/cnn.pth" "${images[@]}" --preset cifar -o OUT --sparsity 0.5 --sites conv,stream --repair
alike "${test[@]}" --preset cifar
both "a folded network of images" compress "$demo/vision/cnn.pth" "${images[@]}" --preset cifar -o OUT --sparsity 0.5 --sites conv,stream --selector fold
alike "${test[@]}" --preset cifar
groups=$source_dir/tests/golden/vision/onnx_groups/net.onnx
for selector in wanda obs; do
    both "convolutions in groups, $selector" compress "$groups" "${images[@]}" --preset cifar -o OUT --sparsity 0.5 \
        --sites conv,stream,ffn --selector $selector --align 1
    near "$groups" "${test[@]}" --preset cifar
done
both "healing of convolutions" compress "$demo/vision/cnn.pth" "${images[@]}" --preset cifar -o OUT --sparsity 0.5 --sites conv --heal block,model --heal-steps 4
alike "${test[@]}" --preset cifar
both "healing of a vision transformer" compress "$demo/vision/vit" "${images[@]}" -o OUT --sparsity 0.5 --heal block --heal-steps 4
alike "${test[@]}" --preset cifar
