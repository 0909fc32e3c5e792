#!/usr/bin/env bash
# Narrows the demonstration decoder to widths that suit llama.cpp's blocks and to widths that do not,
# and checks that llama.cpp converts, quantises and runs the results with grail's logits.
#
# usage: tests/loaders/llama_cpp.sh GRAIL PYTHON LLAMA_CPP [WORK_DIRECTORY]
#   GRAIL      the grail binary
#   PYTHON     an interpreter with llama-cpp-python, gguf, torch, transformers,
#              safetensors and numpy
#   LLAMA_CPP  llama.cpp's source of the same age, for convert_hf_to_gguf.py
# Run by hand. The work directory must not exist yet; without one a temporary directory is used and
# removed.
set -euo pipefail

if (($# < 3 || $# > 4)); then
    sed -n '5,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
grail=$(realpath "$1")
python=$2
llama=$(realpath "$3")
here=$(cd "$(dirname "$0")" && pwd)
demo=$(realpath "$here/../../demo")
check=$here/check_llama_cpp.py
if (($# == 4)); then
    work=$4
    mkdir "$work"
else
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi
failed=0

# check_model NAME DIRECTORY
check_model() {
    "$grail" logits "$2" --ids "$work/ids.npy" -o "$work/$1.logits"
    "$python" "$check" check "$llama" "$2" "$work/ids.npy" "$work/$1.logits" "$work" "$1" || failed=1
}

"$python" -c "import llama_cpp; print('llama-cpp-python', llama_cpp.__version__)"
"$python" "$check" ids "$demo/model" "$demo/held-out.txt" "$work/ids.npy"
check_model dense "$demo/model"
for align in 1 32; do
    for cut in 0.3 0.5; do
        name=cut-$cut-align-$align
        "$grail" compress "$demo/model" -o "$work/$name" --calib "$demo/calibration.txt" \
            --sparsity "$cut" --align "$align" --quiet >"$work/$name.summary"
        grep '^  ffn .* units kept\|^  llama.cpp' "$work/$name.summary"
        check_model "$name" "$work/$name"
    done
done
exit "$failed"
