#!/usr/bin/env bash
# Perplexity after narrowing, as a Markdown table: the demonstration model at 20, 30 and 50 %, and
# stories260k at 25 % where ../shared/data is present. Usage: bench/llm_table.sh [GRAIL]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
grail=${1:-$root/build/release/bin/grail}
data=${GRAIL_SHARED_DATA:-$root/../shared/data}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

nll() { # MODEL TEXT OPTIONS...
    local model=$1 text=$2
    shift 2
    "$grail" eval "$model" --data "$text" --quiet --json "$@" 2>/dev/null |
        sed -n 's/.*"mean_nll": \([0-9.]*\).*/\1/p'
}

row() { # NAME MODEL CALIBRATION TEXT SPARSITY SELECTOR TEXT-OPTIONS...
    local name=$1 model=$2 calibration=$3 text=$4 sparsity=$5 selector=$6
    shift 6
    local results=("$(nll "$model" "$text" "$@")")
    local compensate
    for compensate in none grail full; do
        rm -rf "$work/out"
        "$grail" compress "$model" -o "$work/out" --calib "$calibration" --sparsity "$sparsity" \
            --selector "$selector" --compensate "$compensate" --quiet "$@" >"$work/log"
        results+=("$(nll "$work/out" "$text" "$@")")
    done
    printf '%s\n' "${results[@]}" | awk -v name="$name" -v sparsity="$sparsity" -v selector="$selector" '
        { nll[NR] = $1 }
        END { lost = nll[2] - nll[1]
              printf "| %s | %s | %s | %.3f | %.3f | %.3f | %.3f | %.0f %% | %.0f %% |\n", name, selector,
                  sparsity, exp(nll[1]), exp(nll[2]), exp(nll[3]), exp(nll[4]),
                  100 * (nll[2] - nll[3]) / lost, 100 * (nll[2] - nll[4]) / lost }'
}

echo "| model | selector | removed | dense | none | grail | full | grail recovers | full recovers |"
echo "|---|---|---|---|---|---|---|---|---|"
for selector in wanda magnitude-l2 fold; do
    for sparsity in 0.2 0.3 0.5; do
        row demo "$root/demo/model" "$root/demo/calibration.txt" "$root/demo/held-out.txt" \
            "$sparsity" "$selector" --context 256
    done
done
if [ -r "$data/text/tinystories.txt" ]; then
    lines=$(wc -l <"$data/text/tinystories.txt")
    head -n $((lines / 2)) "$data/text/tinystories.txt" >"$work/first.txt"
    tail -n +$((lines / 2 + 1)) "$data/text/tinystories.txt" >"$work/second.txt"
    for selector in wanda magnitude-l2 fold; do
        row "stories260k, 1st half to 2nd" "$data/stories260k" "$work/first.txt" "$work/second.txt" \
            0.25 "$selector" --context 256 --protocol lines --window-bos
        row "stories260k, 2nd half to 1st" "$data/stories260k" "$work/second.txt" "$work/first.txt" \
            0.25 "$selector" --context 256 --protocol lines --window-bos
    done
fi
