#!/usr/bin/env bash
# Prints the tables of docs/results/llm.md: perplexity after narrowing, on text like that of the calibration and on
# other text, and with other text in the calibration.
#
# usage: bench/llm_table.sh CELLS [GRAIL [TABLE...]]
#   CELLS   file of what is measured already (see bench/cells.sh)
#   TABLE   demo or stories (all)
# stories260k and the texts are those of ../shared/data; bench/recipes/smollm2.json is the same of SmolLM2-135M.
# GRAIL_QUICK=1 measures a few windows of everything, to try the script.
set -euo pipefail
source "$(dirname "$0")/cells.sh"
cells_begin "$@"
tables=("${@:3}")
((${#tables[@]} > 0)) || tables=(demo stories)
quick() { if [[ ${GRAIL_QUICK-} ]]; then echo "$2"; else echo "$1"; fi; }
demo=("$root/demo/model" --calib "$root/demo/calibration.txt" --context 256 --samples "$(quick 128 8)")
read -r -a few <<<"$(quick "" "--windows 4")"
held_out=(--data "$root/demo/held-out.txt" --context 256 "${few[@]}")
lines=(--context 256 --protocol lines --window-bos)

# -- the demonstration model ------------------------------------------------------------------------

demonstration() { # SELECTOR CUT
    local repair
    for repair in none grail full; do
        cell "demo,$1,$2,$repair" compress "${demo[@]}" --sparsity "$2" --selector "$1" --compensate "$repair" -- "${held_out[@]}"
    done
    row demo "$1" "$2" "$(value demo %.3f)" "$(value "demo,$1,$2,none" %.3f)" "$(value "demo,$1,$2,grail" %.3f)" \
        "$(value "demo,$1,$2,full" %.3f)" "$(recovered demo "demo,$1,$2,none" "demo,$1,$2,grail")" \
        "$(recovered demo "demo,$1,$2,none" "demo,$1,$2,full")"
}

healed() { # what README's language model is healed with
    local key=demo,obs,0.3,full,healed
    if ! has "$key"; then
        "$grail" compress "${demo[@]}" -o "$work/narrow" --sparsity 0.3 --quiet >"$work/log" 2>&1
        cell "$key" heal "$work/narrow" --teacher "${demo[@]}" --heal block --heal-steps "$(quick 80 2)" -- "${held_out[@]}"
    fi
}

summary_row() { # NAME PARAMETERS KEY RECOVERED
    row "$1" "$(printf "%'d" "$2" | sed ':a;s/\([0-9]\)\([0-9]\{3\}\)\($\|,\)/\1,\2\3/;ta')" "$(value "$3" %.3f)" "$4"
}

summary() {
    local cut=demo,obs,0.3 narrow
    healed
    narrow=$(field "$cut,full" 3)
    heading "demo model, 30 % of neurons and heads removed" parameters perplexity "log-perplexity won back"
    summary_row dense 1394080 demo ""
    summary_row 'plain cut (`--compensate none`)' "$narrow" "$cut,none" ""
    summary_row "the paper's repair (\`--compensate grail\`)" "$narrow" "$cut,grail" "$(recovered demo "$cut,none" "$cut,grail")"
    summary_row 'default (`--compensate full`)' "$narrow" "$cut,full" "$(recovered demo "$cut,none" "$cut,full")"
    summary_row 'the same, then `grail heal --heal block --heal-steps 80`' "$narrow" "$cut,full,healed" \
        "$(recovered demo "$cut,none" "$cut,full,healed")"
}

# -- several texts ----------------------------------------------------------------------------------

# Rows of one cut, a row for each text; the cells are "NAME,SELECTOR,CUT,CALIBRATION,REPAIR".
rows_of_texts() { # NAME SELECTOR CUT CALIBRATION TEXTS...
    local key="$1,$2,$3,$4" n=0 text
    for text in "${@:5}"; do
        n=$((n + 1))
        row "$2" "$3" "$4" "$text" "$(value "$1" %.2f $n)" "$(value "$key,none" %.2f $n)" "$(value "$key,grail" %.2f $n)" \
            "$(value "$key,full" %.2f $n)" "$(value "$key,local" %.2f $n)" "$(recovered "$1" "$key,none" "$key,grail" $n)" \
            "$(recovered "$1" "$key,none" "$key,full" $n)"
    done
}

repairs() { # KEY COMPRESS-ARGUMENTS... -- EVAL...
    local key=$1
    shift
    cell "$key,none" compress "$1" --compensate none "${@:2}"
    cell "$key,grail" compress "$1" --compensate grail "${@:2}"
    cell "$key,full" compress "$1" --compensate full "${@:2}"
    cell "$key,local" compress "$1" --compensate full --target local "${@:2}"
}

text_heading() {
    heading selector removed calibration text dense none grail full "full, local target" "grail recovers" "full recovers"
}

stories() { # SELECTOR CUT CALIBRATION
    repairs "stories,$1,$2,$3" "$data/stories260k" --calib "$work/$3.txt" --sparsity "$2" --selector "$1" "${lines[@]}" \
        --samples "$(quick 128 8)" --align 1 -- "${story_texts[@]}"
    rows_of_texts stories "$1" "$2" "$3" "other half" PTB WikiText-2
}

# What README shows of the tables of stories260k.
domains() { # SELECTOR
    local name calibration n repair figures
    heading "stories260k, 30 % by $1, calibrated on" "stories, grail" "stories, full" "PTB, grail" "PTB, full" "WikiText-2, grail" \
        "WikiText-2, full"
    for name in "stories" "stories, a quarter PTB" "stories, half PTB"; do
        case $name in *quarter*) calibration=quarter-PTB ;; *half*) calibration=half-PTB ;; *) calibration=stories ;; esac
        figures=()
        for n in 1 2 3; do
            for repair in grail full; do figures+=("$(value "stories,$1,0.3,$calibration,$repair" %.1f $n)"); done
        done
        row "$name" "${figures[@]}"
    done
}

# A stronger ridge for the calibration on stories alone.
ridges() { # SELECTOR
    local alpha key=stories,$1,0.3,stories
    heading "\`full\` by $1 with" stories PTB WikiText-2
    for alpha in cv 0.03 0.3 3; do
        cell "$key,alpha,$alpha" compress "$data/stories260k" --calib "$work/stories.txt" --sparsity 0.3 --selector "$1" \
            "${lines[@]}" --samples "$(quick 128 8)" --align 1 --alpha "$alpha" -- "${story_texts[@]}"
        row "\`--alpha $alpha\`" "$(value "$key,alpha,$alpha" %.1f 1)" "$(value "$key,alpha,$alpha" %.1f 2)" \
            "$(value "$key,alpha,$alpha" %.1f 3)"
    done
}

# -- the tables -------------------------------------------------------------------------------------

table_demo() {
    cell demo dense "$root/demo/model" -- "${held_out[@]}"
    heading model selector removed dense none grail full "grail recovers" "full recovers"
    for selector in $(quick "obs wanda magnitude-l2 fold" obs); do
        for cut in $(quick "0.2 0.3 0.5" 0.3); do demonstration "$selector" "$cut"; done
    done
    summary
}

# The text named and two more, which hold a quarter and a half of PTB.
mixed() { # NAME
    mix "$work/$1.txt" "$data/text/ptb-valid.txt" 0.25 "$work/quarter-PTB.txt"
    mix "$work/$1.txt" "$data/text/ptb-valid.txt" 0.5 "$work/half-PTB.txt"
}

table_stories() {
    halve "$data/text/tinystories.txt"
    mv "$work/first.txt" "$work/stories.txt"
    mixed stories
    story_texts=(--data "$work/second.txt" "${lines[@]}" "${few[@]}"
        -- --data "$data/text/ptb-test.txt" "${lines[@]}" --windows "$(quick 240 4)"
        -- --data "$data/text/wikitext2-test.txt" "${lines[@]}" --windows "$(quick 240 4)")
    cell stories dense "$data/stories260k" -- "${story_texts[@]}"
    text_heading
    for selector in $(quick "obs wanda" wanda); do
        for calibration in stories quarter-PTB half-PTB; do stories "$selector" 0.3 "$calibration"; done
    done
    for selector in $(quick "magnitude-l2 fold" ""); do stories "$selector" 0.3 stories; done
    domains "$(quick obs wanda)"
    ridges "$(quick obs wanda)"
}

for table in "${tables[@]}"; do "table_$table"; done
