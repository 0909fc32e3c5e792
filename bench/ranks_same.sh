#!/usr/bin/env bash
# Narrows a model without a launcher and in several numbers of ranks, each with one thread, and prints a hash of each
# result's files, times left out. Fails where they differ.
#
# usage: bench/ranks_same.sh GRAIL "RANKS..." MODEL OPTION...
#   such as: bench/ranks_same.sh grail "2 3 5" smollm2 --calib text.txt --samples 16 --context 256 --sparsity 0.3
set -euo pipefail
grail=$1 model=$3
read -ra counts <<<"$2"
options=("${@:4}")
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMP_WAIT_POLICY=passive
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# hash DIRECTORY
hash() {
    (
        cd "$1"
        { sha256sum $(ls | grep -v '^report\.json$'); grep -v seconds report.json; } | sha256sum | cut -c 1-16
    )
}

narrow() { # NAME LAUNCHER...
    "${@:2}" "$grail" compress "$model" -o "$work/$1" "${options[@]}" --threads 1 --quiet >/dev/null 2>"$work/stderr" ||
        { cat "$work/stderr" >&2; exit 1; }
}

narrow alone
expected=$(hash "$work/alone")
echo "no launcher: $expected"
for ranks in "${counts[@]}"; do
    narrow "$ranks" mpirun --oversubscribe --bind-to none -n "$ranks"
    found=$(hash "$work/$ranks")
    echo "$ranks ranks: $found"
    [[ $found == "$expected" ]]
    rm -rf "${work:?}/$ranks"
done
