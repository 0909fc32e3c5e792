#!/usr/bin/env bash
# Kills one rank of 2 or 3 (kill -9) at random points of a run, TIMES times. Each time mpirun must end within a minute
# with an error that names the rank, without an output, and the run must go on with 1 to 4 ranks to the bytes of one that
# was never interrupted.
#
# usage: bench/ranks_kill.sh GRAIL MODEL TEXT [TIMES [SEED [COMPRESS-OPTION...]]]
set -euo pipefail
grail=$1 model=$2 text=$3 times=${4-30}
RANDOM=${5-1}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/launcher"
export OMPI_MCA_orte_tmpdir_base=$work/launcher
options=(--calib "$text" --threads 1 --quiet --sparsity 0.3 "${@:6}")
[[ $# -gt 5 ]] || options+=(--context 128 --samples 200)

fail() {
    echo "FAILED: $1" >&2
    cat "$work/stderr" >&2
    exit 1
}

# start N OUTPUT OPTION...
start() {
    mpirun --oversubscribe --bind-to none -n "$1" "$grail" compress "$model" "${options[@]}" -o "$2" "${@:3}" \
        >"$work/stdout" 2>"$work/stderr"
}

# pid_of_rank LAUNCHER RANK
pid_of_rank() {
    local pid
    for pid in $(pgrep -P "$1" -f "$grail" || true) $(pgrep -P "$(pgrep -P "$1" | head -n 1)" -f "$grail" 2>/dev/null || true); do
        if tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -qx "OMPI_COMM_WORLD_RANK=$2"; then
            echo "$pid"
            return
        fi
    done
}

begun=$EPOCHREALTIME
start 2 "$work/whole" || fail "the uninterrupted run"
seconds=$(awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')
killed=0
while ((killed < times)); do
    n=$((2 + RANDOM % 2)) victim=$((RANDOM % n)) then=$((1 + RANDOM % 4))
    rm -rf "$work/out" "$work/out.partial"
    start "$n" "$work/out" &
    launcher=$!
    sleep "$(awk -v s="$seconds" -v r="$RANDOM" 'BEGIN { print s * r / 32768 }')"
    pid=$(pid_of_rank "$launcher" "$victim")
    [[ -n $pid ]] && kill -9 "$pid" 2>/dev/null || { wait "$launcher" || fail "a run that was not killed"; continue; }
    at=$EPOCHREALTIME
    code=0
    wait "$launcher" || code=$?
    took=$(awk -v a="$at" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
    awk -v t="$took" 'BEGIN { exit t > 60 }' || fail "mpirun ended $took s after rank $victim of $n"
    if ((code == 0)); then
        [[ -d $work/out ]] || fail "mpirun says that all went well, without an output"
        continue # it was killed when all was done
    fi
    [[ ! -e $work/out ]] || fail "an output beside an error"
    grep -q "process rank $victim" "$work/stderr" || fail "rank $victim is not named"
    recorded=$(grep -cs '"block"' "$work/out.partial/grail-state.jsonl" || true)
    start "$then" "$work/out" --resume || fail "the run that goes on with $then ranks"
    for file in "$work"/whole/*; do
        [[ $file == */report.json ]] || cmp "$file" "$work/out/${file##*/}" || fail "${file##*/} differs"
    done
    killed=$((killed + 1))
    echo "$killed: rank $victim of $n killed, all ended after $took s, ${recorded:-0} block(s) recorded; went on with $then"
done
