#!/usr/bin/env bash
# Prints the table of docs/results/budgets.md of sublayers that are dropped by a plan and nothing else: perplexity of
# stories260k with and without refits of the maps before them. Its text is that of build/texts (bench/texts.sh).
#
# usage: bench/drops_table.sh CELLS [GRAIL]
#   CELLS   file of what is measured already (see bench/cells.sh)
# GRAIL_QUICK=1 measures a few windows, to try the script.
set -euo pipefail
source "$(dirname "$0")/cells.sh"
cells_begin "$@"
text=(--context 256 --protocol lines --window-bos)
given=(--calib "$root/build/texts/stories.txt" "${text[@]}")
measured=(--data "$root/build/texts/other-half.txt" "${text[@]}")
if [[ ${GRAIL_QUICK-} ]]; then
    given+=(--samples 8)
    measured+=(--windows 4)
fi

# A plan that drops the sublayers named, as "attention 2" or "FFN 3".
plan_of_drops() { # FILE SUBLAYER...
    local sites=() sublayer layer name
    for sublayer in "${@:2}"; do
        layer=${sublayer#* }
        name=$([[ $sublayer == FFN* ]] && echo mlp.down_proj || echo self_attn.o_proj)
        sites+=("{\"site\": \"model.layers.$layer.$name\", \"kept\": 0}")
    done
    local IFS=,
    echo "{\"grail_plan\": 1, \"sites\": [${sites[*]}]}" >"$1"
}

refits_row() { # NAME SUBLAYER...
    local key=${1//[ ,]/_} refit
    plan_of_drops "$work/plan.json" "${@:2}"
    for refit in none auto; do
        cell "$key,$refit" compress "$data/stories260k" "${given[@]}" --plan "$work/plan.json" --refit "$refit" -- "${measured[@]}"
    done
    row "$1" "$(value "$key,none" %.2f)" "$(value "$key,auto" %.2f)"
}

heading dropped "no refits" refits
refits_row "attention of layer 2" "attention 2"
refits_row "attention of layer 4" "attention 4"
refits_row "FFN of layer 2" "FFN 2"
refits_row "layer 2" "attention 2" "FFN 2"
refits_row "attention of layer 2, FFN of layer 3" "attention 2" "FFN 3"
