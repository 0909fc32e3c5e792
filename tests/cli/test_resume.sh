#!/usr/bin/env bash
# Runs that are killed: nothing finished is pretended, and --resume leads to the bytes of a run that
# was not interrupted.
#
# usage: test_resume.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

# The run that is killed; the tests set its arguments.
command=()
start() {
    : >stderr # the child would empty it too late: has_said would read the run before
    "$grail" compress "${command[@]}" -o out "$@" >stdout 2>stderr &
    pid=$!
}

# kill_when CONDITION...: as soon as the condition holds, or the run is over; false when it was
kill_when() {
    while ! "$@" && kill -0 $pid 2>/dev/null; do
        sleep 0.005
    done
    kill -KILL $pid 2>/dev/null || true
    wait $pid 2>/dev/null || true
    [[ ! -e out ]]
}

has_said() {
    grep -q -- "$1" stderr
}

has_file() {
    [[ -e $1 ]]
}

# has_used TICKS: hundredths of a second of the processor
has_used() {
    (($(awk '{ print $14 + $15 }' "/proc/$pid/stat" 2>/dev/null || echo 0) >= $1))
}

# killed_when CONDITION...: a run is killed there; tries again where the run was faster
killed_when() {
    local try
    for try in 1 2 3 4 5 6 7 8; do
        rm -rf out out.partial
        start
        if kill_when "$@"; then
            return
        fi
    done
    fail "every run ended before it could be killed: $*"
}

# A killed run is not taken for a model, is not overwritten, and is continued to the same bytes.
assert_continues() {
    if [[ -e out.partial ]]; then
        refuses 1 "out.partial" "$grail" inspect out.partial
        if [[ -s out.partial/grail-state.jsonl ]]; then
            refuses 1 "resume it or delete it (--resume)" "$grail" compress "${command[@]}" \
                -o out >/dev/null
        fi
    fi
    assert_same_bytes
}

assert_same_bytes() {
    runs "$grail" compress "${command[@]}" -o out --resume
    [[ ! -e out.partial ]] || fail "out.partial is left"
    same_result complete out
    rm -r out
}

uninterrupted() {
    rm -rf complete
    runs "$grail" compress "${command[@]}" -o complete
}

ids=$work/ids.npy
write_ids ids.npy 48 32 96

command=("$demo/model" --calib "$demo/calibration.txt" --samples 20 --context "$context" --sparsity 0.3
    --threads 2)
uninterrupted
check "pruning, single file: killed when the output begins"
killed_when has_file out.partial
assert_continues
for block in 1 2 3; do
    check "pruning, single file: killed behind block $block"
    killed_when has_said "^block $block/4 .*written"
    [[ -s out.partial/grail-state.jsonl ]] || fail "the killed run left no state"
    assert_continues
    ! grep -q "^block $block/4" stderr || { show; fail "the block was run again"; }
done
check "killed twice: behind block 1, and when the continued run stands behind block 3"
killed_when has_said '^block 1/4 .*written'
start --resume
kill_when has_said '^block 3/4 .*written' || fail "the continued run ended before it could be killed"
assert_continues

check "killed while widths are measured, and behind a block of the run that takes them"
one=("${command[@]}")
command=("$demo/model" --calib "$demo/calibration.txt" --samples 20 --context "$context" --target-ratio 0.8
    --budget divergence --threads 2)
uninterrupted
grep -q "widths" stderr || fail "nothing says which widths were taken"
for ticks in 30 90; do # of the processor; choosing takes most of the time
    killed_when has_used "$ticks"
    assert_same_bytes
done
killed_when has_said '^block 1/4 .*written'
assert_same_bytes
command=("${one[@]}")
uninterrupted

check "a metric of errors: killed behind a block, which is chosen by it alone"
plain=("${command[@]}")
command+=(--metric fisher)
uninterrupted
killed_when has_said '^block 2/4 .*written'
refuses 1 "was started with other options or files: cut.metric was \"fisher\" and is now \"auto\"" \
    "$grail" compress "${plain[@]}" -o out --resume
assert_continues
command=("${plain[@]}")
uninterrupted

check "a second run into the same output is refused while the first goes on"
rm -rf out out.partial
start
while [[ ! -s out.partial/grail-state.jsonl ]] && kill -0 $pid 2>/dev/null; do
    sleep 0.005
done
kill -STOP $pid
[[ ! -e out ]] || fail "the run ended before it could be killed"
mv stderr first
refuses 1 "another run is writing to 'out.partial'; wait until it ends, or choose another output" "$grail" compress "${command[@]}" -o out --resume
refuses 1 "another run is writing to 'out.partial'; wait until it ends, or choose another output" "$grail" compress "${command[@]}" -o out
kill -KILL $pid
wait $pid 2>/dev/null || true
assert_continues

check "options that decide the bytes must be the same; the message names one that differs"
killed_when has_said '^block 2/4 .*written'
other() {
    local said=$1
    shift
    refuses 1 "was started with other options or files: $said" "$grail" compress "${command[@]}" \
        -o out --resume "$@"
}
other "amount.sparsity_ffn was 0.3 and is now 0.5" --sparsity 0.5
other "read.seed was 0 and is now 1; use the options and files of the interrupted run, or delete its directory (--seed)" --seed 1
other "fit.compensate was \"full\" and is now \"none\"" --compensate none
other "fit.target was \"mixed\" and is now \"local\"" --target local
other "cut.selector was \"obs\" and is now \"magnitude-l2\"" --selector magnitude-l2
other "threads was 2 and is now 1" --threads 1
other "read.samples was 20 and is now 19" --samples 19
other "calibration.parts differs" --calib "$demo/held-out.txt"
refuses 1 "was started with other options or files: calibration.file was" \
    "$grail" compress "${command[@]/calibration.txt/held-out.txt}" -o out --resume
other "run.backend was \"cpu\" and is now \"ref\"" --backend ref
assert_continues

check "another model is refused, naming its file"
copy_model "$demo/model" model
command[0]=model
uninterrupted
killed_when has_said '^block 1/4 .*written'
touch -d '2001-01-01' model/model.safetensors
other "files.model.safetensors differs"
rm -rf out.partial

check "folding, single file: killed behind a block"
command=("$demo/model" --calib "$demo/calibration.txt" --samples 24 --context "$context" --sparsity 0.3
    --selector fold --compensate full)
uninterrupted
killed_when has_said '^block 2/4 .*written'
assert_continues

check "convolutions in groups: killed behind a block"
command=("$source_dir/tests/golden/vision/onnx_groups/net.onnx" --calib "$demo/vision/calibration" --preset cifar
    --samples 128 --align 1 --sparsity a2=0.5,squeeze=0.5,b2=0.5 --compensate full)
uninterrupted
killed_when has_said '^block 1/4 .*written'
assert_continues

# killed_after SECONDS: false when the run was over
killed_after() {
    start
    sleep "$1"
    kill_when true
}

for selector in wanda fold; do
    check "$selector, shards: killed at any time"
    command=("$golden/llama3-sharded" --calib "$ids" --sparsity 0.5 --align 1
        --selector "$selector")
    uninterrupted
    killed=0
    for delay in 0.00 0.01 0.02 0.03 0.05 0.07 0.1 0.15; do
        if killed_after $delay; then
            killed=$((killed + 1))
            assert_continues
        else
            same_result complete out
            rm -r out
        fi
    done
    echo "   $killed of 8 runs were killed before they were over"
done
