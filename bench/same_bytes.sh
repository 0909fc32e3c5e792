#!/usr/bin/env bash
# Runs two binaries on the networks of the repository - decoders, mixtures, encoders, image networks; every selector,
# repair, budget, healing, rounding and statistics file; on one rank and two - and compares the bytes of all that they
# write, times left out. For changes that must not change results. Takes some minutes.
#
# usage: bench/same_bytes.sh OLD NEW [PATTERN]     PATTERN: of the names of the cases, an extended regular expression
old=$(realpath -- "$1") new=$(realpath -- "$2") pattern=${3-.}
set -- "$new" "$(dirname "$0")/.."
. "$(dirname "$0")/../tests/cli/lib.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
same=0 differing=0

# bytes_of PATH: hashes of all files there, times left out
bytes_of() {
    if [[ -f $1 ]]; then
        grep -av seconds "$1" | sha256sum
        return
    fi
    (
        cd "$1"
        find . -type f | sort | while read -r file; do
            case $file in
            */report.json | */plan.json) without_seconds "$file" ;;
            */README.md) sed '/^## Command$/,$d' "$file" ;;
            *) cat "$file" ;;
            esac | sha256sum | sed "s|-|$file|"
        done
    )
}

# both NAME COMMAND...: the command of grail writes OUT
both() {
    local name=$1 binary code alone=(--threads 1)
    shift
    [[ $1 != inspect && $1 != export ]] || alone=()
    [[ $name =~ $pattern ]] || return 0
    for binary in old new; do
        rm -rf OUT OUT.partial
        code=0
        ${launcher-} "${!binary}" "$@" "${alone[@]}" >$binary.out 2>$binary.err || code=$?
        if [[ -e OUT ]]; then
            bytes_of OUT >$binary.bytes
        else
            cat $binary.out >$binary.bytes # what a command prints that writes nothing
        fi
        echo "exit code $code" >>$binary.bytes
        grep -v ' s$\|seconds\|[0-9] s\b\|^block ' $binary.err >>$binary.bytes || true
    done
    if cmp -s old.bytes new.bytes; then
        same=$((same + 1))
        if ((code != 0)); then
            echo "$name: the same refusal: $(head -n 1 new.err)"
        fi
    else
        differing=$((differing + 1))
        echo "$name: DIFFERS"
        { diff old.bytes new.bytes || true; } | head -n 8 | sed 's/^/    /' || true
    fi
}

write_ids ids.npy 16 32 96
write_ids other.npy 16 16 96 2
text=(--calib "$demo/calibration.txt" --context 64 --samples 24)
ids=(--calib ids.npy)
images=(--calib "$demo/vision/calibration")
llama=$golden/llama3

for selector in random magnitude-l1 wanda obs gram-css fold ziplm slimgpt flap leverage wanda++; do
    own=(--selector $selector)
    [[ $selector != wanda++ ]] || own+=(--compensate own)
    both decoder-$selector compress "$llama" "${ids[@]}" -o OUT --sparsity 0.5 --align 1 "${own[@]}"
done
for repair in none own grail full; do
    both decoder-$repair compress "$demo/model" "${text[@]}" -o OUT --sparsity 0.3 --compensate $repair
done
for target in local dense mixed; do
    both decoder-$target compress "$demo/model" "${text[@]}" -o OUT --sparsity 0.3 --target $target
done
both decoder-eval compress "$demo/model" "${text[@]}" -o OUT --sparsity 0.3 --eval "$demo/held-out.txt"
both decoder-open compress "$demo/model" "${text[@]}" -o OUT --sparsity 0.3 --loop open
both decoder-select-open compress "$demo/model" "${text[@]}" -o OUT --sparsity 0.3 --select open
both decoder-scratch compress "$demo/model" "${text[@]}" -o OUT --sparsity 0.3 --scratch . --memory 1M
both decoder-heal compress "$demo/model" "${text[@]}" -o OUT --sparsity 0.3 --heal block,model --heal-steps 8
both decoder-heal-group compress "$demo/model" "${text[@]}" -o OUT --sparsity 0.3 --heal block --heal-group 2 --heal-steps 4
both decoder-bf16 compress "$demo/model" "${text[@]}" -o OUT --sparsity 0.3 --precision bf16
both decoder-ref compress "$llama" "${ids[@]}" -o OUT --sparsity 0.5 --align 1 --backend ref
both decoder-sharded compress "$golden/llama3-sharded" "${ids[@]}" -o OUT --sparsity 0.5 --align 1
for rounded in w4a16 w8a16 q8_0 q5_0; do
    both decoder-$rounded compress "$demo/model" "${text[@]}" -o OUT --sparsity ffn=0.3 --quantize $rounded
    both quantize-$rounded quantize "$demo/model" "${text[@]}" -o OUT --type $rounded
done
for budget in uniform flap slimgpt error divergence search; do
    both plan-$budget plan "$demo/model" "${text[@]}" -o OUT --target-ratio 0.8 --budget $budget
done
both plan-drops plan "$demo/model" "${text[@]}" -o OUT --target-ratio 0.7 --budget search --drop-sublayers --tries 6
both budget-divergence compress "$demo/model" "${text[@]}" -o OUT --target-ratio 0.8 --budget divergence
for family in "$golden"/*/; do
    family=$(basename "$family")
    both "family-$family" compress "$golden/$family" "${ids[@]}" -o OUT --sparsity 0.5 --align 1
    both "inspect-$family" inspect "$golden/$family"
done
for family in granitemoe mixtral olmoe qwen3-moe gpt-oss; do
    both "experts-$family" compress "$golden/$family" "${ids[@]}" -o OUT --sparsity 0.5 --align 1 --sites ffn,experts
done
for family in deepseek-v2 deepseek-v3; do
    both "latent-$family" compress "$golden/$family" "${ids[@]}" -o OUT --sparsity 0.5 --align 1 --sites latent
    both "values-$family" compress "$golden/$family" "${ids[@]}" -o OUT --sparsity 0.5 --align 1 --sites values
done
for sites in ffn heads ffn,heads; do
    both "vit-$sites" compress "$demo/vision/vit" "${images[@]}" -o OUT --sparsity 0.5 --sites $sites
done
both vit-heal compress "$demo/vision/vit" "${images[@]}" -o OUT --sparsity 0.5 --heal block,model --heal-steps 4
resnet=(compress "$demo/vision/cnn.pth" "${images[@]}" --preset cifar -o OUT --sparsity 0.5)
both resnet-conv "${resnet[@]}" --sites conv
both resnet-stream "${resnet[@]}" --sites conv,stream --repair
both resnet-fold "${resnet[@]}" --sites conv,stream --selector fold --repair
both resnet-heal "${resnet[@]}" --sites conv --heal block,model --heal-steps 4
both resnet-open "${resnet[@]}" --sites conv --loop open
both resnet-ref "${resnet[@]}" --sites conv,stream --backend ref --samples 16
for model in hf-clip hf-clip-vision hf-vit model-soup open-clip open-clip-quickgelu timm-vit timm-vit-hub torchvision-vit \
    simple-vit simple-vit-pth/model.pth; do
    settings=()
    [[ $model == hf* || $model == timm-vit-hub || $model == simple* ]] || settings=(--set head_dim=16)
    model=$source_dir/tests/golden/vision/$model
    both "vision-${model##*vision/}" compress "$model" "${images[@]}" --samples 16 -o OUT --sparsity 0.5 --align 1 "${settings[@]}"
    both "onnx-${model##*vision/}" export "$model" -o OUT "${settings[@]}"
done
both onnx-resnet export "$demo/vision/cnn.pth" -o OUT
both gram gram "$llama" "${ids[@]}" -o OUT
both gram-full gram "$demo/model" "${text[@]}" -o OUT --full
both gguf-f16 export "$demo/model" -o OUT --type f16
both eval eval "$demo/model" --data "$demo/held-out.txt" --context 64
both verify verify "$demo/model" "$demo/model" --data "$demo/held-out.txt" --context 64
rm -rf narrow
"$old" compress "$llama" -o narrow --sparsity 0.5 --align 1 --selector magnitude-l1 --compensate none --quiet >/dev/null
both heal heal narrow --teacher "$llama" "${ids[@]}" --samples 16 --heal block,model --heal-steps 4 -o OUT
if command -v mpirun >/dev/null; then
    launcher="mpirun --oversubscribe --bind-to none -n 2"
    both ranks-decoder compress "$demo/model" "${text[@]}" -o OUT --sparsity 0.3 --heal model --heal-steps 4
    both ranks-resnet "${resnet[@]}" --sites conv,stream --repair
    launcher=
else
    echo "two ranks: left out, mpirun is not installed"
fi
echo "$same cases have the same bytes, $differing differ"
((differing == 0))
