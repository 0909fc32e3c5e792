#!/usr/bin/env bash
# Times of stock shapes, dense and narrowed, with aligned and with odd widths, in ONNX Runtime or grail, by grail-bench of the
# Python package.
#
# usage: bench/latency_table.sh GRAIL MODELS [ENGINE [BATCH...]]
#   GRAIL   the grail binary
#   MODELS  a directory with resnet18.pth and resnet50.pth of torchvision, vit_small.pth of timm
#           (vit_small_patch16_224); weights may be random, since only shapes matter here
#   ENGINE  onnxruntime (default) or grail
#   BATCH   images at once, one column for each (1 8)
# Each ratio is the median over runs in turns. Prints a table in Markdown.
set -euo pipefail

if (($# < 2)); then
    sed -n '5,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
grail=$(realpath "$1")
models=$2
engine=${3:-onnxruntime}
batches=("${@:4}")
((${#batches[@]} > 0)) || batches=(1 8)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# field KEY FILE: the first value of a key in a JSON document with one key per line
field() {
    sed -n "s/^ *\"$1\": \"\\{0,1\\}\\([^\",]*\\).*/\\1/p" "$2" | head -n 1
}

# share PART ALL: the removed percentage
share() {
    awk "BEGIN { printf \"%.1f\", 100 * (1 - $1 / $2) }"
}

# row MODEL SITES CUT ALIGN
row() {
    local dense=$models/$1.pth summary=$work/summary.json ratio
    rm -rf "$work/narrow"
    "$grail" compress "$dense" -o "$work/narrow" --sites "$2" --sparsity "$3" --align "$4" --json \
        --selector magnitude-l1 --compensate none --quiet >"$summary" 2>/dev/null
    printf '| %s | %s | %s | %s | %s %% | %s %% |' "$1" "$2" "$3" "$4" \
        "$(share "$(field parameters "$summary")" "$(field dense_parameters "$summary")")" \
        "$(share "$(field macs_per_token "$summary")" "$(field dense_macs_per_token "$summary")")"
    for batch in "${batches[@]}"; do
        grail-bench "$dense" "$work/narrow" --engine "$engine" --batch "$batch" --json \
            >"$work/bench.json" 2>/dev/null
        ratio=$(field ratio "$work/bench.json")
        printf ' %.2f |' "$ratio"
    done
    printf '\n'
}

printf '| network | sites | cut | align | parameters removed | MACs removed |'
for batch in "${batches[@]}"; do printf ' dense / narrow, batch %s |' "$batch"; done
printf '\n|---|---|---|---|---|---|'
for batch in "${batches[@]}"; do printf -- '---|'; done
printf '\n'
for network in resnet18 resnet50; do
    for sites in conv conv,stream; do
        for cut in 0.3 0.5; do
            for align in 1 auto; do row "$network" "$sites" "$cut" "$align"; done
        done
    done
done
for cut in 0.3 0.5; do
    for align in 1 auto; do row vit_small ffn "$cut" "$align"; done
done
