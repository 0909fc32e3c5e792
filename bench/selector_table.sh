#!/usr/bin/env bash
# Perplexity of every selector with every repair, 10 to 70 % of groups and neurons removed, on the
# demonstration model and, where ../shared/data is present, on stories260k (calibrated on the first
# half of its text, evaluated on the second). One line for each cell is added to RESULTS; cells that
# it has are not measured again, so an interrupted table continues. A run that is refused has "-".
#
# usage: bench/selector_table.sh RESULTS [GRAIL]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
results=$1
grail=${2:-$root/build/release/bin/grail}
data=${GRAIL_SHARED_DATA:-$root/../shared/data}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_WAIT_POLICY=passive
touch "$results"

selectors=$("$grail" compress --help | sed -n '/^  --selector/,/^  --[^s]/p' | sed -n 's/^ \{28\}\([a-z0-9-]\+\) .*/\1/p')

perplexity() { # MODEL TEXT OPTIONS...
    "$grail" eval "$1" --data "$2" --quiet --json "${@:3}" 2>/dev/null |
        sed -n 's/.*"mean_nll": \([0-9.]*\).*/\1/p' | awk '{ printf "%.3f", exp($1) }'
}

cell() { # NAME MODEL CALIBRATION TEXT SELECTOR REPAIR SPARSITY OPTIONS...
    local name=$1 model=$2 calibration=$3 text=$4 selector=$5 repair=$6 sparsity=$7 value=-
    local key="$name $selector $repair $sparsity"
    shift 7
    grep -qF "$key " "$results" && return
    rm -rf "$work"/out*
    if "$grail" compress "$model" -o "$work/out" --calib "$calibration" --sparsity "$sparsity" --align 1 \
        --selector "$selector" --compensate "$repair" --quiet "$@" >"$work/log" 2>&1; then
        value=$(perplexity "$work/out" "$text" "$@")
    fi
    echo "$key $value" | tee -a "$results"
}

table() { # NAME MODEL CALIBRATION TEXT OPTIONS...
    local sparsity selector repair
    for sparsity in 0.1 0.2 0.3 0.4 0.5 0.6 0.7; do
        for selector in $selectors; do
            for repair in none own grail full; do
                cell "${@:1:4}" "$selector" "$repair" "$sparsity" "${@:5}"
            done
        done
    done
}

if [ -r "$data/text/tinystories.txt" ]; then
    lines=$(wc -l <"$data/text/tinystories.txt")
    head -n $((lines / 2)) "$data/text/tinystories.txt" >"$work/first.txt"
    tail -n +$((lines / 2 + 1)) "$data/text/tinystories.txt" >"$work/second.txt"
    table stories260k "$data/stories260k" "$work/first.txt" "$work/second.txt" --context 256 --protocol lines \
        --window-bos
fi
table demo "$root/demo/model" "$root/demo/calibration.txt" "$root/demo/held-out.txt" --context 256
