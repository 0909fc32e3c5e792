#!/usr/bin/env bash
# Prints the column "five epochs" of docs/results/healing.md: top-1 in % and seconds of ResNet-20 that was cut plainly and
# trained with labels, as the paper's networks were. bench/recipes/healing_images.json has the columns beside it.
#
# usage: GRAIL_PYTHON=PYTHON bench/labels_table.sh [GRAIL]
#   PYTHON   one with torch
# CIFAR-10 and the network are those of ../shared/data.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
data=${GRAIL_SHARED_DATA:-$root/../shared/data}
grail=${1:-$root/build/release/bin/grail}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"${GRAIL_PYTHON:?names a Python with torch}" -c 'import sys, torch; torch.save(torch.load(sys.argv[1], "cpu", weights_only=True), sys.argv[2])' \
    "$data/resnet-cifar/resnet20-12fca82f.th" "$work/resnet20.pth"
echo "| ResNet-20, removed | five epochs |"
echo "|---|---|"
for cut in 0.5 0.7; do
    "$grail" compress "$work/resnet20.pth" -o "$work/$cut" --calib "$data/cifar-10-batches-bin" \
        --sites conv --sparsity "$cut" --selector magnitude-l1 --compensate none --quiet >"$work/log"
    begun=$SECONDS
    "$GRAIL_PYTHON" "$root/tools/finetune.py" "$work/$cut" --data "$data/cifar-10-batches-bin" >"$work/log"
    top1=$(sed -n 's/.*top-1 \([0-9.]*\).*/\1/p' "$work/log" | tail -n 1)
    echo "| ${cut#0.}0 % | $top1 ($((SECONDS - begun)) s) |"
done
