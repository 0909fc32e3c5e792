#!/usr/bin/env bash
# Prints the tables of docs/results/gguf.md that compare three ways of rounding a language model to a GGUF file: each
# matrix by itself (grail export), by llama.cpp with an importance matrix (of grail gram, on the same samples), and by
# grail quantize. All three files have the same type for each tensor. Rows: the dense network, and the one whose FFNs
# have lost 30 %; each as Q4_0 and Q4_K.
#
# usage: bench/quant_table.sh GRAIL PYTHON MODEL CALIBRATION WORK TEXT...
#   PYTHON    an interpreter with llama-cpp-python, gguf and numpy
#   WORK      a directory for files and measurements; what lies there already is not made again
#   SAMPLES, EVALUATION, PASS  options of samples, of grail eval and of both (as for SmolLM2-135M)
set -euo pipefail
export LC_ALL=C

if (($# < 6)); then
    sed -n '7,10s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
grail=$1 python=$2 model=$3 calibration=$4 work=$5
texts=("${@:6}")
here=$(cd "$(dirname "$0")" && pwd)
read -ra samples <<<"${SAMPLES---samples 32 --context 512}"
read -ra evaluation <<<"${EVALUATION---context 512 --windows 24}"
read -ra pass <<<"${PASS---precision bf16 --threads 1}"
mkdir -p "$work"

# once FILE COMMAND...: runs the command, whose output is said on standard error, unless FILE is there
once() {
    [[ -e $1 ]] || "${@:2}" >&2
}

perplexity() {
    local file=$work/$(basename "$1").$(basename "$2").json
    if [[ ! -s $file ]]; then
        "$grail" eval "$1" --data "$2" "${evaluation[@]}" "${pass[@]}" --json >"$file.part"
        mv "$file.part" "$file"
    fi
    sed -n 's/^ *"perplexity": \([^,]*\).*/\1/p' "$file"
}

row() {
    local cells=() text
    for text in "${texts[@]}"; do
        cells+=("$(printf '%.3f' "$(perplexity "$2" "$text")")")
    done
    printf '| %s |' "$1"
    printf ' %s |' "${cells[@]}"
    printf ' %.1f |\n' "$(du -b --summarize "$2" | awk '{ print $1 / 1e6 }')"
}

# ways NAME DIRECTORY TYPE
ways() {
    local name=$1 file=$work/$1-$3
    once "$work/$name.imatrix.gguf" "$grail" gram "$2" --calib "$calibration" "${samples[@]}" "${pass[@]}" -o "$work/$name.imatrix.gguf" --quiet
    once "$work/$name-f32.gguf" "$grail" export "$2" --type f32 -o "$work/$name-f32.gguf"
    once "$file-plain.gguf" "$grail" export "$2" --type "$3" -o "$file-plain.gguf"
    once "$file-imatrix.gguf" "$python" "$here/quant_imatrix.py" "$work/$name-f32.gguf" "$work/$name.imatrix.gguf" "$file-plain.gguf" "$file-imatrix.gguf"
    once "$file-grail.gguf" "$grail" quantize "$2" --type "$3" --calib "$calibration" "${samples[@]}" "${pass[@]}" -o "$file-grail.gguf" --quiet
    row "$name, $3, each matrix by itself" "$file-plain.gguf"
    row "$name, $3, llama.cpp with an importance matrix" "$file-imatrix.gguf"
    row "$name, $3, grail quantize" "$file-grail.gguf"
}

printf '| file |'
printf ' %s |' "${texts[@]##*/}"
printf ' MB |\n|---|'
printf -- '---|%.0s' "${texts[@]}"
printf -- '---|\n'
once "$work/narrow" "$grail" compress "$model" -o "$work/narrow" --calib "$calibration" "${samples[@]}" "${pass[@]}" \
    --sites ffn --sparsity 0.3 --align 32 --selector obs --quiet
for name in dense narrow; do
    directory=$([[ $name == dense ]] && echo "$model" || echo "$work/narrow")
    row "$name" "$directory"
    for type in q4_0 q4_k; do
        ways "$name" "$directory" "$type"
    done
done
