#!/usr/bin/env bash
# Several ranks under mpirun: the same bytes as one process, refusals, and what happens when a rank dies.
source "$(dirname "$0")/lib.sh" "$@"

needs_mpi

# ranks N COMMAND...
ranks() {
    timeout 300 mpirun --oversubscribe --bind-to none -n "$@"
}

model=$demo/model
text=$demo/calibration.txt
[[ -d $shared/stories260k && -e $shared/text/tinystories.txt ]] &&
    model=$shared/stories260k text=$shared/text/tinystories.txt
few=(--calib "$text" --context 32 --samples 40 --threads 1 --quiet)
all=${GRAIL_TEST_ALL:-0}

same_result() {
    local file
    for file in "$1"/*; do
        [[ $file == */report.json ]] || # it has seconds
            cmp "$file" "$2/${file##*/}" || fail "${file##*/} of $2 is not that of $1"
    done
}

compress_on_ranks() {
    local name=$1 n
    shift
    runs "$grail" compress "$@" -o "$name-1"
    for n in 2 3 5; do
        if ((n == 2 || all == 1)) || [[ $name == plain ]] || [[ $name == metric* && $n == 3 ]]; then
            runs ranks "$n" "$grail" compress "$@" -o "$name-$n"
            [[ $(grep -c '^written: ' stdout) == 1 ]] || fail "$n ranks wrote more than one result"
            same_result "$name-1" "$name-$n"
        fi
    done
}

check "documents of an encoder, which have different lengths, are shared out like windows"
cp -r "$golden/bert" encoder
write_vocabulary encoder/tokenizer.json
for line in {1..40}; do
    printf 'word%d word7%*s\n' $((line % 39 + 1)) 0 "$(printf ' word%d' $(seq 1 $((line % 9))))"
done >lines.txt
compress_on_ranks documents encoder --calib lines.txt --sparsity 0.5 --align 1 --heal block,model --heal-steps 6 \
    --threads 1 --quiet

check "any number of ranks gives the bytes of one process"
compress_on_ranks plain "$model" "${few[@]}" --sparsity 0.3
check "with blocks that are run again, weighted rows and a mixed target"
compress_on_ranks recomputed "$model" "${few[@]}" --sparsity ffn=0.4 --memory 1 --token-weights stream --target mixed
check "with a folding and a selector of inputs"
compress_on_ranks fold "$model" "${few[@]}" --sparsity 0.3 --selector fold
compress_on_ranks wanda "$model" "${few[@]}" --sparsity 0.3 --selector wanda --compensate grail
check "with images, convolutions and REPAIR"
compress_on_ranks images "$demo/vision/cnn.pth" --calib "$demo/vision/calibration" --samples 60 --threads 1 \
    --quiet --sparsity 0.3 --repair

check "with a metric of errors, whose samples are shared out: windows one by one, images in parts, of which a rank has none"
compress_on_ranks metric "$model" "${few[@]}" --sparsity 0.3 --metric fisher
compress_on_ranks metric-images "$demo/vision/cnn.pth" --calib "$demo/vision/calibration" --samples 60 --threads 1 \
    --quiet --sparsity 0.3 --metric fisher

check "with choices by the dense network"
compress_on_ranks open "$model" "${few[@]}" --sparsity 0.3 --select open
if ((all == 1)); then
    compress_on_ranks css "$model" "${few[@]}" --sparsity 0.3 --selector gram-css --compensate grail
    compress_on_ranks open-loop "$model" "${few[@]}" --sparsity 0.3 --loop open --selector wanda
fi
compress_on_ranks streams "$demo/vision/cnn.pth" --calib "$demo/vision/calibration" --samples 60 --threads 1 \
    --quiet --sparsity conv=0.3,stream=0.2 --selector wanda --repair

if ((all == 1)); then
    compress_on_ranks streams-obs "$demo/vision/cnn.pth" --calib "$demo/vision/calibration" --samples 60 --threads 1 \
        --quiet --sparsity conv=0.3,stream=0.2 --repair
fi

check "plans are the same, and so is a run for a limit"
plan_on_ranks() {
    local name=$1 n
    shift
    runs "$grail" plan "$model" "${few[@]}" --target-ratio 0.8 "$@" -o "$name-1.json"
    for n in 2 3; do
        ((n == 2 || all == 1)) || continue
        runs ranks "$n" "$grail" plan "$model" "${few[@]}" --target-ratio 0.8 "$@" -o "$name-$n.json"
        [[ $(grep -c '^next: ' stdout) == 1 ]] || { show; fail "$n ranks told of more than one plan"; }
        cmp "$name-1.json" "$name-$n.json" || fail "the plan of $n ranks"
    done
}
plan_on_ranks error --budget error
((all == 0)) || plan_on_ranks divergence --budget divergence
plan_on_ranks search --budget search --tries 2
compress_on_ranks limited "$model" "${few[@]}" --target-ratio 0.8 --budget error

check "with healing of blocks and of the network"
healing=(--heal block,model --heal-steps 12 --heal-rate 0.004)
compress_on_ranks healed "$model" "${few[@]}" --sparsity 0.3 "${healing[@]}"
grep -q '"best_step": [1-9]' healed-1/report.json || fail "no training found anything better"
compress_on_ranks images-healed "$demo/vision/cnn.pth" --calib "$demo/vision/calibration" --samples 40 --threads 1 \
    --quiet --sparsity 0.3 --heal block,model --heal-steps 3 --heal-rate 0.01
check "with a teacher, by heal"
runs "$grail" heal plain-1 --teacher "$model" "${few[@]}" "${healing[@]}" -o taught-1
runs ranks 3 "$grail" heal plain-1 --teacher "$model" "${few[@]}" "${healing[@]}" -o taught-3
[[ $(grep -c '^written: ' stdout) == 1 ]] || { show; fail "3 ranks wrote more than one result"; }
same_result taught-1 taught-3

check "statistics are the same, and files of them are added by one rank"
runs "$grail" gram "$model" "${few[@]}" --full -o statistics-1.gguf
for n in 2 3; do
    ((n == 2 || all == 1)) || continue
    runs ranks "$n" "$grail" gram "$model" "${few[@]}" --full -o "statistics-$n.gguf"
    [[ $(grep -c "over 40 samples" stdout) == 1 ]] || { show; fail "$n ranks told of more than one file"; }
    cmp statistics-1.gguf "statistics-$n.gguf" || fail "the statistics of $n ranks"
done
runs ranks 2 "$grail" gram statistics-1.gguf --add statistics-2.gguf -o statistics-sum.gguf
[[ $(grep -c "over 80 samples" stdout) == 1 ]] || { show; fail "2 ranks added"; }
run timeout 60 mpirun --oversubscribe -n 1 "$grail" gram "$model" "${few[@]}" -o differ.gguf \
    : -n 1 "$grail" gram "$model" "${few[@]}" -o differ.gguf --full
((code != 0 && code != 124)) && grep -q "rank 1 of 2: the statistics to be written differ" stderr || { show; fail "other statistics"; }
[[ ! -e differ.gguf ]] || fail "statistics were written"

check "perplexity has the same digits"
runs "$grail" eval "$model" --data "$text" --windows 30 --context 32 --threads 1 --json
mv stdout one.json
runs ranks 3 "$grail" eval "$model" --data "$text" --windows 30 --context 32 --threads 1 --json
cmp one.json stdout || fail "3 ranks measured something else"

check "accuracy has the same digits"
without_times() { grep -Ev '"(seconds|images_per_second)":'; }
vision=(eval "$demo/vision/cnn.pth" --data "$demo/vision/test" --images 500 --threads 1 --json)
runs "$grail" "${vision[@]}"
without_times <stdout >one.json
for n in 2 3; do
    ((n == 2 || all == 1)) || continue
    runs ranks "$n" "$grail" "${vision[@]}"
    without_times <stdout | cmp one.json - || fail "$n ranks have another accuracy"
done

check "what is not shared out is refused"
for command in inspect verify export; do
    run ranks 2 "$grail" "$command" "$model"
    ((code == 2)) || { show; fail "$command exits with $code"; }
    [[ $(grep -c "grail $command: does not share out its work" stderr) == 1 ]] || { show; fail "$command"; }
done

check "ranks that differ stop before the first block"
run timeout 60 mpirun --oversubscribe -n 1 "$grail" compress "$model" "${few[@]}" -o differ --sparsity 0.3 \
    : -n 1 "$grail" compress "$model" "${few[@]}" -o differ --sparsity 0.3 --seed 3
((code != 0)) && grep -q "rank 1 of 2: other options, files or samples than rank 0 has: read.seed is 0 there and 3 here" stderr ||
    { show; fail "options"; }
[[ ! -e differ && ! -e differ.partial ]] || fail "an output was begun"
run timeout 60 mpirun --oversubscribe -n 1 "$grail" plan "$model" "${few[@]}" -o differ.json --target-ratio 0.8 \
    : -n 1 "$grail" plan "$model" "${few[@]}" -o differ.json --target-ratio 0.7
((code != 0 && code != 124)) && grep -q "the limit or how widths are chosen for it differ" stderr || { show; fail "limits"; }
[[ ! -e differ.json ]] || fail "a plan was written"
cp -r "$model" other
printf 'X' | dd of=other/model.safetensors bs=1 seek=$(($(stat -c %s other/model.safetensors) - 3)) conv=notrunc status=none
run timeout 60 mpirun --oversubscribe -n 1 "$grail" compress "$model" "${few[@]}" -o differ --sparsity 0.3 \
    : -n 1 "$grail" compress other "${few[@]}" -o differ --sparsity 0.3
((code != 0)) && grep -q "rank 1 of 2: other options, files or samples than rank 0 has: tensors is" stderr ||
    { show; fail "weights"; }
[[ ! -e differ && ! -e differ.partial ]] || fail "an output was begun"

check "a file that one rank lacks is named with that rank"
run timeout 60 mpirun --oversubscribe -n 1 "$grail" compress "$model" "${few[@]}" -o differ --sparsity 0.3 \
    : -n 1 "$grail" compress none "${few[@]}" -o differ --sparsity 0.3
((code != 0)) && grep -q "rank 1 of 2.*none" stderr || { show; fail "a missing model"; }

check "ranks that would end at other points are refused"
run timeout 60 mpirun --oversubscribe -n 1 "$grail" compress "$model" "${few[@]}" -o differ --sparsity 0.3 \
    : -n 1 "$grail" compress "$model" "${few[@]}" -o differ --sparsity 0.3 --dry-run
((code != 0 && code != 124)) && grep -q "rank 1 of 2: other options, files or samples" stderr || { show; fail "a dry run"; }
run timeout 60 mpirun --oversubscribe -n 1 "$grail" compress "$model" "${few[@]}" -o differ --sparsity 0.3 \
    : -n 1 "$grail" eval "$model" --data "$text" --windows 4 --context 32 --threads 1
((code != 0 && code != 124)) && grep -q "this is eval of release .*, and rank 0 runs compress" stderr || { show; fail "commands"; }

check "--comm none runs each by itself, --comm mpi joins one"
runs ranks 1 "$grail" eval "$model" --data "$text" --windows 4 --context 32 --comm mpi --json
runs ranks 2 "$grail" eval "$model" --data "$text" --windows 4 --context 32 --comm none --json
[[ $(grep -c '"perplexity"' stdout) == 2 ]] || { show; fail "none"; }

# kill_rank N RANK RECORD ARGUMENTS...: kills that rank of "grail ARGUMENTS -o killed" once there is such a record; mpirun must
# end by itself within a minute
kill_rank() {
    local n=$1 victim=$2 record=$3 launcher
    shift 3
    rm -f pid.*
    timeout 120 mpirun --oversubscribe --bind-to none -n "$n" \
        bash -c 'echo $$ >"pid.$OMPI_COMM_WORLD_RANK"; exec "$@"' rank "$grail" "$@" -o killed \
        >stdout 2>stderr &
    launcher=$!
    for ((i = 0; i < 6000; i++)); do
        [[ -e killed ]] && fail "the run was over before it could be killed"
        grep -qs "$record" killed.partial/* && break
        sleep 0.01
    done
    kill -9 "$(<"pid.$victim")"
    SECONDS=0
    code=0
    wait "$launcher" || code=$?
    ((code != 0 && code != 124)) || { show; fail "rank $victim of $n was killed, and mpirun exits with $code"; }
    ((SECONDS < 60)) || fail "the others ended after $SECONDS seconds"
    grep -q "process rank $victim" stderr || { show; fail "the message does not name rank $victim"; }
    [[ ! -e killed && -d killed.partial ]] || fail "an output appeared"
}

check "a rank that dies ends all, and the run goes on with another number of ranks"
slow=(--calib "$text" --context 128 --samples 200 --threads 1 --quiet --sparsity 0.3)
runs "$grail" compress "$model" "${slow[@]}" -o whole
for case in "2 0 3" "3 2 1" "2 1 2"; do
    [[ $case == "2 0 3" || $all == 1 ]] || continue
    read -r n victim then <<<"$case"
    rm -rf killed killed.partial
    kill_rank "$n" "$victim" '"block": *1' compress "$model" "${slow[@]}"
    runs ranks "$then" "$grail" compress "$model" "${slow[@]}" -o killed --resume
    same_result whole killed
done

check "likewise in a training"
slow=(--teacher "$model" --calib "$text" --context 64 --samples 60 --threads 1 --quiet --heal-steps 32 --heal-rate 0.002)
runs "$grail" heal plain-1 "${slow[@]}" -o healed-whole
for case in "2 1 3" "3 0 2"; do
    [[ $case == 2* || $all == 1 ]] || continue
    read -r n victim then <<<"$case"
    rm -rf killed killed.partial
    kill_rank "$n" "$victim" '"training".*"steps": *[1-9]' heal plain-1 "${slow[@]}"
    runs ranks "$then" "$grail" heal plain-1 "${slow[@]}" -o killed --resume
    same_result healed-whole killed
done
