#!/usr/bin/env bash
# Ranks that do not have what a command reads: --broadcast gives them copies, and the bytes are those of one process.
source "$(dirname "$0")/lib.sh" "$@"
needs_mpi

all=${GRAIL_TEST_ALL:-0}
few=(--context 32 --samples 40 --threads 1 --quiet)
export TMPDIR=$work/copies
mkdir first other "$TMPDIR"
cp -r "$demo/model" first/model
cp "$demo/calibration.txt" first/text.txt
cp -r "$demo/vision" first/vision

# on_machines N COMMAND...: rank 0 in the directory that has the inputs, the other N - 1 in one without. $replace is
# "exec" where the launcher shall take the place of this shell
replace=
on_machines() {
    local n=$1
    shift
    $replace timeout 300 mpirun --oversubscribe --bind-to none -n 1 --wdir "$work/first" "$@" \
        : -n $((n - 1)) --wdir "$work/other" "$@"
}

# leaves_nothing: no copies are left
leaves_nothing() {
    [[ -z $(ls -A "$TMPDIR") ]] || { ls -lR "$TMPDIR" >&2; fail "copies are left"; }
    [[ -z $(ls -A other) ]] || fail "something was written where the others run"
}

# same_on_machines NAME ARGUMENTS...: the result "-o NAME" of 2 ranks, and with all of 3, is that of one process
same_on_machines() {
    local name=$1 n
    shift
    runs env -C first "$grail" "$@" -o "$name-1"
    for n in 2 3; do
        ((n == 2 || all == 1)) || continue
        runs on_machines "$n" "$grail" "$@" -o "$name-$n" --broadcast
        leaves_nothing
        if [[ -d first/$name-1 ]]; then
            same_result "first/$name-1" "first/$name-$n"
        else
            cmp "first/$name-1" "first/$name-$n" || fail "$name-$n is not that of one process"
        fi
    done
}

check "compress, with a text in shares"
same_on_machines narrow compress model --calib text.txt=0.5 --calib model/../text.txt=0.5 "${few[@]}" --sparsity 0.3
if ((all == 1)); then
    check "compress, with images in folders and the model in a file"
    same_on_machines cnn compress vision/cnn.pth --calib vision/calibration --samples 40 --threads 1 --quiet --sparsity 0.3
    check "gram, and compress with its file, a plan and --eval"
    same_on_machines stats.gguf gram model --calib text.txt "${few[@]}" --full
    same_on_machines plan.json plan model --calib text.txt "${few[@]}" --target-ratio 0.8 --budget error
    same_on_machines open compress model --calib text.txt "${few[@]}" --sparsity 0.3 --select open --stats stats.gguf-1
    same_on_machines planned compress model --calib text.txt "${few[@]}" --plan plan.json-1 --eval text.txt
fi
check "heal, with two models"
same_on_machines healed heal narrow-1 --teacher model --calib text.txt "${few[@]}" --heal-steps 4

check "eval"
runs env -C first "$grail" eval model --data text.txt --context 32 --windows 20 --threads 1 --json
mv stdout one.json
runs on_machines 3 "$grail" eval model --data text.txt --context 32 --windows 20 --threads 1 --json --broadcast
cmp one.json stdout || fail "3 ranks measured something else"
leaves_nothing

# cells FILE: the lines of a results file without what differs from run to run, in the order of cells
cells() {
    sed -E 's/"(seconds|peak_bytes|crc32|started)": ?(\{[^}]*\}|"[^"]*"|[^,}]*)(, ?)?//g' "$1" | sort
}

check "sweep, whose recipe names the inputs"
cat >first/r.json <<END
{"checkpoints": [{"name": "cnn", "path": "vision/cnn.pth"}, {"name": "vit", "path": "vision/vit"}],
 "selectors": ["magnitude-l1"], "sparsities": [0.3, 0.5], "compensate": ["none"], "samples": [32], "seeds": [0],
 "sites": ["conv", "ffn"], "calibration": {"path": "vision/calibration"},
 "evaluation": {"path": "vision/test", "images": 20}}
END
runs env -C first "$grail" sweep r.json --threads 1 -o sweep-1.jsonl --quiet
runs on_machines 2 "$grail" sweep r.json --threads 1 -o sweep-2.jsonl --quiet --broadcast
[[ $(cells first/sweep-1.jsonl | wc -l) == 7 ]] || fail "other cells than were meant"
cmp <(cells first/sweep-1.jsonl) <(cells first/sweep-2.jsonl) || fail "the cells of 2 ranks"
leaves_nothing

check "without it a rank that lacks the inputs ends all"
run on_machines 2 "$grail" compress model --calib text.txt "${few[@]}" --sparsity 0.3 -o out
((code != 0 && code != 124)) && grep -q "rank 1 of 2: .*'model' is neither a model directory" stderr || { show; fail "no model"; }
[[ ! -e first/out && ! -e first/out.partial ]] || fail "an output was begun"

check "what rank 0 lacks as well is missing"
run on_machines 2 "$grail" eval model --data none.txt --threads 1 --broadcast
((code != 0 && code != 124)) && grep -q "none.txt" stderr || { show; fail "no text"; }
leaves_nothing

check "ranks that differ in it, and a disk without room"
run timeout 60 mpirun --oversubscribe -n 1 --wdir first "$grail" eval model --data text.txt --threads 1 --broadcast \
    : -n 1 --wdir other "$grail" eval model --data text.txt --threads 1
((code != 0 && code != 124)) && grep -q "this is eval of release .*, and rank 0 runs eval --broadcast" stderr || { show; fail "options"; }
run timeout 60 mpirun --oversubscribe -n 1 --wdir first "$grail" eval model --data text.txt --threads 1 --broadcast \
    : -n 1 --wdir other bash -c 'ulimit -f 4; exec "$@"' limited "$grail" eval model --data text.txt --threads 1 --broadcast
((code != 0 && code != 124)) && grep -q "copies of the inputs take [0-9]* bytes" stderr || { show; fail "room"; }
leaves_nothing

check "signals remove the copies, and the run goes on with others"
slow=(model --calib text.txt --context 128 --samples 120 --threads 1 --quiet --sparsity 0.3)
runs env -C first "$grail" compress "${slow[@]}" -o whole
for case in "TERM launcher" "TERM rank" "KILL rank"; do
    [[ $case == *launcher || $all == 1 ]] || continue
    read -r signal to <<<"$case"
    rm -f pid.*
    replace=exec on_machines 2 bash -c 'echo $$ >"$0/pid.$OMPI_COMM_WORLD_RANK"; exec "$@"' "$work" "$grail" compress "${slow[@]}" \
        -o killed --broadcast >stdout 2>stderr &
    launcher=$!
    for ((i = 0; i < 6000; i++)); do
        [[ -e first/killed ]] && fail "the run was over before it could be killed"
        grep -qs '"block": *1' first/killed.partial/* && break
        sleep 0.01
    done
    [[ -n $(ls -A "$TMPDIR") ]] || fail "there were no copies"
    victim=$(</proc/$launcher/task/$launcher/children) # mpirun: timeout would signal it twice, and it then leaves its ranks
    victim=${victim%% *}
    [[ $to == launcher ]] || victim=$(<pid.1)
    kill -"$signal" "$victim"
    code=0
    wait "$launcher" || code=$?
    ((code != 0 && code != 124)) || { show; fail "mpirun exits with $code"; }
    for rank in pid.*; do # mpirun can end before its ranks
        for ((i = 0; i < 3000; i++)); do
            kill -0 "$(<"$rank")" 2>/dev/null || break
            sleep 0.01
        done
    done
    [[ $signal == KILL ]] || leaves_nothing
    rm -rf "$TMPDIR"/*
    runs on_machines 3 "$grail" compress "${slow[@]}" -o killed --broadcast --resume
    same_result first/whole first/killed
    rm -rf first/killed
    leaves_nothing
done
