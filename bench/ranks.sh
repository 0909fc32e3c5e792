#!/usr/bin/env bash
# One run in 1 rank with 2 threads and in 2 ranks with 1 thread, by turns, with the wall time of each and their
# ratio (1: as fast), and the peak of memory of each rank of 1, 2 and 4. Needs two quiet cores.
#
# usage: bench/ranks.sh GRAIL MODEL TEXT [WINDOWS [CONTEXT [TURNS [OPTION...]]]]
#   NARROW  a narrowed MODEL: it is healed, in place of a compression of MODEL to 70 % of its units; OPTION such as
#           --heal-steps 20
#   MEMORY  0: times alone
set -euo pipefail
grail=$1 model=$2 text=$3 windows=${4-16} context=${5-512} turns=${6-2}
options=("${@:7}")
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMP_WAIT_POLICY=passive
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [[ -n ${NARROW-} ]]; then
    command=(heal "$NARROW" --teacher "$model")
else
    command=(compress "$model" --sparsity 0.3)
fi

# run RANKS THREADS: prints wall seconds; $work/memory has KiB and processor seconds of each rank
run() {
    local begun=$EPOCHREALTIME
    rm -rf "$work/out" "$work/memory"
    mpirun --oversubscribe --bind-to none -n "$1" /usr/bin/time -a -o "$work/memory" -f '%M %U %S' "$grail" "${command[@]}" \
        -o "$work/out" --calib "$text" --samples "$windows" --context "$context" --threads "$2" --quiet "${options[@]}" \
        >"$work/stdout" 2>"$work/stderr" || { cat "$work/stderr" >&2; exit 1; }
    awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }'
}

for ((turn = 0; turn < turns; turn++)); do
    one=$(run 1 2)
    two=$(run 2 1)
    awk -v one="$one" -v two="$two" 'BEGIN { printf "1 rank, 2 threads: %.1f s; 2 ranks, 1 thread: %.1f s; ratio %.2f\n", one, two, one / two }'
done
[[ ${MEMORY-1} == 1 ]] || exit 0
for ranks in 1 2 4; do
    run "$ranks" 1 >/dev/null
    awk -v n="$ranks" '{ m = $1 > m ? $1 : m; s += $2 + $3 } END { printf "%d rank(s), 1 thread: at most %.0f MiB each, %.1f s of processor time in all\n", n, m / 1024, s }' "$work/memory"
done
