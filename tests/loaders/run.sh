#!/usr/bin/env bash
# Narrows the tiny golden decoders and encoders in every way that changes a shape, and checks that stock
# transformers loads the results and computes grail's logits.
#
# usage: tests/loaders/run.sh GRAIL PYTHON [WORK_DIRECTORY]
#   GRAIL   the grail binary
#   PYTHON  an interpreter with a current torch, transformers, safetensors and numpy
# Run by hand: it needs no network, but a gigabyte of Python packages. The work directory must not
# exist yet; without one a temporary directory is used and removed. FAMILIES="A B" tries these alone.
set -euo pipefail

if (($# < 2 || $# > 3)); then
    sed -n '5,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
grail=$1
python=$2
here=$(cd "$(dirname "$0")" && pwd)
models=$here/../golden/models
check=$here/check_transformers.py
if (($# == 3)); then
    work=$3
    mkdir "$work"
else
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi

families=(llama3 llama-mha mistral qwen2 qwen3 gemma gemma2 gemma3 phi phi3 phi3-short smollm3 granite
    starcoder2 stablelm stablelm-parallel glm glm4 cohere cohere2 olmo olmo2 olmo3 falcon exaone4 exaone4-windowless nemotron gpt2 gpt-neox opt
    mixtral qwen2-moe qwen3-moe olmoe granitemoe gpt-oss gpt-oss-mxfp4 deepseek-v2 deepseek-v3
    deepseek-v3-free bert bert-masked roberta xlm-roberta distilbert modernbert modernbert-masked)
[ -z "${FAMILIES:-}" ] || read -ra families <<<"$FAMILIES" # some alone
cases=()
differing=()
failed=0

# add_case DIRECTORY IDS NAME: has grail compute the logits
add_case() {
    local logits=$work/$3.logits.safetensors
    if ! "$grail" logits "$1" --ids "$2" -o "$logits"; then
        echo "FAIL $3: grail logits" >&2
        failed=1
        return
    fi
    cases+=(--case "$1" "$2" "$logits")
}

# narrow MODEL SELECTOR SPARSITY SITES
narrow() {
    local name=$1-$2-$3-${4//,/+}
    if ! "$grail" compress "$models/$1" -o "$work/$name" --calib "$work/$1.calibration.npy" \
        --selector "$2" --sparsity "$3" --sites "$4" --align 1 --compensate full; then
        echo "FAIL $name: grail compress" >&2
        failed=1
        return
    fi
    add_case "$work/$name" "$work/$1.ids.npy" "$name"
}

# plan MODEL WHAT SITE KEPT [SITE KEPT]: two sites of the layers, and what they keep
plan() {
    local name=$1-$2
    printf '{"grail_plan": 1, "sites": [{"site": "model.layers.%s", "kept": %s}, {"site": "model.layers.%s", "kept": %s}]}' \
        "${@:3}" >"$work/$name.json"
    if ! "$grail" compress "$models/$1" -o "$work/$name" --calib "$work/$1.calibration.npy" \
        --plan "$work/$name.json"; then
        echo "FAIL $name: grail compress" >&2
        failed=1
        return
    fi
    add_case "$work/$name" "$work/$1.ids.npy" "$name"
}

for model in "${families[@]}"; do
    "$python" "$check" ids "$models/$model" "$work/$model.ids.npy" --seed 1
    "$python" "$check" ids "$models/$model" "$work/$model.calibration.npy" --seed 2 --sequences 16
    add_case "$models/$model" "$work/$model.ids.npy" "$model"
    # branches that read the same residual stream cannot go by themselves, and experts are no branch
    case $model in
    phi | stablelm-parallel | cohere | cohere2 | falcon | gpt-neox) ;;
    mixtral | qwen2-moe | olmoe | granitemoe | gpt-oss* | deepseek*) ;;
    *bert*) ;; # sublayers of encoders stay
    *) plan "$model" without-layer-0 0.self_attn.o_proj 0 0.mlp.down_proj 0 ;;
    esac
    # fewer experts, and these narrower
    case $model in
    mixtral | qwen2-moe | qwen3-moe | olmoe | granitemoe | gpt-oss* | deepseek-v3-free)
        for sites in experts experts,ffn; do
            narrow "$model" wanda 0.5 "$sites"
        done
        ;;
    esac
    # ranks and values of attention that is made of narrow vectors
    case $model in
    deepseek*)
        for sites in latent values latent,values latent,heads; do
            narrow "$model" obs 0.5 "$sites"
            narrow "$model" wanda 0.25 "$sites"
        done
        plan "$model" ranks-differ 0.self_attn.kv_a_proj 11 1.self_attn.v_proj 30
        ;;
    esac
    # layers of different widths, and without attention or FFN
    case $model in
    mixtral | granitemoe | gpt-oss* | deepseek*) plan "$model" layers-differ 0.self_attn.o_proj 1 1.self_attn.o_proj 2 ;;
    olmoe) plan "$model" layers-differ 0.mlp.experts.1.down_proj 7 1.mlp.experts.2.down_proj 5 ;;
    qwen2-moe) plan "$model" layers-differ 0.self_attn.o_proj 1 0.mlp.experts.2.down_proj 5 ;;
    qwen3-moe) plan "$model" layers-differ 0.self_attn.o_proj 1 1.mlp.experts.2.down_proj 5 ;;
    *) plan "$model" layers-differ 0.self_attn.o_proj 1 1.mlp.down_proj 33 ;;
    esac
    case $model in
    phi | stablelm-parallel | cohere | cohere2 | falcon | gpt-neox) ;;
    mixtral | qwen2-moe | qwen3-moe | olmoe | granitemoe | gpt-oss* | deepseek* | *bert*) ;;
    *) plan "$model" layers-lack-parts 0.self_attn.o_proj 0 1.mlp.down_proj 0 ;;
    esac
    # what vLLM's DeciLMForCausalLM opens: FFNs that differ, and layers that lack parts behind the first attention
    case $model in
    llama3 | llama-mha)
        plan "$model" ffns-differ 0.mlp.down_proj 40 1.mlp.down_proj 33
        plan "$model" later-parts-lack 0.mlp.down_proj 0 1.self_attn.o_proj 0
        differing+=("$work/$model"-{layers-differ,layers-lack-parts,ffns-differ,later-parts-lack})
        ;;
    esac
    for selector in wanda fold; do
        for sites in ffn heads ffn,heads; do
            narrow "$model" "$selector" 0.5 "$sites"
        done
    done
done
# Removing a quarter of 8 heads leaves 6, and 64 is no multiple of 6, which Llama in transformers 5
# refuses. So the result must call itself Mistral. llama-mha has biases, which Mistral does not
# have, so no stock class opens it then; nor those of families that derive the width of a head.
for model in "${families[@]}"; do
    narrow "$model" wanda 0.25 heads
done

"$python" "$check" check "${cases[@]}" || failed=1
((${#differing[@]} == 0)) || "$python" "$here/check_deci.py" "${differing[@]}" || failed=1
exit "$failed"
