#!/usr/bin/env bash
# Samples that the network draws itself: no text is needed, one seed gives one result, a killed run
# goes on, and what cannot draw is refused.
#
# usage: test_drawn.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

export OMP_NUM_THREADS=2
model=$demo/model
usual=("$model" --calib self --samples 12 --context 64 --sparsity ffn=0.3)

check "a network without any text is narrowed by its own"
runs "$grail" compress "${usual[@]}" -o out
says "12 windows of 64 tokens, of which the network drew 12 itself" stdout
grep -q "12 windows of 64 tokens of text that the dense network drew itself" out/README.md ||
    fail "the card does not say what the samples are"
mv out first

check "one seed is one text, whatever the number of threads"
runs "$grail" compress "${usual[@]}" --threads 1 -o out
cmp first/model.safetensors out/model.safetensors || fail "other bytes with one thread"
rm -r out
runs "$grail" compress "${usual[@]}" --seed 1 -o out
cmp -s first/model.safetensors out/model.safetensors && fail "the same bytes with another seed"
rm -r out

check "a run that is killed draws the same again and goes on"
killed_at out 3 "$grail" compress "${usual[@]}"
runs "$grail" compress "${usual[@]}" -o out --dry-run --resume
refuses 1 "seed" "$grail" compress "${usual[@]}" --seed 1 -o out --resume
runs "$grail" compress "${usual[@]}" -o out --resume
cmp first/model.safetensors out/model.safetensors || fail "a resumed run has other bytes"
rm -r out

check "a text beside it has its share, and a folder of that name is a folder"
runs "$grail" compress "$model" --calib "$demo/calibration.txt=0.75" --calib self --samples 12 \
    --context 64 --sparsity ffn=0.3 -o out
says "12 windows of 64 tokens, of which the network drew 3 itself" stdout
rm -r out
mkdir self
cp "$demo/calibration.txt" self
runs "$grail" compress "$model" --calib ./self --samples 12 --context 64 --sparsity ffn=0.3 -o out
grep -q "drew" stdout && fail "a folder was taken for drawn text"
rm -r out

check "a time has a part for drawing, the first one, and a forecast tells it"
runs "$grail" compress "$model" --calib "$demo/calibration.txt" --calib self --context 64 --target-ratio 0.9 \
    --time 20s -o out
says "  drawing text  " stderr
(($(grep -n "  drawing text  " stderr | cut -d: -f1) < $(grep -n "  statistics and fits  " stderr | cut -d: -f1))) ||
    fail "drawing is not the first part"
says "of which the network drew" stdout
rm -r out
runs "$grail" compress "${usual[@]}" -o out --dry-run
says "of which drawing them takes" stdout

check "healing draws from the teacher"
runs "$grail" heal first --teacher "$model" --calib self --samples 12 --context 64 --heal-steps 2 \
    -o out
rm -r out

check "what cannot be"
refuses_clean 1 "more than once" "$grail" compress "$model" --calib self --calib self \
    --sparsity 0.3 -o out
refuses_clean 1 "tokens" "$grail" compress "${usual[@]}" --context 1 -o out
refuses_clean 1 "draws no samples" "$grail" compress "$demo/vision/cnn.pth" --calib self \
    --sparsity 0.3 -o out
