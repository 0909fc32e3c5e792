#!/usr/bin/env bash
# Prints the tables of docs/results/budgets.md: perplexity of stories260k with widths chosen together, at equal
# parameters. The model and its text are those of ../shared/data: calibrated on one half, measured on the other.
#
# usage: bench/budgets_table.sh CELLS [GRAIL [TABLE...]]
#   CELLS   file of what is measured already (see bench/cells.sh)
#   TABLE   budgets, drops or refits (all)
# GRAIL_QUICK=1 measures a few windows with a few trials, to try the script.
set -euo pipefail
source "$(dirname "$0")/cells.sh"
cells_begin "$@"
tables=("${@:3}")
((${#tables[@]} > 0)) || tables=(budgets drops refits)
stories_begin
trials=60
[[ ! ${GRAIL_QUICK-} ]] || trials=2

table_budgets() {
    local cut budget
    cell dense dense "$model" -- "${measured[@]}"
    heading removed parameters uniform flap search "lost log-perplexity that search takes back"
    for cut in 0.2 0.3 0.4 0.5; do
        narrow "uniform,$cut" --sparsity "$cut"
        for budget in flap search; do
            narrow "$budget,$cut" --target-params "$(field "uniform,$cut" 3)" --budget "$budget" \
                $([[ $budget == search ]] && echo --tries $trials)
        done
        row "$(percent "$cut")" "$(field "uniform,$cut" 3)" "$(value "uniform,$cut" %.3f)" "$(value "flap,$cut" %.3f)" \
            "$(value "search,$cut" %.3f)" "$(recovered dense "uniform,$cut" "search,$cut")"
    done
}

table_drops() {
    local cut
    heading removed search "with drops"
    for cut in 0.2 0.3 0.4 0.5; do
        local kept
        kept=$(awk -v c="$cut" 'BEGIN { print 1 - c }')
        narrow "ratio,$cut" --target-ratio "$kept" --tries $trials
        narrow "drops,$cut" --target-ratio "$kept" --tries $trials --drop-sublayers
        row "$(percent "$cut")" "$(value "ratio,$cut" %.2f)" "$(value "drops,$cut" %.2f)"
    done
}

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

follow() { # KEY OPTIONS...
    cell "$1" compress "$model" "${given[@]}" --plan "$work/plan.json" "${@:2}" -- "${measured[@]}"
}

refits_row() { # NAME SUBLAYER...
    local key=${1//[ ,]/_}
    plan_of_drops "$work/plan.json" "${@:2}"
    follow "dropped,$key,none" --refit none
    follow "dropped,$key,all"
    row "$1" "$(value "dropped,$key,none" %.2f)" "$(value "dropped,$key,all" %.2f)"
}

table_refits() {
    heading dropped "no refits" refits
    refits_row "attention of layer 2" "attention 2"
    refits_row "attention of layer 4" "attention 4"
    refits_row "FFN of layer 2" "FFN 2"
    refits_row "layer 2" "attention 2" "FFN 2"
    refits_row "attention of layer 2, FFN of layer 3" "attention 2" "FFN 3"
}

for table in "${tables[@]}"; do "table_$table"; done
