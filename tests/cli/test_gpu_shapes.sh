#!/usr/bin/env bash
# The measurement of a GPU (bench/gpu_shapes.py), on the processor and a tiny network: every part gives its figures, and one
# that fails is named and does not stop the others. With a Python that has torch ($GRAIL_PYTHON, or python3).
#
# usage: test_gpu_shapes.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

python=${GRAIL_PYTHON:-python3}
"$python" -c 'import numpy, safetensors, torch, transformers; assert tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 11)' \
    2>/dev/null || skip "$python has not torch 2.11, transformers, safetensors and numpy"
bench=("$python" "$source_dir/bench/gpu_shapes.py" --device cpu --shape tiny --directory "$work" --threads 2)

# value PART NAME: of figures.json
value() {
    "$python" -c 'import json, sys; print(json.load(open("figures.json"))["parts"][sys.argv[1]][sys.argv[2]]["value"])' "$@"
}

check "every part gives its figures"
runs "${bench[@]}" --grail "$grail" --heal-options "--heal-batch 4" --out figures.json
for figure in "peak product_rate" "grail block" "grail share_of_peak" "grail paper_over_this" "full rate" "paper solve_per_block" \
    "heal tokens_per_step" "plain block_one_window" "plain four_layers_four_windows"; do
    # shellcheck disable=SC2086 # two words
    holds "$(value $figure) > 0"
done
holds "$(value paper all_blocks) > $(value paper block)"
holds "$(value heal tokens_per_step) == 4 * 32"

check "a part that fails is named and does not stop the others"
run "${bench[@]}" --grail "$grail" --options=--no-such-option --parts grail,peak --out figures.json
((code == 1)) || fail "exit code $code"
says "grail failed: exit status 2" stdout
says "no-such-option" figures.json
holds "$(value peak product_rate) > 0"
