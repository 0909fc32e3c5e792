#!/usr/bin/env bash
# Efforts and times: what they choose and say, what is refused, and runs that are killed in each part
# of their time and go on with another one.
#
# usage: test_effort.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

write_ids ids.npy 64 16 96
model=$golden/llama3
options=("$model" --calib "$work/ids.npy" --align 1)

check "what an effort chooses is said in a line, and what is given goes before it"
runs "$grail" compress "${options[@]}" --sparsity 0.5 --effort quick --dry-run -o dry
says "effort quick: selector wanda, compensation grail, widths as given, samples 32, healing none" stderr
runs "$grail" compress "${options[@]}" --sparsity 0.5 --effort quick --selector flap --samples 7 --dry-run -o dry
says "effort quick: selector flap, compensation full, widths as given, samples 7, healing none" stderr
runs "$grail" compress "${options[@]}" --target-ratio 0.9 --effort usual --dry-run -o dry
says "effort usual: selector obs, compensation full, widths by divergence, healing none" stderr
runs "$grail" compress "${options[@]}" --target-ratio 0.9 --effort best --heal-steps 3 --dry-run -o dry
says "widths by divergence, healing model, steps 3" stderr
runs "$grail" plan "${options[@]}" --target-ratio 0.9 --effort quick -o plan.json
says "widths by error" stderr
runs "$grail" compress "${options[@]}" --sparsity 0.5 --dry-run -o dry
! grep -q "effort" stderr || fail "an effort is told of that nobody asked for"

check "what is no effort and no time"
refuses 1 "unknown effort 'most'; expected one of quick, usual, best (--effort)" "$grail" compress "${options[@]}" --sparsity 0.5 -o out --effort most
for time in -3 0 nan inf 5x 1e999 ""; do
    refuses 2 "--time takes a time above 0, such as 90s, 10m or 2h, not '$time'" \
        "$grail" compress "${options[@]}" --sparsity 0.5 -o out --time "$time"
done
refuses 1 "the time in seconds is" "$grail" compress "${options[@]}" --sparsity 0.5 -o out --time 1e300h

check "a time too short for anything says what the least is"
refuses 1 "does not suffice: at the speed that was measured here the least is about" \
    "$grail" compress "${options[@]}" --sparsity 0.5 -o out --time 0.01s
refuses 1 "does not suffice" "$grail" plan "${options[@]}" --target-ratio 0.9 -o none.json --time 0.01s
[[ ! -e out.schedule && ! -e out && ! -e out.partial && ! -e none.json ]] || fail "something is left"

check "what a time is divided among is printed before the run, and is what the run does"
runs "$grail" compress "${options[@]}" --target-ratio 0.9 -o out --time 20s --json
says "time 20.0 s, divided by what was measured in" stderr
says "  measured widths " stderr
says "  statistics and fits " stderr
says "  healing " stderr
python3 - stdout out/report.json <<'EOF'
import json, sys
summary, report = (json.load(open(path)) for path in sys.argv[1:])
schedule = summary["schedule"]
assert schedule["effort"] == "best" and schedule["time"] == 20.0, schedule
assert schedule["expected_seconds"] <= 20.0, schedule
phases = {phase["name"]: phase for phase in schedule["phases"]}
assert phases["healing"]["steps"] == report["heal"]["steps"], phases
assert summary["samples"] == phases["statistics and fits"]["samples"], phases
EOF
[[ ! -e out.schedule ]] || fail "out.schedule is left"
rm -r out

command=()
start() {
    : >stderr
    "$grail" compress "${command[@]}" -o cut "$@" >stdout 2>stderr &
    pid=$!
}

# value EXPRESSION FILE: of a JSON document `d`
value() {
    python3 -c "import json, sys; d = json.load(open(sys.argv[1])); print($1)" "$2"
}

# killed_when CONDITION...
killed_when() {
    local try
    for try in 1 2 3 4 5 6; do
        rm -rf cut cut.partial cut.schedule
        start
        while ! "$@" && kill -0 $pid 2>/dev/null; do
            sleep 0.005
        done
        kill -KILL $pid 2>/dev/null || true
        wait $pid 2>/dev/null || true
        if [[ ! -e cut ]]; then
            return
        fi
    done
    fail "every run ended before it could be killed: $*"
}

scheduled() { [[ -s cut.schedule ]]; }
planned() { grep -q '"plan"' cut.schedule 2>/dev/null; }
begun() { grep -q '"block":0' cut.partial/grail-state.jsonl 2>/dev/null; }
healing() { grep -q '"training"' cut.partial/grail-state.jsonl 2>/dev/null; }

# goes_on: with another time, and with none; what was chosen stays.
goes_on() {
    local steps samples
    steps=$(value "d['heal_steps']" cut.schedule)
    samples=$(value "d['samples']" cut.schedule)
    run "$grail" compress "${command[@]}" -o cut
    ((code == 1)) || fail "exit code $code"
    says "interrupted run" stderr
    runs "$grail" compress "${command[@]}" -o cut --resume "$@"
    says ", as the interrupted run has chosen: " stderr
    [[ ! -e cut.schedule && ! -e cut.partial ]] || fail "something is left"
    [[ $(value "d['heal']['steps']" cut/report.json) == "$steps" ]] || fail "other steps than $steps"
    [[ $samples == 0 || $(value "d['calibration']['samples']" cut/report.json) == "$samples" ]] || fail "other samples than $samples"
    rm -r cut
}

command=("${options[@]}" --target-ratio 0.9 --time 30s --quiet)
for phase in scheduled planned begun healing; do
    check "killed when it is $phase, and resumed with another time"
    killed_when $phase
    goes_on --time 8s
done

check "killed, and resumed without a time"
command=("${options[@]}" --sparsity 0.5 --time 12s --quiet)
killed_when healing
command=("${options[@]}" --sparsity 0.5 --quiet)
goes_on

check "a run that began without a time keeps its options"
command=("${options[@]}" --sparsity 0.5 --quiet --heal model --heal-steps 4000 --samples 16)
killed_when healing
runs "$grail" compress "${command[@]}" -o cut --resume --time 5s
[[ $(value "d['heal']['steps']" cut/report.json) == 4000 ]] || fail "other steps"
rm -r cut

check "a place that is taken, or holds a run, is refused before anything is read or measured"
mkdir there
soon=("$grail" compress "$model" --calib none.npy)
for choice in "--target-ratio 0.9" "--target-ratio 0.9 --time 20s" "--sparsity 0.5 --effort best"; do
    refuses 1 "'there' exists already" "${soon[@]}" -o there $choice
    refuses 1 "cannot find the output's parent directory 'no'" "${soon[@]}" -o no/out $choice
done
check "so is a file that would be copied and lies elsewhere"
cp -r "$model" linked
ln -s /etc/hostname linked/merges.txt
for choice in "--target-ratio 0.9" "--sparsity 0.5 --effort best"; do
    refuses 1 "'linked/merges.txt' is a symbolic link to '/etc/hostname', which lies outside the model's directory" \
        "$grail" compress linked --calib none.npy -o cut $choice
done

check "and an interrupted run"
command=("${options[@]}" --target-ratio 0.9 --quiet)
killed_when begun
for choice in "--target-ratio 0.9" "--sparsity 0.5 --effort best"; do
    refuses 1 "'cut.partial' holds an interrupted run; resume it or delete it (--resume)" "${soon[@]}" -o cut $choice
done
rm -r cut.partial
: >stderr
"$grail" compress "${options[@]}" --sparsity 0.5 --heal model --heal-steps 4000 --quiet -o cut >stdout 2>stderr &
pid=$!
until begun || ! kill -0 $pid 2>/dev/null; do
    sleep 0.005
done
kill -STOP $pid
refuses 1 "another run is writing to 'cut.partial'" "${soon[@]}" -o cut --target-ratio 0.9
refuses 1 "another run is writing to 'cut.partial'" "${soon[@]}" -o cut --target-ratio 0.9 --resume
kill -KILL $pid
wait $pid 2>/dev/null || true
rm -r cut.partial

check "killed in the middle of its trials, and resumed: the same widths by the rest of the trials"
demo_limit=("$demo/model" --calib "$demo/calibration.txt" --samples 32 --context 64 --target-ratio 0.8 --quiet)
command=("${demo_limit[@]}" --budget divergence)
runs "$grail" compress "${command[@]}" -o whole
measured() { [[ -s cut.schedule ]] && (($(grep -c '^ *"[0-9a-f]\{64\}": \[' cut.schedule) >= 4)); }
killed_when measured
[[ ! -e cut.partial ]] || fail "it was killed behind its trials"
runs "$grail" compress "${command[@]}" -o cut --resume
same_result whole cut
[[ ! -e cut.schedule ]] || fail "something is left"
rm -r cut
start
until measured || ! kill -0 $pid 2>/dev/null; do
    sleep 0.005
done
kill -TERM $pid
wait $pid 2>/dev/null && fail "it went on behind the signal"
says "grail: interrupted; what was measured is in 'cut.schedule'; continue it with:" stderr
[[ ! -e cut.partial ]] || fail "it began with widths of a part of the trials"
runs "$grail" compress "${command[@]}" -o cut --resume
same_result whole cut
rm -r cut
killed_when measured
runs "$grail" compress "${command[@]}" -o cut
same_result whole cut
[[ ! -e cut.schedule ]] || fail "something is left"
rm -r cut whole

check "the same with a time, whether its trials are kept or not"
command=("${demo_limit[@]}" --effort usual --time 60s)
killed_when measured
cp cut.schedule before
runs "$grail" compress "${command[@]}" -o cut --resume
mv cut whole
python3 -c "import json; d = json.load(open('before')); del d['measured']; json.dump(d, open('cut.schedule', 'w'))"
runs "$grail" compress "${command[@]}" -o cut --resume
cmp cut/plan.json whole/plan.json || fail "other widths"
cmp cut/model.safetensors whole/model.safetensors || fail "other bytes"
rm -r cut whole

check "a schedule of another run, and one that is broken"
command=("${options[@]}" --target-ratio 0.9 --time 30s --quiet)
killed_when scheduled
refuses 1 "chosen for another run" "$grail" compress "${options[@]}" --target-ratio 0.8 --time 30s --resume -o cut
echo '{"grail_schedule": 1' >cut.schedule
refuses 1 "cut.schedule" "$grail" compress "${command[@]}" --resume -o cut
rm -rf cut.schedule cut.partial

check "too few samples"
write_ids few.npy 3 16 96
runs "$grail" compress "$model" --calib few.npy --align 1 --sparsity 0.5 --time 20s -o few
says " 3 samples" stderr

check "a disk that is full, and more room later"
command=("${options[@]}" --sparsity 0.5 --time 20s --quiet)
limited() {
    (ulimit -f 8 && exec "$@")
}
run limited "$grail" compress "${command[@]}" -o cut
((code == 1)) || fail "exit code $code"
says "File too large" stderr
[[ -s cut.schedule && ! -e cut ]] || fail "what was chosen is lost"
runs "$grail" compress "${command[@]}" -o cut --resume --time 6s
says ", as the interrupted run has chosen: " stderr
[[ ! -e cut.schedule && ! -e cut.partial ]] || fail "something is left"

check "a model is healed in a time"
runs "$grail" compress "${options[@]}" --sparsity 0.5 -o narrow --effort quick
runs "$grail" heal narrow --teacher "$model" --calib "$work/ids.npy" -o healed --time 10s
says "  healing  " stderr
[[ -e healed && ! -e healed.schedule ]] || fail "no healed model, or its schedule is left"
refuses 1 "does not suffice" "$grail" heal narrow --teacher "$model" --calib "$work/ids.npy" -o more --time 0.01s
