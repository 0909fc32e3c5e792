#!/usr/bin/env bash
# Measures healing: the closed form alone, and with blocks, the network or both healed.
#
# usage: bench/healing_table.sh GRAIL RESULTS
#   GRAIL    the program
#   RESULTS  lines "network cut repair heal samples figure seconds" are added here; those that are there are
#            not measured again
# Needs the shared data (GRAIL_SHARED_DATA, or ../shared/data). Figures are perplexity on the other half of
# the text, or top-1 on the test images.
set -euo pipefail
export LC_ALL=C OMP_WAIT_POLICY=passive
(($# == 2)) || { sed -n '4,7s/^# //p' "$0" >&2; exit 2; }
grail=$1 results=$2
data=${GRAIL_SHARED_DATA-$(dirname "$0")/../../shared/data}
demo=$(dirname "$0")/../demo
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
touch "$results"

# measure NAME CUT REPAIR HEAL SAMPLES -- compress options -- eval options
measure() {
    local key="$1 $2 $3 $4 $5" begun seconds figure model compress=() evaluate=()
    shift 6
    grep -qF "$key " "$results" && return
    while [[ $1 != -- ]]; do compress+=("$1"); shift; done
    shift
    evaluate=("$@")
    rm -rf "$work/out" "$work/out.partial"
    begun=$(date +%s.%N)
    if ! "$grail" compress "${compress[@]}" -o "$work/out" --quiet >"$work/log" 2>&1; then
        echo "$key failed: $(tail -n 1 "$work/log")" | tee -a "$results"
        return
    fi
    seconds=$(awk -v a="$begun" -v b="$(date +%s.%N)" 'BEGIN { printf "%.0f", b - a }')
    figure=$("$grail" eval "$work/out" "${evaluate[@]}" --quiet --json |
        awk -F'[:,]' '/"perplexity"/ { printf "%.3f", $2 } /"top1"/ { printf "%.2f", 100 * $2 }')
    echo "$key $figure $seconds" | tee -a "$results"
}

text_of() { # halves of the stories, as docs/results/llm.md takes them
    local file=$1 lines
    lines=$(wc -l <"$file")
    head -n $((lines / 2)) "$file" >"$work/first.txt"
    tail -n +$((lines / 2 + 1)) "$file" >"$work/second.txt"
}

stories() { # CUT SELECTOR REPAIR HEAL
    local text=(--context 256 --protocol lines --window-bos)
    measure "stories260k" "$1,$2" "$3" "$4" 128 -- "$data/stories260k" --calib "$work/first.txt" \
        --sparsity "$1" --selector "$2" --compensate "$3" --heal "$4" --align 1 "${text[@]}" -- \
        --data "$work/second.txt" "${text[@]}"
}

images() { # NAME CHECKPOINT CUT SITES REPAIR HEAL SAMPLES
    local set=$data/cifar-10-batches-bin
    measure "$1" "$3,$4" "$5" "$6" "$7" -- "$2" --calib "$set" --sparsity "$3" --sites "$4" \
        --selector magnitude-l1 --compensate "$5" --heal "$6" --samples "$7" -- --data "$set" --split test
}

demonstration() { # NAME CHECKPOINT CUT HEAL
    measure "$1" "$3,obs" full "$4" 128 -- "$2" --calib "$demo/vision/calibration" --sparsity "$3" --heal "$4" -- \
        --data "$demo/vision/test"
}

story() { # CUT HEAL
    measure "demo" "$1,obs" full "$2" 128 -- "$demo/model" --calib "$demo/calibration.txt" --sparsity "$1" --heal "$2" \
        --context 256 --align 1 -- --data "$demo/held-out.txt" --context 256
}

text_of "$data/text/tinystories.txt"
resnet20=$(ls "$data"/resnet-cifar/resnet20-*.th)
resnet18=$data/resnet18-cifar10/resnet18_cifar10.pth
for heal in none block model block,model; do
    for cut in 0.3 0.5; do
        stories $cut wanda full $heal
        stories $cut obs full $heal
    done
    for cut in 0.5 0.7; do
        images resnet20 "$resnet20" $cut conv full $heal 128
        images resnet20 "$resnet20" $cut conv full $heal 1024
        story $cut $heal
        demonstration cnn "$demo/vision/cnn.pth" $cut $heal
        demonstration vit "$demo/vision/vit" $cut $heal
    done
    images resnet18 "$resnet18" 0.8 conv,stream full $heal 128
done
images resnet20 "$resnet20" 0.5 conv none none 128
images resnet20 "$resnet20" 0.5 conv none model 128
stories 0.3 wanda none none
stories 0.5 wanda none none
