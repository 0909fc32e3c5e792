#!/usr/bin/env bash
# Prints the tables of docs/results/vision.md and selectors.md that are measured on all 10,000 test images of CIFAR-10:
# top-1 accuracy in %, 128 training images. The networks are the ResNet-20 and the ResNet-18 of ../shared/data.
#
# usage: bench/vision_table.sh CELLS [GRAIL [TABLE...]]
#   CELLS   file of what is measured already (see bench/cells.sh)
#   TABLE   resnet20, channels, resnet18 or paper (all)
# GRAIL_QUICK=1 measures 100 images after 8, to try the script.
set -euo pipefail
source "$(dirname "$0")/cells.sh"
cells_begin "$@"
tables=("${@:3}")
((${#tables[@]} > 0)) || tables=(resnet20 channels resnet18 paper)
images=$data/cifar-10-batches-bin
resnet20=$data/resnet-cifar/resnet20-12fca82f.th
resnet18=$data/resnet18-cifar10/resnet18_cifar10.pth
given=(--calib "$images")
measured=(--data "$images")
if [[ ${GRAIL_QUICK-} ]]; then
    given+=(--samples 8)
    measured+=(--images 100)
fi

narrow() { # KEY MODEL OPTIONS...
    cell "$1" compress "$2" "${given[@]}" "${@:3}" -- "${measured[@]}"
}

thousands() { awk -v x="$1" 'BEGIN { printf "%.3g k", x / 1e3 }'; }

# -- repairs ----------------------------------------------------------------------------------------

repairs() { # SELECTOR
    local cut repair
    heading "inner channels removed by \`$1\`" parameters 'plain cut (`--compensate none`)' "the paper's repair (\`grail\`)" \
        'default (`full`)'
    row dense "271 k" "$(value resnet20 %.1f)" "" ""
    for cut in 0.3 0.5 0.7; do
        for repair in none grail full; do
            narrow "resnet20,$1,$cut,$repair" "$resnet20" --sites conv --selector "$1" --sparsity "$cut" --compensate "$repair"
        done
        row "$(awk -v c="$cut" 'BEGIN { print 100 * c }') %" "$(thousands "$(field "resnet20,$1,$cut,full" 3)")" \
            "$(value "resnet20,$1,$cut,none" %.1f)" "$(value "resnet20,$1,$cut,grail" %.1f)" "$(value "resnet20,$1,$cut,full" %.1f)"
    done
}

table_resnet20() {
    cell resnet20 dense "$resnet20" -- "${measured[@]}"
    repairs obs
    repairs magnitude-l1
}

# -- selectors --------------------------------------------------------------------------------------

channels_row() { # NAME KEY OPTIONS...
    local cut figures=()
    for cut in 0.3 0.5 0.7; do
        narrow "resnet20,$2,$cut,full" "$resnet20" --sites conv --sparsity "$cut" "${@:3}"
        figures+=("$(value "resnet20,$2,$cut,full" %.2f)")
    done
    row "$1" "${figures[@]}"
}

table_channels() {
    local selector cut figures=()
    heading "widths, selector" "30 %" "50 %" "70 %"
    for selector in magnitude-l1 obs gram-css fold; do
        channels_row "uniform, $selector" "$selector" --selector "$selector"
    done
    for cut in 0.3 0.5 0.7; do
        narrow "resnet20,search,$cut" "$resnet20" --sites conv --target-params "$(field "resnet20,obs,$cut,full" 3)" --tries 32
        figures+=("$(value "resnet20,search,$cut" %.2f)")
    done
    row "search, obs" "${figures[@]}"
    channels_row "uniform, obs, dense target" obs-dense --selector obs --target dense
    channels_row "uniform, magnitude-l1, dense target" magnitude-l1-dense --selector magnitude-l1 --target dense
}

table_resnet18() {
    local selector cut target
    cell resnet18 dense "$resnet18" -- "${measured[@]}"
    heading "sites, widths" removed magnitude-l1 obs gram-css fold
    for selector in magnitude-l1 obs gram-css fold; do
        narrow "resnet18,$selector,0.5,full" "$resnet18" --sites conv,stream --selector "$selector" --sparsity 0.5
    done
    row "inner and stream" "50 %" "$(value resnet18,magnitude-l1,0.5,full %.2f)" "$(value resnet18,obs,0.5,full %.2f)" \
        "$(value resnet18,gram-css,0.5,full %.2f)" "$(value resnet18,fold,0.5,full %.2f)"
    narrow resnet18,search,0.5 "$resnet18" --sites conv,stream --target-params "$(field resnet18,obs,0.5,full 3)" --tries 3
    row "inner and stream, search of 3 trials" "50 %" "" "$(value resnet18,search,0.5 %.2f)" "" ""
    for target in mixed dense; do
        for cut in 0.5 0.7 0.8; do
            for selector in magnitude-l1 obs; do
                narrow "resnet18,inner,$selector,$cut,$target" "$resnet18" --sites conv --selector "$selector" --sparsity "$cut" \
                    --target "$target"
            done
            row "inner, $target target" "$(awk -v c="$cut" 'BEGIN { print 100 * c }') %" \
                "$(value "resnet18,inner,magnitude-l1,$cut,$target" %.2f)" "$(value "resnet18,inner,obs,$cut,$target" %.2f)" "" ""
        done
    done
}

# -- beside the paper's 65 % ------------------------------------------------------------------------

paper_row() { # CHANNELS CUT LOOP VARIANTS OPTIONS...
    local variant options figures=()
    for variant in none none+repair grail grail+repair full full+repair; do
        options=(--compensate "${variant%+repair}")
        [[ $variant == *+repair ]] && options+=(--repair)
        if [[ " $4 " == *" $variant "* ]]; then
            narrow "paper,${1//[ ,]/_},$2,$3,$variant" "$resnet18" --sites conv,stream --align 1 --selector magnitude-l1 \
                --sparsity "$2" --loop "$3" "${options[@]}" "${@:5}"
            figures+=("$(value "paper,${1//[ ,]/_},$2,$3,$variant" %.2f)")
        else
            figures+=("")
        fi
    done
    row "$1" "$3" "${figures[@]}"
}

table_paper() {
    local all="none none+repair grail grail+repair full full+repair" open="grail grail+repair"
    heading "channels removed" loop none REPAIR grail grail+REPAIR full full+REPAIR
    paper_row "40 %" 0.4 closed "$all"
    paper_row "40 %" 0.4 open "$open"
    paper_row "40 %, as the paper's code scores" 0.4 open "none none+repair $open" --stream-score branch
    paper_row "65 %" 0.65 closed "$all"
    paper_row "65 %" 0.65 open "$open"
}

for table in "${tables[@]}"; do "table_$table"; done
