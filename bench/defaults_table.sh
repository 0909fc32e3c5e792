#!/usr/bin/env bash
# Prints the tables of docs/results/selectors.md that led to the defaults: perplexity of stories260k, calibrated on one
# half of its text and measured on the other, both of ../shared/data.
#
# usage: bench/defaults_table.sh CELLS [GRAIL [TABLE...]]
#   CELLS   file of what is measured already (see bench/cells.sh)
#   TABLE   steps or targets (all)
# GRAIL_QUICK=1 measures a few windows, to try the script.
set -euo pipefail
source "$(dirname "$0")/cells.sh"
cells_begin "$@"
tables=("${@:3}")
((${#tables[@]} > 0)) || tables=(steps targets)
stories_begin

# Each column adds one thing to the one before.
table_steps() {
    local cut key
    cell stories dense "$model" -- "${measured[@]}"
    heading removed before obs "+ refit of all maps" "+ token weights" "+ mixed target (\`full\` now)" \
        "lost log-perplexity against before"
    for cut in 0.2 0.3 0.5; do
        key=steps,$cut
        narrow "$key,before" --sparsity "$cut" --selector wanda --target dense --refit none --token-weights none
        narrow "$key,obs" --sparsity "$cut" --target dense --refit none --token-weights none
        narrow "$key,refit" --sparsity "$cut" --target dense --token-weights none
        narrow "$key,weights" --sparsity "$cut" --target dense
        narrow "$key,mixed" --sparsity "$cut"
        row "$(percent "$cut")" "$(value "$key,before" %.3f)" "$(value "$key,obs" %.3f)" "$(value "$key,refit" %.3f)" \
            "$(value "$key,weights" %.3f)" "$(value "$key,mixed" %.3f)" "-$(recovered stories "$key,before" "$key,mixed")"
    done
}

table_targets() {
    local selector target
    heading "selector, 70 %" grail "full, dense target" "full, local target" "full, mixed target"
    for selector in obs wanda magnitude-l1 fold random-fold; do
        narrow "targets,$selector,grail" --sparsity 0.7 --selector "$selector" --compensate grail
        for target in dense local mixed; do
            narrow "targets,$selector,$target" --sparsity 0.7 --selector "$selector" --target "$target"
        done
        row "$selector" "$(value "targets,$selector,grail" %.1f)" "$(value "targets,$selector,dense" %.1f)" \
            "$(value "targets,$selector,local" %.1f)" "$(value "targets,$selector,mixed" %.1f)"
    done
}

for table in "${tables[@]}"; do "table_$table"; done
