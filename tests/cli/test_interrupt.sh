#!/usr/bin/env bash
# Ctrl-C and SIGTERM: every command ends by the signal, which the shell shows as 130 and 143; what
# compress has finished is kept, and it says how that is continued; nothing half-written
# looks finished.
#
# usage: test_interrupt.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "python3 is not installed"
# a shell without job control lets its background commands ignore SIGINT
env --default-signal=INT true 2>/dev/null || skip "env knows no --default-signal"

vision=$demo/vision
export OMP_NUM_THREADS=1

# start ARGUMENT...: grail in the background, with the signals of a command in a terminal
start() {
    launch --default-signal=INT,TERM "$@"
}

# launch OPTION ARGUMENT...: grail, through env with an option
launch() {
    : >stderr
    env "$1" "$grail" "${@:2}" >stdout 2>stderr &
    pid=$!
    # before, a signal would end the shell or env
    until [[ $(readlink /proc/$pid/exe) == "$grail" ]]; do
        kill -0 $pid 2>/dev/null || return 0
    done
}

# ends: waits for it; fills $code
ends() {
    code=0
    wait $pid 2>/dev/null || code=$?
}

# wait_for CONDITION...: as long as the command runs
wait_for() {
    until "$@"; do
        kill -0 $pid 2>/dev/null || { show; fail "the command ended before: $*"; }
        sleep 0.01
    done
}

# status_of SIGNAL: what the shell shows
status_of() {
    echo $((128 + $(kill -l "$1")))
}

has_lines() {
    [[ -s $2 ]] && (($(wc -l <"$2") >= $1))
}

compress=(compress "$demo/model" --calib "$demo/calibration.txt" --context 128 --samples 16
    --sparsity 0.3 --align 1)
line="the finished part is in 'out.partial'; continue it with:"

# continues: types the command line that ends the message
continues() {
    (($(wc -l <stderr) >= 2)) || { show; fail "no command line"; }
    local typed
    typed=$(tail -n 1 stderr)
    [[ $typed == "  $grail compress "*" --resume" ]] || { show; fail "the command line differs"; }
    runs bash -c "$typed"
}

check "an uninterrupted run"
runs "$grail" "${compress[@]}" -o complete --quiet

for signal in INT TERM; do
    check "compress ends by SIG$signal with the block that it is in, and is continued"
    rm -rf out
    start "${compress[@]}" -o out/
    wait_for has_lines 4 out.partial/grail-state.jsonl
    kill -$signal $pid
    ends
    ((code == $(status_of $signal))) || { show; fail "exit code $code"; }
    grep -qE "^grail: interrupted in block [1-4] of 4; $line\$" stderr || { show; fail "the message differs"; }
    [[ ! -s stdout ]] || { show; fail "prints a result"; }
    [[ ! -e out ]] || fail "an interrupted run left a result"
    cp stderr interrupted
    refuses 1 "holds an interrupted run; resume it or delete it (--resume)" "$grail" compress "$demo/model" -o out --sparsity 0.3 \
        --calib "$demo/calibration.txt" >/dev/null
    cp interrupted stderr
    continues
    same_result complete out
done

head -c 12000 "$demo/held-out.txt" >measured.txt
measure=("${compress[@]}" --eval measured.txt)
runs "$grail" "${measure[@]}" -o measured --quiet
for signal in INT TERM KILL ${GRAIL_TEST_ALL:+KILL}; do
    check "compress --eval ends by SIG$signal while it measures, and is measured when it is continued"
    rm -rf out
    start "${measure[@]}" -o out
    wait_for test -e out.partial/result/report.json
    sleep 0.$((RANDOM % 3))
    kill -$signal $pid
    ends
    ((code == $(status_of $signal))) || { show; fail "exit code $code"; }
    [[ ! -e out && -e out.partial ]] || fail "what is not measured has its name"
    if [[ $signal == KILL ]]; then
        runs "$grail" "${measure[@]}" -o out --resume
    else
        says "grail: interrupted while measuring; $line" stderr
        continues
    fi
    ! grep -q "^block" stderr || { show; fail "narrowed again"; }
    says "quality on measured.txt:" stdout
    same_result measured out
done

check "with --quiet the message is printed too"
rm -rf out
start "${compress[@]}" -o out --quiet
wait_for has_lines 3 out.partial/grail-state.jsonl
kill -INT $pid
ends
((code == 130)) || fail "exit code $code"
(($(wc -l <stderr) == 2)) || { show; fail "more than the message"; }
says "$line" stderr
runs "$grail" "${compress[@]}" -o out --resume --quiet
same_result complete out

check "gram and quantize say how they are continued"
quantise=(quantize "$demo/model" --type q4_0 --calib "$demo/calibration.txt" --context 128 --samples 16 --quiet)
count=(gram "$demo/model" --full --calib "$demo/calibration.txt" --context 128 --samples 16 --quiet)
runs "$grail" "${quantise[@]}" -o quantised
runs "$grail" "${count[@]}" -o counted
interrupted_and_continued() {
    rm -rf out
    start "${@:2}" -o out
    wait_for has_lines 4 out.partial/grail-state.jsonl
    kill -INT $pid
    ends
    ((code == 130)) || fail "exit code $code"
    says "grail: interrupted; $line" stderr
    runs bash -c "$(tail -n 1 stderr)"
    cmp out "$1" || fail "other bytes"
    [[ ! -e out.partial ]] || fail "out.partial is left"
}
interrupted_and_continued quantised "${quantise[@]}"
interrupted_and_continued counted "${count[@]}"

check "a model behind -- is named where --resume may follow"
cp -r "$demo/model" ./-m
rm -rf out
start compress -o out --quiet "${compress[@]:2}" -- -m
wait_for has_lines 3 out.partial/grail-state.jsonl
kill -INT $pid
ends
says " ./-m --resume" stderr
continues
cmp complete/model.safetensors out/model.safetensors

check "a second signal ends it at once"
rm -rf out
start "${compress[@]}" -o out
wait_for has_lines 4 out.partial/grail-state.jsonl
kill -INT $pid
kill -TERM $pid
ends
((code == 143)) || { show; fail "exit code $code"; }
! grep -q interrupted stderr || { show; fail "the second signal did not end it at once"; }
runs "$grail" "${compress[@]}" -o out --resume --quiet
same_result complete out

check "a signal that it was started to ignore stays ignored"
rm -rf out
launch --ignore-signal=INT "${compress[@]}" -o out
wait_for has_lines 4 out.partial/grail-state.jsonl
kill -INT $pid
ends
((code == 0)) || { show; fail "exit code $code"; }
same_result complete out

# handles PID SIGNAL: whether that process has a handler for INT (2) or TERM (15)
handles() {
    local caught
    caught=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)
    ((0x${caught:-0} & (1 << ($(kill -l "$2") - 1))))
}

# No signal ends the first process of a container by itself; before it has a handler, none reaches it.
for apart in "unshare --fork --pid" "unshare --map-root-user --fork --pid" ""; do
    [[ -z $apart ]] || ! $apart true 2>/dev/null || break
done
if [[ -z $apart ]]; then
    echo "-- SKIPPED: no namespace of processes may be made here"
fi
first_process() { # SIGNAL ARGUMENTS...
    local signal=$1
    shift
    : >stderr
    $apart env --default-signal=INT,TERM "$grail" "$@" >stdout 2>stderr &
    around=$!
    until pid=$(pgrep -P $around) && [[ $(readlink /proc/$pid/exe) == "$grail" ]] && handles "$pid" "$signal"; do
        kill -0 $around 2>/dev/null || fail "the command ended"
    done
}
for signal in INT TERM; do
    [[ -n $apart ]] || break
    check "the first process of a container ends by SIG$signal"
    first_process "$signal" eval "$demo/model" --data "$demo/held-out.txt"
    kill -$signal $pid
    pid=$around
    ends
    ((code == $(status_of $signal))) || { show; fail "exit code $code"; }
    rm -rf out out.partial
    first_process "$signal" "${measure[@]}" -o out --quiet
    wait_for has_lines 3 out.partial/grail-state.jsonl
    kill -$signal $pid
    pid=$around
    ends
    ((code == $(status_of $signal))) || { show; fail "exit code $code"; }
    says "$line" stderr
done
rm -rf out.partial

# in_terminal FILE SCRIPT ARGUMENT...: a script of bash in a group of its own, all of which gets SIGINT
# soon after FILE is there, as from a terminal; fills $code
in_terminal() {
    code=0
    python3 - "$@" <<'END' || code=$?
import os, signal, subprocess, sys, time
shell = subprocess.Popen(["bash", "-c", *sys.argv[2:3], "bash", *sys.argv[3:]], start_new_session=True,
                         preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
while not os.path.exists(sys.argv[1]) and shell.poll() is None:
    time.sleep(0.01)
time.sleep(0.2)
os.killpg(shell.pid, signal.SIGINT)
code = shell.wait()
sys.exit(code if code >= 0 else 128 - code)
END
}

check "a script around it ends too"
rm -rf out
in_terminal out.partial/grail-state.jsonl '"$@" -o out --quiet 2>stderr; echo >after' "$grail" "${compress[@]}"
((code == 130)) || fail "exit code $code"
says "$line" stderr
[[ ! -e after ]] || fail "the script went on"

check "every command of a pipeline ends"
in_terminal began 'trap : INT; >began; "$@" 2>stderr | cat; echo "${PIPESTATUS[*]}" >statuses' \
    "$grail" eval "$demo/model" --data "$demo/held-out.txt"
[[ $(cat statuses) == "130 130" ]] || fail "exit codes $(cat statuses)"

check "the other commands end at once"
write_ids ids.npy 200 64 512
runs "$grail" export "$vision/vit" -o complete.onnx
data=(--data "$demo/held-out.txt" --context 256)
for command in "eval $demo/model ${data[*]}" "eval $vision/cnn.pth --data $vision/test" \
    "verify $demo/model complete ${data[*]} --windows 300" "logits $demo/model --ids ids.npy -o out" \
    "export $vision/vit -o new.onnx" "inspect $demo/model" \
    "doctor --seconds 5"; do
    ended=0
    for delay in 0 0.005 0.02; do
        for signal in INT TERM; do
            rm -f new.* out
            start $command
            sleep $delay
            kill -$signal $pid 2>/dev/null || true
            ends
            ((code == 0 || code == $(status_of $signal))) || { show; fail "exit code $code of $command"; }
            ended=$((ended + (code != 0)))
            [[ ! -s stderr ]] || { show; fail "prints on stderr: $command"; }
            [[ ! -e new.onnx ]] || cmp new.onnx complete.onnx || fail "left a partial export"
        done
    done
    ((ended > 0)) || [[ $command == inspect* ]] || fail "never ended early: $command"
    echo "   $ended of 6 times: ${command%% *}"
done
