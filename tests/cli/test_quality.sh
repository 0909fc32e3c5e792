#!/usr/bin/env bash
# What compress says of the cut that it reached, and with --eval of what the cut and its repair do.
#
# usage: test_quality.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

write_ids ids.npy 16 32 96
write_ids other.npy 16 32 96 2
dense=$golden/llama3
narrow=("$grail" compress "$dense" --calib ids.npy --quiet)

# perplexity MODEL: on other.npy
perplexity() {
    runs "$grail" eval "$1" --data other.npy --json
    field perplexity stdout
}

check "the cut that was reached stands beside the one asked for"
runs "${narrow[@]}" -o first --sparsity 0.5 --align 1
says "cut, of the parameters that these units hold:" stdout
grep -qE '^  ffn +50\.0 % asked, +50\.0 % removed$' stdout || fail "the share of ffn"
grep -qE '^  sites +50\.0 % asked, +[0-9.]+ % removed$' stdout || fail "the share of all sites"
stays=$(sed -n 's/^of the parameters of the whole network .*, \([0-9.]*\) % stay$/\1/p' stdout)
before=$(sed -n 's/^| parameters | \([0-9]*\) |.*/\1/p' first/README.md)
after=$(sed -n 's/^| parameters | [0-9]* | \([0-9]*\) |.*/\1/p' first/README.md)
holds "($stays - 100 * $after / $before)^2 < 0.01"
grep -qE '^  heads +0\.[0-9]{4} -> 0\.[0-9]{4}, mean of 2 sites' stdout || fail "the errors of heads"
grep -q "were asked for" stderr && fail "a warning of a cut as it was asked for"

check "data of another kind are refused before the run, and too few samples are warned of"
refuses 1 "holds no text: no .txt, .jsonl or .jsonl.gz file" "${narrow[@]}" -o wrong --sparsity 0.5 \
    --eval "$demo/vision/test"
refuses 1 "held-out.txt: has" "$grail" compress "$demo/vision/cnn.pth" -o wrong --sparsity 0.5 \
    --calib "$demo/vision/calibration" --quiet --eval "$demo/held-out.txt"
[[ ! -e wrong && ! -e wrong.partial ]] || fail "began a run"
runs "${narrow[@]}" -o few --sparsity 0.5 --samples 2
says "warning: 2 calibration samples of a hundred or more that fits need" stderr

check "a fit that is worse than no fit on other samples is warned of"
runs "${narrow[@]}" -o harmed --sparsity 0.5 --samples 4 --compensate grail
says "the repair is worse than the plain cut on samples that it was not fitted to; too few reach its" stderr
runs "${narrow[@]}" -o judged --sparsity 0.5 --samples 4
! grep -q "worse than the plain cut" stderr || { show; fail "a warning where fits are judged"; }

check "a cut that is far from the one asked for is warned of"
runs "${narrow[@]}" -o out2 --sparsity ffn=0.3 --align 64 --dry-run
says "ffn: 20.0 % of the parameters are removed where 30.0 % were asked for" stderr

check "the plain cut is the network that no repair would leave"
runs "${narrow[@]}" -o plain --sparsity 0.5 --align 1 --selector magnitude-l1 --compensate none
runs "${narrow[@]}" -o repaired --sparsity 0.5 --align 1 --selector magnitude-l1 --compensate grail \
    --eval other.npy --json
mv stdout summary.json
says '"measure": "perplexity"' summary.json
for pair in "dense $dense" "plain plain" "result repaired"; do
    measured=$(field "${pair%% *}" summary.json)
    expected=$(perplexity "${pair#* }")
    holds "($measured - $expected)^2 <= ($expected * 1e-5)^2" ||
        fail "${pair%% *} is $measured, expected $expected"
done

says "On \`other.npy\`:" repaired/README.md
says "| this network | $(printf %.4f "$(field result summary.json)") +- " repaired/README.md
[[ $(grep '^## ' repaired/README.md | paste -sd,) == *"## Quality,## Size,"* ]] || fail "the order of the card"
runs "$grail" inspect repaired

check "folded units have no plain cut"
runs "${narrow[@]}" -o folded --sparsity 0.5 --align 1 --selector fold --eval other.npy
says "plain cut  -  (units were folded into others)" stdout
grep -qE '^  result +perplexity [0-9.]+ \+- [0-9.]+$' stdout || fail "no quality of the result"

check "accuracies of image networks"
for class in "$demo"/vision/test/*; do # of a hundred images thirty
    mkdir -p "test/${class##*/}"
    cp "$class"/00[016]??.jpg "test/${class##*/}"
done
runs "$grail" compress "$demo/vision/cnn.pth" -o cnn --calib "$demo/vision/calibration" --samples 16 \
    --sites conv --sparsity 0.5 --selector magnitude-l1 --compensate grail --quiet \
    --eval test
grep -qE '^  plain cut +top-1 [0-9.]+ % \+- [0-9.]+$' stdout || fail "no accuracy of the plain cut"
runs "$grail" eval cnn --data test --json
top1=$(field top1 stdout)
holds "$top1 > 0.5"

check "data that the network was calibrated on is warned of, and the card says so"
cp ids.npy same.npy
runs "${narrow[@]}" -o seen --sparsity 0.5 --align 1 --eval same.npy
says "grail: warning: --eval: the network was calibrated on this data" stderr
says "Note: the network was calibrated on this data, so it says little about other data." seen/README.md
runs "$grail" eval seen --data same.npy
says "the model was calibrated on this text" stderr
runs "$grail" compress "$demo/vision/cnn.pth" -o seen-cnn --calib test --samples 16 \
    --sparsity 0.5 --selector magnitude-l1 --compensate grail --quiet --eval test --json
says '"calibration_share": 1.0' stdout
images=$(find test -type f -name '*.*' | wc -l)
says "grail: warning: --eval: the network was calibrated on 16 of the $images images" stderr
says "Note: the network was calibrated on 16 of the $images images, so it says less about other images." \
    seen-cnn/README.md
runs "$grail" eval seen-cnn --data test
says "the model was calibrated on 16 of the $images images" stderr
runs "$grail" eval cnn --data test
[[ ! -s stderr ]] || { show; fail "warns of images that were not calibrated on"; }

check "images that were calibrated on are found under other names, among others and twice"
cp -r test mixed
mkdir elsewhere
mv mixed/star/006* elsewhere
taken=("$demo/vision/calibration/"*)
cp "${taken[0]}" mixed/star/copy.jpg
cp "${taken[0]}" mixed/disc/another-copy.jpg
cp "${taken[1]}" mixed/disc/renamed.jpg
all=$(find mixed -name '*.jpg' | wc -l)
runs "$grail" compress "$demo/vision/cnn.pth" -o part --calib "$demo/vision/calibration" \
    --samples ${#taken[@]} --sparsity 0.5 --selector magnitude-l1 --compensate grail --quiet --eval mixed
says "--eval: the network was calibrated on 3 of the $all images, so it says less" stderr
says "calibrated on 3 of the $all images" part/README.md
runs "$grail" heal part --teacher "$demo/vision/cnn.pth" --calib elsewhere --heal-steps 2 -o healed --quiet \
    --eval mixed # what was cut before it was healed saw them
says "--eval: the network was calibrated on 3 of the $all images, so it says less" stderr
for quiet in repaired cnn; do
    ! grep -q "^Note: " $quiet/README.md || fail "a note about other data in $quiet"
done

check "what cannot be measured has no name, and no second computation"
cp -r test damaged # many more images than are tried before the run
third=$(printf '%s\n' damaged/*/* | sed -n 3p)
truncate -s 400 "$third"
cut=("$grail" compress "$demo/vision/cnn.pth" --sparsity conv=0.5 --selector magnitude-l1 --compensate none)
runs "${cut[@]}" -o whole --quiet
refuses 1 "--resume with another --eval, or with none, finishes the run" "${cut[@]}" -o out --quiet \
    --eval damaged
runs "${cut[@]}" -o out --resume --quiet
same_result whole out
rm -r out

check "--windows and --images measure a part, as those of eval do"
runs "${narrow[@]}" -o part-of --sparsity 0.5 --align 1 --selector magnitude-l1 --compensate none --eval other.npy --windows 3 --json
part=$(field result stdout)
runs "$grail" eval part-of --data other.npy --windows 3 --json
holds "($part - $(field perplexity stdout))^2 <= ($part * 1e-5)^2"
runs "$grail" heal part-of --teacher "$dense" --calib ids.npy --heal-steps 1 -o part-healed --quiet --eval other.npy \
    --windows 3 --json
given=$(field narrow stdout)
holds "($part - $given)^2 <= ($part * 1e-5)^2"
runs "${cut[@]}" -o part-cnn --quiet --eval test --images 100 --json
part=$(field result stdout)
runs "$grail" eval part-cnn --data test --images 100 --json
holds "($part - $(field top1 stdout))^2 < 1e-9"

check "what cannot be measured is refused before the work"
write_ids short.npy 2 1 96
refuses 1 "a context of 1 tokens is too short" "${narrow[@]}" -o none --sparsity 0.5 --eval short.npy
refuses 1 "cannot read 'nothing' for --eval" "${narrow[@]}" -o none --sparsity 0.5 --eval nothing
[[ ! -e none && ! -e none.partial ]] || fail "work was begun"
