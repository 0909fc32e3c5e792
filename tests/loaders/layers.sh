#!/usr/bin/env bash
# Plans a real language model to 0.7 of its parameters, with widths of its own for each layer, and
# checks that transformers opens the result with the classes beside it and measures grail's perplexity.
#
# usage: tests/loaders/layers.sh GRAIL PYTHON MODEL CALIBRATION HELD_OUT [WORK_DIRECTORY]
#   GRAIL        the grail binary
#   PYTHON       an interpreter with a current torch, transformers, safetensors and numpy
#   MODEL        a directory of a llama, mistral, qwen2 or qwen3
#   CALIBRATION  text that widths and fits are chosen on
#   HELD_OUT     text that is measured
# Run by hand. The work directory must not exist yet; without one a temporary directory is used and
# removed.
set -euo pipefail

if (($# < 5 || $# > 6)); then
    sed -n '5,12s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
grail=$1
python=$2
model=$3
check=$(cd "$(dirname "$0")" && pwd)/check_transformers.py
if (($# == 6)); then
    work=$6
    mkdir "$work"
else
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi

"$python" "$check" text-ids "$model" "$5" "$work/ids.npy" --sequences 16 --length 256
for form in "" --uniform-heads; do
    name=differ$form
    # shellcheck disable=SC2086 # no option where it is empty
    "$grail" compress "$model" -o "$work/$name" --calib "$4" --samples 16 --context 128 --target-ratio 0.7 \
        --budget error $form --selector wanda --refit none --precision f32 --quiet >"$work/$name.summary"
    grep '^  parameters\|^  transformers\|^  vLLM\|^  llama.cpp' "$work/$name.summary"
    "$grail" eval "$work/$name" --data "$work/ids.npy" --context 256 --precision f32 --json >"$work/$name.json"
    "$python" "$check" perplexity "$work/$name" "$work/ids.npy" "$work/$name.json"
done
