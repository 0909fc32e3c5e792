#!/usr/bin/env bash
# Prints the tables of docs/results/precision.md that compare bf16 with f32: log-perplexity and accuracy of networks
# that were compressed in one precision and measured in one.
#
# usage: bench/precision_table.sh CELLS [GRAIL [TABLE...]]
#   CELLS   file of what is measured already (see bench/cells.sh)
#   TABLE   text, images or gram (all)
# Needs a processor with bf16. GRAIL_STORIES_BF16 names a directory with stories260k stored in bf16; its text is that of
# ../shared/data. GRAIL_QUICK=1 measures little, to try the script.
set -euo pipefail
source "$(dirname "$0")/cells.sh"
cells_begin "$@"
tables=("${@:3}")
((${#tables[@]} > 0)) || tables=(text images gram)
vision=$root/demo/vision
samples=$([[ ${GRAIL_QUICK-} ]] && echo 4 || echo 128)
[[ -r $data/text/tinystories.txt ]] && halve "$data/text/tinystories.txt"

# Sets what the cells of a network have: model, given (options of compress) and measured (options of eval).
choose() { # NETWORK
    case $1 in
    stories260k)
        local text=(--context 256 --protocol lines --window-bos)
        model=${GRAIL_STORIES_BF16:?names stories260k stored in bf16}
        given=(--calib "$work/first.txt" "${text[@]}" --align 1 --selector wanda)
        measured=(--data "$work/second.txt" "${text[@]}")
        ;;
    demo)
        model=$root/demo/model
        given=(--calib "$root/demo/calibration.txt" --context 256 --selector wanda)
        measured=(--data "$root/demo/held-out.txt" --context 256)
        ;;
    *)
        model=$vision/$([[ $1 == cnn ]] && echo cnn.pth || echo vit)
        given=(--calib "$vision/calibration")
        measured=(--data "$vision/test")
        ;;
    esac
    given+=(--samples "$samples")
}

measure() { # NETWORK CUT REPAIR PRECISION
    choose "$1"
    cell "$1,$2,$3,$4" compress "$model" "${given[@]}" --sparsity "$2" --compensate "$3" --precision "$4" \
        -- "${measured[@]}" --precision f32 -- "${measured[@]}" --precision bf16
}

shown() { # NETWORK CUT REPAIR PRECISION N
    if [[ $1 == demo || $1 == stories260k ]]; then
        awk -v p="$(value "$1,$2,$3,$4" %s "$5")" 'BEGIN { printf "%.4f", log(p) }'
    else
        value "$1,$2,$3,$4" %.1f "$5"
    fi
}

compare() { # NETWORK
    local cut repair
    for cut in 0.2 0.3 0.5; do
        for repair in none grail full; do
            measure "$1" "$cut" "$repair" f32
            measure "$1" "$cut" "$repair" bf16
            row "$1" "$(awk -v c="$cut" 'BEGIN { print 100 * c " %" }')" "$repair" "$(shown "$1" "$cut" "$repair" f32 1)" \
                "$(shown "$1" "$cut" "$repair" f32 2)" "$(shown "$1" "$cut" "$repair" bf16 1)" "$(shown "$1" "$cut" "$repair" bf16 2)"
        done
    done
}

table_text() {
    heading network cut repair "f32, f32" "f32, bf16" "bf16, f32" "bf16, bf16"
    [[ ${GRAIL_STORIES_BF16-} ]] && compare stories260k
    compare demo
}

table_images() {
    heading network cut repair "f32, f32" "f32, bf16" "bf16, f32" "bf16, bf16"
    compare vit
    compare cnn
}

gram_row() { # NETWORK REPAIR CUTS...
    local cut figures=()
    for cut in "${@:3}"; do
        measure "$1" "$cut" "$2" bf16
        measure "$1" "$cut" "$2" bf16-gram
        figures+=("$(shown "$1" "$cut" "$2" bf16 2)" "$(shown "$1" "$cut" "$2" bf16-gram 2)")
    done
    row "$1" "$2" "${figures[@]}"
}

table_gram() {
    local repair network
    heading network repair "20 %: bf16" bf16-gram "30 %: bf16" bf16-gram "50 %: bf16" bf16-gram
    for network in ${GRAIL_STORIES_BF16:+stories260k} vit cnn; do
        for repair in grail full; do gram_row "$network" "$repair" 0.2 0.3 0.5; done
    done
}

for table in "${tables[@]}"; do "table_$table"; done
