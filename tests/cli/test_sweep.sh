#!/usr/bin/env bash
# grail sweep on the demonstration network: what it writes, that cells are what grail compress and
# grail eval give, that it continues after every kind of end, and what it refuses.
#
# usage: test_sweep.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

vision=$demo/vision
export OMP_NUM_THREADS=2

# recipe FILE LISTS [CALIBRATION [IMAGES]]: on the demonstration network and 100 test images
recipe() {
    cat >"$1" <<END
{"checkpoints": [{"name": "cnn", "path": "$vision/cnn.pth"}], $2,
 "sites": ["conv", "stream"],
 "calibration": {"path": "${3:-$vision/calibration}"},
 "evaluation": {"path": "$vision/test", "images": ${4:-100}}}
END
}

# without_times FILE: the cells of a results file in order, without what differs between runs
without_times() {
    grep '^{"cell"' "$1" | sed 's/"seconds":{[^}]*},"peak_bytes":[0-9]*,//; s/,"crc32":.*//' | sort
}

# value KEY SELECTOR SPARSITY COMPENSATE FILE: of one cell
value() {
    grep "\"selector\":\"$2\",\"sparsity\":$3,\"compensate\":\"$4\"" "$5" | head -n 1 |
        sed "s/.*\"$1\":\\([0-9.]*\\).*/\\1/"
}

# complete_lines FILE
complete_lines() {
    [[ $(tail -c 1 "$1" | od -An -c) == *'\n'* ]] || fail "the last line of $1 is incomplete"
}

lists='"selectors": ["magnitude-l1", "wanda"], "sparsities": [0.3, 0.55],
 "compensate": ["none", "repair", "full"], "samples": [64]'
recipe r.json "$lists"

check "--dry-run checks and counts, and writes nothing"
runs "$grail" sweep r.json -o r.jsonl --dry-run
says "12 cells: 0 done before, 12 to run" stdout
[[ ! -e r.jsonl ]] || fail "wrote the results"

check "a line for the recipe, the dense network and every cell"
runs "$grail" sweep r.json -o r.jsonl
says "12 cells: 0 done before, 12 run now" stdout
(($(grep -cv '^grail: note:' stderr) == 12)) || { show; fail "not one line of progress for every cell"; }
says "nothing says how images are prepared for this resnet network; assumed is the preset cifar" stderr
says "12/12 cnn, wanda, 55 %, full, 64 samples, seed 0: top-1" stderr
(($(wc -l <r.jsonl) == 14)) || fail "$(wc -l <r.jsonl) lines"
[[ $(head -n 1 r.jsonl) == '{"grail_results":2,"recipe":{"checkpoints":['* ]] || fail "the header is wrong"
number='[0-9.e+-]*'
accuracy="\"top1\":$number,\"top5\":$number,\"interval\":$number,\"images\":100"
sed -n 2p r.jsonl | grep -q "^{\"dense\":{\"checkpoint\":\"cnn\",\"path\":\"$vision/cnn.pth\",\
\"architecture\":\"resnet\",\"parameters\":[0-9]*,\"macs\":[0-9]*,$accuracy,\"seconds\":{\"evaluate\":$number}},\"crc32\":\"[0-9a-f]*\"}\$" ||
    fail "the line of the dense network is wrong: $(sed -n 2p r.jsonl)"
(($(grep -c "^{\"cell\":{\"checkpoint\":\"cnn\",\"selector\":\"[a-z0-9-]*\",\"sparsity\":0\.[35]*,\
\"compensate\":\"[a-z]*\",\"repair\":[a-z]*,\"samples\":64,\"seed\":0,\"loop\":\"closed\"},\
$accuracy,\"parameters\":[0-9]*,\"macs\":[0-9]*,\"seconds\":{\"calibrate\":$number,\
\"compensate\":$number,\"evaluate\":$number,\"total\":$number},\"peak_bytes\":[0-9]*,\
\"sites\":\[{\"name\":\"layer1" r.jsonl) == 12)) ||
    { cut -c1-500 r.jsonl; fail "the lines of the cells are wrong"; }
if command -v python3 >/dev/null; then
    python3 -c 'import json; [json.loads(line) for line in open("r.jsonl")]' || fail "not JSON"
fi

check "repair recovers accuracy that the cut lost"
for selector in magnitude-l1 wanda; do
    cut=$(value top1 $selector 0.55 none r.jsonl)
    holds "$(value top1 $selector 0.55 full r.jsonl) > $cut + 0.1"
    more=$(value parameters $selector 0.3 full r.jsonl)
    holds "$(value parameters $selector 0.55 full r.jsonl) < $more"
done

check "a cell is what compress and eval give"
for repair in none full; do
    rm -rf out
    runs "$grail" compress "$vision/cnn.pth" -o out --calib "$vision/calibration" --samples 64 \
        --sites conv,stream --sparsity 0.55 --selector wanda --align 1 --compensate $repair --quiet
    runs "$grail" eval out --data "$vision/test" --images 100 --json
    holds "$(field top1 stdout) == $(value top1 wanda 0.55 $repair r.jsonl)"
done
rm -rf out

if command -v python3 >/dev/null; then
    check "the command on the page makes the cell that it stands for"
    # a worse dense network, so that a cut qualifies
    sed 's/"grail_results":2/"grail_results":1/; s/,"crc32":"[0-9a-f]*"//; s/\("dense":.*"top1":\)[0-9.]*/\10.3/' \
        r.jsonl >low.jsonl
    runs "$grail" report low.jsonl -o page.html
    python3 - page.html >command <<'END'
import json, re, sys
page = open(sys.argv[1]).read()
data = json.loads(re.search('<script id="data" type="application/json">(.*?)</script>', page, re.S)[1])
print(data["networks"][0]["decisions"][0]["command"])
END
    grep -q "^grail compress .*cnn.pth -o narrow .* --sparsity 0.55 " command || { cat command; fail "another cut"; }
    selector=$(sed -n 's/.*--selector \([a-z0-9-]*\).*/\1/p' command)
    eval "runs \"\$grail\" $(sed 's/^grail //' command) --quiet"
    runs "$grail" eval narrow --data "$vision/test" --images 100 --json
    holds "$(field top1 stdout) == $(value top1 "$selector" 0.55 full r.jsonl)"
fi

check "a cell does not depend on those that ran before it"
recipe both.json '"selectors": ["obs"], "sparsities": [0.3], "compensate": ["none", "full"], "samples": [32]'
recipe alone.json '"selectors": ["obs"], "sparsities": [0.3], "compensate": ["full"], "samples": [32]'
for name in both alone; do
    runs "$grail" sweep $name.json -o $name.jsonl --quiet
    grep '"compensate":"full".*"top1":' $name.jsonl | sed 's/.*"sites"://; s/,"crc32".*//' >$name.sites
done
[[ -s both.sites ]] || fail "no sites"
cmp both.sites alone.sites || fail "the fits differ"

check "healed cells: what they record, and that they are what compress and eval give"
recipe h.json '"selectors": ["wanda"], "sparsities": [0.55], "compensate": ["full"], "samples": [32],
 "heal": ["none", "block,model"], "heal_steps": 4, "heal_rate": 0.01'
runs "$grail" sweep h.json -o h.jsonl --json
says '"failed": 0' stdout
estimated=$(field estimated_bytes stdout)
says "2/2 cnn, wanda, 55 %, full + heal block,model, 32 samples, seed 0: top-1" stderr
(($(grep -c '"heal' <(grep '^{"cell"' h.jsonl)) == 1)) || fail "not one of two cells is healed"
training="\"steps\":[0-4],\"held_loss_before\":$number,\"held_loss_after\":$number,\"seconds\":$number}"
grep -q "^{\"cell\":{.*\"repair\":false,\"heal\":\"block,model\",.*\"total\":$number,\"heal\":$number},\
\"peak_bytes\":[0-9]*,\"healed\":\[{\"block\":0,$training,.*,{\"block\":null,$training\],\"sites\":" h.jsonl ||
    { cut -c1-900 h.jsonl; fail "the line of the healed cell is wrong"; }
healed() { grep '"heal":"block,model"' h.jsonl | sed "s/.*\"$1\":\([0-9.e-]*\).*/\1/"; }
bytes=$(healed peak_bytes)
((bytes > 0 && bytes <= estimated)) || fail "$bytes bytes, estimated $estimated"
runs "$grail" compress "$vision/cnn.pth" -o out --calib "$vision/calibration" --samples 32 \
    --sites conv,stream --sparsity 0.55 --selector wanda --align 1 --heal block,model \
    --heal-steps 4 --heal-rate 0.01 --quiet
# the last training of the run is that of the network
loss=$(tr -d ' \n' <out/report.json | sed 's/.*"held_loss_after":\([0-9.e-]*\).*/\1/')
holds "($loss - $(healed held_loss_after)) ^ 2 < 1e-12"
runs "$grail" eval out --data "$vision/test" --images 100 --json
holds "$(field top1 stdout) == $(healed top1)"
rm -rf out
runs "$grail" sweep h.json -o h.jsonl
says "2 cells: 2 done before, 0 run now" stdout
runs "$grail" report h.jsonl -o h.html
says '"full + heal block,model"' h.html

check "all cells are there: nothing is run"
cp r.jsonl before
runs "$grail" sweep r.json -o r.jsonl --json
says '"found": 12' stdout
says '"done": 0' stdout
cmp before r.jsonl
check "no cell took more memory than was estimated for the largest"
estimated=$(field estimated_bytes stdout)
for bytes in $(sed -n 's/.*"peak_bytes":\([0-9]*\).*/\1/p' r.jsonl); do
    ((bytes > 0 && bytes <= estimated)) || fail "$bytes bytes, estimated $estimated"
done

# From here on: how sweeps end and continue, with two thirds of the cells on a few images each.
lists=${lists/\[64\]/[8]}
recipe r.json "${lists/ \"repair\",/}" "$vision/calibration" 20
rm r.jsonl
runs "$grail" sweep r.json -o r.jsonl --json
estimated=$(field estimated_bytes stdout)
cp r.jsonl before

check "cells that are missing, and one that was cut short"
without_times r.jsonl >expected
{
    sed '5d; 7d; $d' before
    tail -n 1 before | head -c 100
} >r.jsonl
runs "$grail" sweep r.json -o r.jsonl --dry-run
says "8 cells: 5 done before, 3 to run" stdout
runs "$grail" sweep r.json -o r.jsonl
says "8 cells: 5 done before, 3 run now" stdout
cmp <(head -n 7 r.jsonl) <(sed '5d; 7d; $d' before) || fail "earlier lines were changed"
cmp expected <(without_times r.jsonl) || fail "the results differ"

# ends_early SIGNAL: a sweep that is sent the signal after its second cell
ends_early() {
    rm -f s.jsonl
    # a shell without job control lets its background commands ignore SIGINT
    env --default-signal=INT "$grail" sweep r.json -o s.jsonl --quiet 2>stderr >stdout &
    local process=$!
    until [[ -e s.jsonl ]] && (($(wc -l <s.jsonl) >= 4)); do
        sleep 0.02
        kill -0 $process 2>/dev/null || break
    done
    kill "-$1" $process 2>/dev/null || true
    code=0
    wait $process || code=$?
}
for signal in INT TERM KILL; do
    check "ended by SIG$signal, and continued"
    ends_early $signal
    ((code == 128 + $(kill -l $signal))) || { show; fail "exit code $code"; }
    if [[ $signal != KILL ]]; then
        says "cells are in 's.jsonl'; continue the sweep with:" stderr
        complete_lines s.jsonl
    fi
    runs "$grail" sweep r.json -o s.jsonl --quiet
    cmp expected <(without_times s.jsonl) || fail "the results differ"
done

check "two jobs give the results of one with as many threads for each cell"
runs "$grail" sweep r.json -o one.jsonl --quiet --threads 1
runs "$grail" sweep r.json -o two.jsonl --quiet --threads 2 --jobs 2
cmp <(without_times one.jsonl) <(without_times two.jsonl) || fail "the results differ"
check "with memory for one cell, the cells run one after another"
rm two.jsonl
runs "$grail" sweep r.json -o two.jsonl --quiet --threads 2 --jobs 2 --memory $((estimated + 1))
cmp <(without_times one.jsonl) <(without_times two.jsonl) || fail "the results differ"

check "an open loop, further seeds where chance plays, and grids"
recipe o.json '"selectors": ["magnitude-l2", "random", "fold"], "sparsities": [0.5],
 "compensate": ["none", "grail"], "samples": [32], "seeds": [3, 4], "loop": "open",
 "grids": [{}, {"selectors": ["magnitude-l2"], "samples": [8, 32]}]'
runs "$grail" sweep o.json -o o.jsonl
says "12 cells: 0 done before, 12 run now" stdout # 2 + 4 + 4, and 2 with 8 samples
(($(grep -c '"seed":4,"loop":"open"' o.jsonl) == 4)) || fail "random and fold were not run with all seeds"
cut=$(value top1 magnitude-l2 0.5 none o.jsonl)
holds "$(value top1 magnitude-l2 0.5 grail o.jsonl) > $cut"

check "a cell that fails is recorded, and the sweep goes on"
mkdir damaged
cp "$vision"/calibration/0000[0-7].jpg damaged
head -c 300 "$vision/calibration/00003.jpg" >damaged/00003.jpg
recipe d.json '"selectors": ["magnitude-l1"], "sparsities": [0.3], "compensate": ["grail", "none"],
 "samples": [8]' "$PWD/damaged"
run "$grail" sweep d.json -o d.jsonl
((code == 1)) || { show; fail "exit code $code"; }
says "2 cells: 0 done before, 2 run now" stdout
says "1 of them failed" stdout
says "1 of 2 cells failed; 'd.jsonl' has the reasons, and the same command runs these cells again" stderr
grep -q '"compensate":"none".*"top1":' d.jsonl || fail "the cell that needs no images has no result"
grep -q '"compensate":"grail".*},"error":"[^"]*00003.jpg' d.jsonl || fail "the cell that needs images has no error"
check "the failed cell is run again when the sweep continues"
cp "$vision/calibration/00003.jpg" damaged
runs "$grail" sweep d.json -o d.jsonl
says "2 cells: 1 done before, 1 run now" stdout
tail -n 1 d.jsonl | grep -q '"compensate":"grail".*"top1":' || fail "the failed cell has no result"
runs "$grail" sweep d.json -o d.jsonl
says "2 cells: 2 done before, 0 run now" stdout

check "a full disk: complete lines stay, and the sweep can be continued"
code=0
(ulimit -f 8 && "$grail" sweep r.json -o f.jsonl --quiet) >stdout 2>stderr || code=$?
((code == 1)) || { show; fail "exit code $code"; }
says "f.jsonl" stderr
(($(wc -l <f.jsonl) > 2)) || fail "nothing was written"
complete_lines f.jsonl
runs "$grail" sweep r.json -o f.jsonl --quiet
cmp expected <(without_times f.jsonl) || fail "the results differ"

check "results of another recipe, and files of something else, are left alone"
recipe other.json '"selectors": ["wanda"], "sparsities": [0.3], "compensate": ["none"]'
cp r.jsonl before
refuses 1 'holds results of another recipe ("selectors" differs)' \
    "$grail" sweep other.json -o r.jsonl
cmp before r.jsonl
printf 'precious' >precious
refuses 1 "precious: not results of a sweep" "$grail" sweep r.json -o precious
[[ $(cat precious) == precious ]] || fail "the existing file was changed"

check "a recipe that cannot be run is refused before anything is written"
refuses 2 "grail sweep: give --output FILE; see" "$grail" sweep r.json
refuses 2 "--jobs takes an integer from 1 to 1024" "$grail" sweep r.json -o out --jobs 0
refuses 1 "'no.gguf': a file of results, in JSON lines, is written; give a name that ends in .jsonl" "$grail" sweep r.json -o no.gguf
refuses 1 "no-such.json" "$grail" sweep no-such.json -o out
refuses 1 "but only 1048576 are allowed" "$grail" sweep r.json -o out --memory 1M
recipe bad.json '"selectors": ["finest"], "sparsities": [0.3], "compensate": ["none"]'
refuses 1 "bad.json: selectors[0]: unknown selector 'finest'" "$grail" sweep bad.json -o out
recipe bad.json '"selectors": ["wanda"], "sparsities": [0.3], "compensate": ["none"],
 "samples": [129]'
refuses 1 "129 samples were requested" "$grail" sweep bad.json -o out
recipe bad.json '"selectors": ["wanda"], "sparsities": [0.3], "compensate": ["none"], "heal": ["head"]'
refuses 1 "bad.json: heal[0]: expected one of none, block, model, block,model" \
    "$grail" sweep bad.json -o out
sed 's|cnn.pth|none.pth|' r.json >bad.json
refuses 1 'checkpoint "cnn": ' "$grail" sweep bad.json -o out
sed 's|"conv", "stream"|"heads"|' r.json >bad.json
refuses 1 "none of the kinds of sites that the recipe cuts" "$grail" sweep bad.json -o out
sed "s|$vision/cnn.pth|$golden/llama3|" r.json >bad.json
refuses 1 "it reads text, but no evaluation of the recipe does" "$grail" sweep bad.json -o out
sed 's|"images": 20|"images": 100000|' r.json >bad.json
refuses 1 "100000 images were requested" "$grail" sweep bad.json -o out

check "relative paths begin at the recipe"
mkdir -p elsewhere/recipes
ln -s "$vision" elsewhere/vision
sed "s|$vision|../vision|" r.json >elsewhere/recipes/r.json
runs "$grail" sweep elsewhere/recipes/r.json -o out --dry-run
