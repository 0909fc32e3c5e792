#!/usr/bin/env bash
# Prints the table of README.md and docs/results/best.md: what the parts of grail add to each other at equal sizes.
#
# usage: bench/best_table.sh CELLS [GRAIL [NETWORK...]]
#   CELLS     file of what is measured already (see bench/cells.sh)
#   NETWORK   demo, stories260k or resnet20 (all); the last two are those of ../shared/data
# GRAIL_QUICK=1 measures little, to try the script.
set -euo pipefail
source "$(dirname "$0")/cells.sh"
cells_begin "$@"
networks=("${@:3}")
((${#networks[@]} > 0)) || networks=(demo stories260k resnet20)
samples=()
few=()
tries=()
steps=()
if [[ ${GRAIL_QUICK-} ]]; then
    samples=(--samples 16)
    few=(--windows 4)
    tries=(--tries 2)
    steps=(--heal-steps 2)
fi

# Uniform widths with each repair; then widths of a search with no more parameters; then healing. The plan of the search
# is kept beside the cells.
text_row() { # NAME CUT FORMAT
    local key=$1,$2 plan=$cells.$1-$2.json repair
    for repair in none grail full; do
        cell "$key,$repair" compress "$model" "${given[@]}" --sparsity "$2" --compensate "$repair" -- "${measured[@]}"
    done
    [[ -r $plan ]] || "$grail" plan "$model" "${given[@]}" "${tries[@]}" --target-params "$(field "$key,full" 3)" -o "$plan" \
        --quiet >"$work/log"
    cell "$key,search" compress "$model" "${planned[@]}" --plan "$plan" -- "${measured[@]}"
    cell "$key,healed" compress "$model" "${planned[@]}" --plan "$plan" --heal model "${steps[@]}" -- "${measured[@]}"
    row "$1, perplexity" "$(percent "$2")" "$(value "$1" "$3")" "$(value "$key,none" "$3")" "$(value "$key,grail" "$3")" \
        "$(value "$key,full" "$3")" "$(value "$key,search" "$3")" "$(value "$key,healed" "$3")"
}

network_demo() {
    model=$root/demo/model
    planned=(--calib "$root/demo/calibration.txt" --context 256 "${samples[@]}")
    given=("${planned[@]}")
    measured=(--data "$root/demo/held-out.txt" --context 256 "${few[@]}")
    cell demo dense "$model" -- "${measured[@]}"
    for cut in 0.3 0.5 0.7; do text_row demo "$cut" %.2f; done
}

network_stories260k() {
    local text=(--context 256 --protocol lines --window-bos)
    model=$data/stories260k
    halve "$data/text/tinystories.txt"
    planned=(--calib "$work/first.txt" "${text[@]}" "${samples[@]}")
    given=("${planned[@]}" --align 1)
    measured=(--data "$work/second.txt" "${text[@]}" "${few[@]}")
    cell stories260k dense "$model" -- "${measured[@]}"
    for cut in 0.2 0.3 0.5; do text_row stories260k "$cut" %.1f; done
}

# On this network a search finds nothing better than uniform widths.
network_resnet20() {
    local cut repair images=$data/cifar-10-batches-bin
    local resnet20=$data/resnet-cifar/resnet20-12fca82f.th cifar=(--samples 1024) some=()
    if [[ ${GRAIL_QUICK-} ]]; then
        cifar=(--samples 32)
        some=(--images 100)
    fi
    cifar+=(--calib "$images" --sites conv)
    cell resnet20 dense "$resnet20" -- --data "$images" "${some[@]}"
    for cut in 0.3 0.5 0.7; do
        for repair in none grail full; do
            cell "resnet20,$cut,$repair" compress "$resnet20" "${cifar[@]}" --sparsity "$cut" --compensate "$repair" \
                -- --data "$images" "${some[@]}"
        done
        cell "resnet20,$cut,healed" compress "$resnet20" "${cifar[@]}" --sparsity "$cut" --heal block,model "${steps[@]}" \
            -- --data "$images" "${some[@]}"
        row "ResNet-20, top-1 in %" "$(percent "$cut")" "$(value resnet20 %.1f)" "$(value "resnet20,$cut,none" %.1f)" \
            "$(value "resnet20,$cut,grail" %.1f)" "$(value "resnet20,$cut,full" %.1f)" "" "$(value "resnet20,$cut,healed" %.1f)"
    done
}

heading network removed dense "plain cut" "the paper's repair" "default repair" "+ searched widths" "+ healing"
for network in "${networks[@]}"; do "network_$network"; done
