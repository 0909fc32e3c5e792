#!/usr/bin/env bash
# Prints the tables of docs/results/healing.md: the closed form alone, and with blocks, the network or both healed.
#
# usage: bench/healing_table.sh CELLS [GRAIL [TABLE...]]
#   CELLS   file of what is measured already (see bench/cells.sh)
#   TABLE   stories, demo, images, labels or smollm2 (all but smollm2); labels needs GRAIL_PYTHON, a Python with torch
# GRAIL_SMOLLM2 names the directory of SmolLM2-135M-Instruct. stories260k, texts and CIFAR-10 are those of ../shared/data. GRAIL_QUICK=1 heals two steps on few samples, to try the script.
set -euo pipefail
source "$(dirname "$0")/cells.sh"
cells_begin "$@"
tables=("${@:3}")
((${#tables[@]} > 0)) || tables=(stories demo images labels)
set=$data/cifar-10-batches-bin
resnet20=$data/resnet-cifar/resnet20-12fca82f.th
resnet18=$data/resnet18-cifar10/resnet18_cifar10.pth
quick=()
few=()
some=()
if [[ ${GRAIL_QUICK-} ]]; then
    quick=(--heal-steps 2)
    few=(--windows 4)
    some=(--images 100)
fi
kinds=(none block model block,model)

amount() { if [[ ${GRAIL_QUICK-} ]]; then echo 32; else echo "$1"; fi; } # samples

# Cells "KEY,HEAL" of all kinds of healing.
heal_all() { # KEY MODEL OPTIONS... -- EVAL...
    local heal key=$1 options=()
    for heal in "${kinds[@]}"; do
        options=(--heal "$heal")
        [[ $heal == none ]] || options+=("${quick[@]}")
        cell "$key,$heal" compress "$2" "${options[@]}" "${@:3}"
    done
}

# A perplexity, and the share of what full leaves lost that healing takes back.
healed() { # DENSE KEY HEAL
    printf '%s (%s)' "$(value "$2,$3" %.3f)" "$(recovered "$1" "$2,none" "$2,$3")"
}

text_row() { # DENSE KEY CELLS...
    row "${@:3}" "$(value "$2,none" %.3f)" "$(healed "$1" "$2" block)" "$(healed "$1" "$2" model)" "$(healed "$1" "$2" block,model)"
}

table_stories() {
    local text=(--context 256 --protocol lines --window-bos) cut selector measured given
    halve "$data/text/tinystories.txt"
    measured=(--data "$work/second.txt" "${text[@]}" "${few[@]}")
    given=(--calib "$work/first.txt" "${text[@]}" --align 1 --samples "$(amount 128)")
    cell stories dense "$data/stories260k" -- "${measured[@]}"
    heading removed selector "plain cut" full "+ block" "+ model" "+ block,model"
    for cut in 0.3 0.5; do
        for selector in wanda obs; do
            local key=stories,$selector,$cut
            cell "$key,plain" compress "$data/stories260k" "${given[@]}" --sparsity "$cut" --selector "$selector" --compensate none \
                -- "${measured[@]}"
            heal_all "$key" "$data/stories260k" "${given[@]}" --sparsity "$cut" --selector "$selector" -- "${measured[@]}"
            text_row stories "$key" "$(percent "$cut")" "$selector" "$(value "$key,plain" %.3f)"
        done
    done
}

table_demo() {
    local measured=(--data "$root/demo/held-out.txt" --context 256 "${few[@]}") cut
    cell demo dense "$root/demo/model" -- "${measured[@]}"
    heading removed full "+ block" "+ model" "+ block,model"
    for cut in 0.3 0.5 0.7; do
        heal_all "demo,$cut" "$root/demo/model" --calib "$root/demo/calibration.txt" --sparsity "$cut" --context 256 --align 1 \
            --samples "$(amount 128)" -- "${measured[@]}"
        text_row demo "demo,$cut" "$(percent "$cut")"
    done
}

image_row() { # NAME KEY CUT SAMPLES
    local heal figures=()
    for heal in "${kinds[@]}"; do figures+=("$(value "$2,$heal" %.2f)"); done
    row "$1" "$(percent "$3")" "$4" "${figures[@]}"
}

resnet20_row() { # CUT SAMPLES
    heal_all "resnet20,$1,$2" "$resnet20" --calib "$set" --sites conv --sparsity "$1" --selector magnitude-l1 \
        --samples "$(amount "$2")" -- --data "$set" --split test "${some[@]}"
    image_row ResNet-20 "resnet20,$1,$2" "$1" "$2"
}

demonstration_row() { # NAME CHECKPOINT CUT
    heal_all "$1,$3" "$root/demo/vision/$2" --calib "$root/demo/vision/calibration" --sparsity "$3" --samples "$(amount 128)" \
        -- --data "$root/demo/vision/test" "${some[@]}"
    image_row "demonstration $1" "$1,$3" "$3" 128
}

table_images() {
    local cut samples
    heading network removed images full "+ block" "+ model" "+ block,model"
    for cut in 0.5 0.7; do
        for samples in 128 1024; do resnet20_row "$cut" "$samples"; done
    done
    heal_all resnet18,0.8 "$resnet18" --calib "$set" --sites conv,stream --sparsity 0.8 --selector magnitude-l1 \
        --samples "$(amount 128)" -- --data "$set" --split test "${some[@]}"
    image_row ResNet-18 resnet18,0.8 0.8 128
    for cut in 0.5 0.7; do demonstration_row CNN cnn.pth "$cut"; done
    for cut in 0.5 0.7; do demonstration_row ViT vit "$cut"; done
    heading "ResNet-20, 50 %, without the closed form" "plain cut" "+ model"
    for heal in none model; do
        cell "resnet20,plain,$heal" compress "$resnet20" --calib "$set" --sites conv --sparsity 0.5 --selector magnitude-l1 \
            --compensate none --samples "$(amount 128)" --heal "$heal" $([[ $heal == none ]] || echo "${quick[*]}") \
            -- --data "$set" --split test "${some[@]}"
    done
    row "128 images" "$(value resnet20,plain,none %.2f)" "$(value resnet20,plain,model %.2f)"
}

# Top-1 and seconds of five epochs with labels, as the paper's networks were trained after the plain cut.
trained() { # KEY MODEL SITES CUT
    local begun log=$work/finetune.log
    if ! has "$1"; then
        rm -rf "$work/plain"
        "$grail" compress "$2" -o "$work/plain" --calib "$set" --sites "$3" --sparsity "$4" --selector magnitude-l1 \
            --compensate none --quiet >"$work/log" 2>&1
        begun=$SECONDS
        "$GRAIL_PYTHON" "$root/tools/finetune.py" "$work/plain" --data "$set" >"$log"
        echo "$1 $((SECONDS - begun)) - $(sed -n 's/.*top-1 \([0-9.]*\).*/\1/p' "$log" | tail -n 1)" >>"$cells"
    fi
}

table_labels() {
    local cut heal figures
    [[ ${GRAIL_PYTHON-} ]] || return 0
    heading "ResNet-20, removed" "five epochs" full "+ block" "+ model" "+ block,model"
    for cut in 0.5 0.7; do
        trained "labels,$cut" "$resnet20" conv "$cut"
        figures=("$(value "labels,$cut" %.2f) ($(field "labels,$cut" 2) s)")
        for heal in "${kinds[@]}"; do
            figures+=("$(value "resnet20,$cut,1024,$heal" %.2f) ($(field "resnet20,$cut,1024,$heal" 2) s)")
        done
        row "$(percent "$cut")" "${figures[@]}"
    done
}

# The network is narrowed once, and the result is healed for several numbers of steps.
table_smollm2() {
    local measured calibration=(--calib "$data/text/wikitext2-valid.txt" --context 512 --samples "$(amount 256)") steps key taken
    measured=(--data "$data/text/wikitext2-test.txt" --context 512 --windows 24 --precision bf16
        -- --data "$data/text/ptb-test.txt" --context 512 --windows 24 --precision bf16)
    "$grail" compress "$GRAIL_SMOLLM2" -o "$work/narrow" "${calibration[@]}" --sites ffn --sparsity 0.3 --align 32 --selector obs \
        --refit none --precision bf16 --quiet >"$work/log" 2>&1
    cell smollm2 dense "$GRAIL_SMOLLM2" -- "${measured[@]}"
    cell smollm2,full dense "$work/narrow" -- "${measured[@]}"
    heading steps tokens WikiText-2 "taken back" PTB
    row - - "$(value smollm2,full %.2f)" - "$(value smollm2,full %.2f 2)"
    for steps in 40 80 160; do
        key=smollm2,$steps
        taken=("${quick[@]}")
        ((${#taken[@]} > 0)) || taken=(--heal-steps "$steps")
        cell "$key" heal "$work/narrow" --teacher "$GRAIL_SMOLLM2" "${calibration[@]}" --precision bf16 "${taken[@]}" -- "${measured[@]}"
        row "$steps" "$((steps * 2048))" "$(value "$key" %.2f)" "$(recovered smollm2 smollm2,full "$key")" "$(value "$key" %.2f 2)"
    done
}

for table in "${tables[@]}"; do "table_$table"; done
