#!/usr/bin/env bash
# grail gram: what it writes replaces a pass, and what cannot be meant is refused. A pass that is
# killed is continued, and one for which there is no room leaves no file.
#
# usage: test_gram.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

write_ids ids.npy 16 32 96
write_ids other.npy 16 32 96 2
gram=("$grail" gram "$golden/llama3" --calib ids.npy --quiet)
compress=("$grail" compress "$golden/llama3" --sparsity 0.5 --align 1 --quiet)

check "an open loop from a file gives what one from the samples gives"
runs "${gram[@]}" --full -o stats.gguf
says "statistics of 14 matrices, 4 whole Gram matrices, over 16 samples" stdout
runs "${compress[@]}" --loop open --calib ids.npy -o from-samples
runs "${compress[@]}" --loop open --stats stats.gguf -o from-file
cmp from-samples/model.safetensors from-file/model.safetensors || fail "other weights"
says "Statistics of the dense network from \`stats.gguf\`, over 16 samples." from-file/README.md
runs "$grail" eval from-file --data ids.npy --context 32
says "was calibrated on this text" stderr
runs "$grail" eval from-file --data other.npy --context 32
! grep -q "calibrated" stderr || fail "warns of another text"

check "a result cut again remembers the statistics of the first cut"
runs "$grail" compress from-file --sparsity 0.25 --align 1 --selector magnitude-l1 --compensate none --quiet -o again
runs "$grail" eval again --data ids.npy --context 32
says "was calibrated on this text" stderr

check "a plan from a file is one from the samples"
runs "$grail" plan "$golden/llama3" --target-ratio 0.8 --budget error --calib ids.npy -o a.json
runs "$grail" plan "$golden/llama3" --target-ratio 0.8 --budget error --stats stats.gguf -o b.json
cmp a.json b.json || fail "other plans"
refuses 1 "the budget 'search' chooses widths by what it measures on calibration text" \
    "$grail" plan "$golden/llama3" --target-ratio 0.8 --stats stats.gguf -o out --quiet

check "trials take as few samples beside a file as without one, and cannot do without any"
write_ids many.npy 256 32 96
runs "$grail" gram "$golden/qwen2" --quiet --calib many.npy --samples 256 --full -o many.gguf
divergence=("$grail" plan "$golden/qwen2" --target-ratio 0.7 --budget divergence --quiet)
runs "${divergence[@]}" --calib many.npy --samples 256 -o c.json
runs "${divergence[@]}" --calib many.npy --samples 256 --stats many.gguf -o d.json
cmp c.json d.json || fail "other plans"
refuses 1 "the budget 'divergence' chooses widths by what it measures on calibration text" \
    "${divergence[@]}" --stats many.gguf -o out

check "files are added"
runs "$grail" gram "$golden/llama3" --calib other.npy --full -o other.gguf --json
runs "$grail" gram --add stats.gguf other.gguf -o sum.gguf
says "over 32 samples" stdout
runs "${compress[@]}" --loop open --stats sum.gguf -o of-sum
runs "$grail" eval of-sum --data other.npy --context 32
says "was calibrated on this text" stderr

check "what cannot be meant"
refuses 2 "give one of --calib PATH and --add FILE" "$grail" gram "$golden/llama3" -o out
refuses 2 "give only one of --calib PATH and --add FILE" "${gram[@]}" --add stats.gguf -o out
refuses 2 "--full has no effect with --add" "$grail" gram stats.gguf --add other.gguf --full -o out
refuses 2 "--backend has no effect with --add" "$grail" gram stats.gguf --add other.gguf --backend ref -o out
refuses 2 "--stats has no effect without one of" "${compress[@]}" --calib ids.npy --stats stats.gguf -o out
refuses 1 "exists" "${gram[@]}" -o stats.gguf
refuses 1 "this GGUF file holds no statistics: its general.type is 'missing'" \
    "${compress[@]}" --loop open --stats "$source_dir/tests/golden/gguf/llama3.gguf" -o out
refuses_clean 1 "holds statistics of another model than" \
    "$grail" compress "$golden/qwen2" --sparsity 0.5 --loop open --stats stats.gguf -o out --quiet
refuses 1 "hold statistics of different models" bash -c '"$1" gram "$2" --calib ids.npy --full -o q.gguf >/dev/null &&
    exec "$1" gram stats.gguf --add q.gguf -o out' - "$grail" "$golden/qwen2"
head -c 30000 stats.gguf >short.gguf
refuses 1 "short.gguf" "${compress[@]}" --loop open --stats short.gguf -o out
refuses 1 "short.gguf" "$grail" gram stats.gguf --add short.gguf -o out

no_leftovers() {
    [[ ! -e out ]] || fail "left a file"
}

check "no room for the file: refused before the pass, and nothing is left"
refuses 1 "File too large" bash -c 'ulimit -f 16 && exec "$@" --full -o out' - "${gram[@]}"
[[ -z $(find . -name '.grail-*.tmp') ]] || fail "left a temporary file"
refuses 1 "File too large" bash -c 'ulimit -f 16 && exec "$@" -o out' - "$grail" gram stats.gguf --add other.gguf

# killed_behind LINES COMMAND...: killed when its record has so many lines, or over before
killed_behind() {
    rm -rf out out.partial
    {
        "${@:2}" -o out >/dev/null 2>&1 &
        until (($(cat out.partial/grail-state.jsonl 2>/dev/null | wc -l) >= $1)); do kill -0 $! || break; done
        kill -KILL $!
        wait
    } 2>/dev/null || true
}

check "killed at any moment, and continued to the same bytes"
slow=("$grail" gram "$demo/model" --calib "$demo/calibration.txt" --context 128 --samples 16 --full --quiet)
runs "${slow[@]}" -o whole
for lines in 0 1 3 5 7; do
    killed_behind $lines "${slow[@]}"
    if [[ ! -e out && $lines == 5 ]]; then
        refuses 1 "'out.partial' holds an interrupted run; resume it or delete it (--resume)" "${slow[@]}" -o out
        refuses 1 "was started with other options or files: full was true and is now false" "${slow[@]/--full/--quiet}" -o out --resume
        refuses 1 "read.samples was 16 and is now 15; use the options and files of the interrupted run, or delete its directory (--samples)" \
            "${slow[@]/#16/15}" -o out --resume
        grep -q '"block":1' out.partial/grail-state.jsonl || fail "$(cut -c 1-200 out.partial/grail-state.jsonl)"
    fi
    [[ -e out && ! -e out.partial ]] || runs "${slow[@]}" -o out --resume
    cmp out whole || fail "other bytes"
    [[ ! -e out.partial ]] || fail "out.partial is left"
done

check "what was counted is looked at before it is gone on with"
killed_behind 5 "${slow[@]}"
if [[ ! -e out ]]; then
    size=$(stat -c %s out.partial/result/statistics.gguf)
    patch out.partial/result/statistics.gguf $((size / 8)) ff ff ff ff
    refuses 1 "is damaged: its checksum is" "${slow[@]}" -o out --resume
    says "; delete 'out.partial' and run again" stderr
fi
rm -rf out out.partial
refuses 2 "--resume has no effect with --add" "$grail" gram stats.gguf --add other.gguf --resume -o out
