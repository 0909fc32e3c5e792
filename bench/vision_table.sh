#!/usr/bin/env bash
# Top-1 accuracy on all 10,000 test images of CIFAR-10 after `full`, for the ResNet-20 (inner channels)
# and the ResNet-18 (inner channels and residual streams) of ../shared/data: several selectors with
# the same share removed everywhere ("uniform"), and obs with the widths that a search chooses for
# as many parameters as obs keeps that way ("search"). One line for each cell is added to RESULTS;
# cells that it has are not measured again, so an interrupted table continues.
#
# usage: bench/vision_table.sh RESULTS [GRAIL]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
results=$1
grail=${2:-$root/build/release/bin/grail}
data=${GRAIL_SHARED_DATA:-$root/../shared/data}
images=$data/cifar-10-batches-bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_WAIT_POLICY=passive
touch "$results"

has() { grep -qF "$1 " "$results"; }

# Adds a line: network, widths, selector, ratio, parameters, accuracy.
measure() { # KEY OUTPUT
    local parameters accuracy
    parameters=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["narrow"]["parameters"])' "$2/report.json")
    accuracy=$("$grail" eval "$2" --data "$images" --quiet --json 2>/dev/null | sed -n 's/.*"top1": \([0-9.]*\).*/\1/p')
    echo "$1 $parameters $(awk -v a="$accuracy" 'BEGIN { printf "%.2f", 100 * a }')" | tee -a "$results"
    rm -rf "$work"/out*
}

uniform() { # NAME MODEL KINDS SELECTOR RATIO
    local key="$1 uniform $4 $5"
    has "$key" && return
    "$grail" compress "$2" -o "$work/out" --calib "$images" --sites "$3" --sparsity "$5" --selector "$4" \
        --quiet >"$work/log" 2>&1 || { cat "$work/log"; return; }
    measure "$key" "$work/out"
}

search() { # NAME MODEL KINDS RATIO TRIES
    local key="$1 search obs $4" parameters
    has "$key" && return
    parameters=$(awk -v k="$1 uniform obs $4 " 'index($0, k) == 1 { print $5 }' "$results")
    rm -f "$work/plan.json"
    "$grail" plan "$2" -o "$work/plan.json" --calib "$images" --sites "$3" --target-params "$parameters" \
        --tries "$5" --quiet >"$work/log" 2>&1 || { cat "$work/log"; return; }
    "$grail" compress "$2" -o "$work/out" --calib "$images" --plan "$work/plan.json" --quiet >"$work/log" 2>&1 ||
        { cat "$work/log"; return; }
    measure "$key" "$work/out"
}

network() { # NAME MODEL KINDS TRIES RATIOS...
    local ratio selector
    for ratio in "${@:5}"; do
        for selector in magnitude-l1 obs gram-css fold; do
            uniform "${@:1:3}" "$selector" "$ratio"
        done
        search "${@:1:3}" "$ratio" "$4"
    done
}

network resnet20 "$data/resnet-cifar/resnet20-12fca82f.th" conv 32 0.3 0.5 0.7
network resnet18 "$data/resnet18-cifar10/resnet18_cifar10.pth" conv,stream 16 0.5 0.8 0.7 0.3
