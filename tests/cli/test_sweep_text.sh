#!/usr/bin/env bash
# grail sweep on language models: what it writes, that cells are what grail compress and grail eval give, that it
# continues after every kind of end, what it refuses, and the page of its results.
#
# usage: test_sweep_text.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

export OMP_NUM_THREADS=2
write_ids calibration.npy 12 32 96
write_ids one.npy 6 32 96 2
write_ids two.npy 5 32 96 3

# recipe FILE LISTS [MODEL [MORE-CHECKPOINTS [MORE-DATA]]]: on a small random decoder, ids of two texts
recipe() {
    cat >"$1" <<JSON
{"checkpoints": [{"name": "lm", "path": "${3:-$golden/llama3}"}${4-}], $2, "samples": [8],
 "calibration": [{"name": "ids", "kind": "text", "path": "calibration.npy"}${5-}],
 "evaluation": [{"name": "one", "kind": "text", "path": "one.npy"},
                {"name": "two", "kind": "text", "path": "two.npy", "windows": 4}${5-}]}
JSON
}

# without_times FILE: the cells of a results file in order, without what differs between runs
without_times() {
    grep '^{"cell"' "$1" | sed 's/"seconds":{[^}]*},"peak_bytes":[0-9]*,//; s/,"crc32":.*//' | sort
}

# perplexity TEXT PATTERN FILE: of the first line that has the pattern
perplexity() {
    grep -- "$2" "$3" | head -n 1 | sed "s/.*\"name\":\"$1\",\"perplexity\":\([0-9.e+]*\).*/\1/"
}

lists='"selectors": ["wanda", "magnitude-l2"], "sparsities": [0.5], "compensate": ["none", "full"], "sites": ["ffn"],
 "outcomes": true, "grids": [{}, {"selectors": ["wanda"], "compensate": ["full"], "target": ["local", "dense"],
 "refit": "none"}, {"selectors": ["wanda"], "compensate": ["full"], "sites": ["ffn", "heads"],
 "limit": "params", "budget": ["uniform", "error"]}, {"selectors": ["obs"], "compensate": ["own"]}]'
recipe r.json "$lists"

check "--dry-run checks and counts"
runs "$grail" sweep r.json -o r.jsonl --dry-run
says "9 cells: 0 done before, 9 to run" stdout

check "a line for every cell, with both texts"
runs "$grail" sweep r.json -o r.jsonl
says "9 cells: 0 done before, 9 run now" stdout
(($(wc -l <r.jsonl) == 11)) || fail "$(wc -l <r.jsonl) lines"
grep -q 'wanda, 50 %, full, 8 samples of ids, seed 0, sites=ffn,heads limit=params budget=error: perplexity [0-9.]* on one, [0-9.]* on two' stderr ||
    { show; fail "no line of progress names the plan"; }
number='[0-9.e+-]*'
on() { echo "{\"name\":\"$1\",\"perplexity\":$number,\"perplexity_error\":$number,\"windows\":$2,\"context\":32,\"data_sha256\":\"[0-9a-f]*\",\"losses\":\[[0-9.,e-]*\]}"; }
(($(grep -c "^{\"cell\":{\"checkpoint\":\"lm\",.*\"loop\":\"closed\",\"calibration\":\"ids\".*},\"evaluations\":\[$(on one 6),$(on two 4)\],\"parameters\"" r.jsonl) == 9)) ||
    { cut -c1-700 r.jsonl; fail "the lines of the cells are wrong"; }
sed -n 2p r.jsonl | grep -q "^{\"dense\":{.*\"architecture\":\"llama\",.*\"evaluations\":\[$(on one 6),$(on two 4)\],\"seconds\"" ||
    fail "the line of the dense network is wrong"
(($(grep -c '"choices":"sites=ffn target=local refit=none"' r.jsonl) == 1)) || fail "no cell says its choices"

check "a cell is what compress and eval give"
runs "$grail" compress "$golden/llama3" -o out --calib calibration.npy --samples 8 --sites ffn --sparsity 0.5 --selector wanda \
    --align 1 --target dense --refit none --precision f32 --quiet
for text in one two; do
    runs "$grail" eval out --data $text.npy --windows $([[ $text == one ]] && echo 6 || echo 4) --precision f32 --json
    holds "($(field perplexity stdout) / $(perplexity $text target=dense r.jsonl) - 1) ^ 2 < 1e-12"
done
rm -rf out

check "a plan is what plan and compress give"
runs "$grail" plan "$golden/llama3" -o plan.json --calib calibration.npy --samples 8 --sites ffn,heads --target-ratio 0.5 --budget error \
    --selector wanda --align 1 --precision f32
runs "$grail" compress "$golden/llama3" -o out --calib calibration.npy --samples 8 --plan plan.json --precision f32 --quiet
runs "$grail" eval out --data one.npy --precision f32 --json
holds "($(field perplexity stdout) / $(perplexity one budget=error r.jsonl) - 1) ^ 2 < 1e-12"
rm -rf out

check "plans that share the losses of the dense network are those of plan alone"
recipe plans.json '"selectors": ["obs"], "sparsities": [0.2, 0.3, 0.4], "compensate": ["full"], "sites": ["ffn", "heads"],
 "limit": "params", "budget": ["error", "divergence"]'
runs "$grail" sweep plans.json -o plans.jsonl
for budget in error divergence; do
    for removed in 2 3 4; do
        rm -f plan.json
        runs "$grail" plan "$golden/llama3" -o plan.json --calib calibration.npy --samples 8 --sites ffn,heads --target-ratio 0.$((10 - removed)) \
            --budget $budget --align 1 --precision f32
        cmp <(grep -o '"kept": [0-9]*' plan.json | tr -d ' ') \
            <(grep "\"sparsity\":0.$removed,.*budget=$budget" plans.jsonl | grep -o '"kept":[0-9]*') || fail "$budget, 0.$removed: other widths"
    done
done

check "no cell took more memory than was estimated for the largest"
runs "$grail" sweep r.json -o r.jsonl --json
says '"found": 9' stdout
estimated=$(field estimated_bytes stdout)
for bytes in $(sed -n 's/.*"peak_bytes":\([0-9]*\).*/\1/p' r.jsonl); do
    ((bytes > 0 && bytes <= estimated)) || fail "$bytes bytes, estimated $estimated"
done

check "the page tells the texts apart, with gains and pairs"
runs "$grail" report r.jsonl -o r.html --tsv tsv
says "of 9 cells and 1 checkpoint" stdout
says '"lm on one"' r.html
says '"lm on two"' r.html
[[ -s tsv/02-accuracy-lm-on-one.tsv ]] || { ls tsv; fail "no table of the first text"; }
ls tsv | grep -q "gain-lm-on-two" || { ls tsv; fail "no gains on the second text"; }
ls tsv | grep -q "sites-lm-on-two" && fail "the sites stand in both texts"

check "results of other data under one name are refused by the report"
sed 's/"grail_results":2/"grail_results":1/; s/,"crc32":"[0-9a-f]*"//' r.jsonl >mixed.jsonl
write_ids one.npy 6 32 96 9
recipe other.json '"selectors": ["random"], "sparsities": [0.5], "compensate": ["none"], "sites": ["ffn"]'
runs "$grail" sweep other.json -o other.jsonl --quiet
sed 's/,"crc32":"[0-9a-f]*"//' other.jsonl | tail -n 1 >>mixed.jsonl
refuses 1 'mixed.jsonl: line 12: "lm on one" was measured on other data, or on other windows of it, than line 2 says' \
    "$grail" report mixed.jsonl -o out
write_ids one.npy 6 32 96 2

check "a decoder and an image network in one recipe"
recipe both.json '"selectors": ["wanda"], "sparsities": [0.5], "compensate": ["none"], "sites": ["ffn", "conv"]' "$golden/llama3" \
    ", {\"name\": \"cnn\", \"path\": \"$demo/vision/cnn.pth\"}" ", {\"name\": \"images\", \"path\": \"$demo/vision/calibration\"}"
sed -i "s|\"evaluation\": |\"outcomes\": false, &|; s|, {\"name\": \"images\", \"path\": \"[^\"]*\"}\]}|, {\"name\": \"test\", \"path\": \"$demo/vision/test\", \"images\": 20}]}|" both.json
runs "$grail" sweep both.json -o both.jsonl --quiet
(($(grep -c '"checkpoint":"cnn".*"name":"test","top1":' both.jsonl) == 2)) || fail "the image network was not measured"
(($(grep -c '"checkpoint":"lm".*"name":"one","perplexity":' both.jsonl) == 2)) || fail "the decoder was not measured"
runs "$grail" report both.jsonl -o both.html
says "of 2 cells and 2 checkpoints" stdout

sed 's/"outcomes": false/"latency": "grail"/' both.json >timed.json
refuses 1 'timed.json: "latency": grail-sweep of the Python package measures it' "$grail" sweep timed.json -o out

check "the cells of one checkpoint of a recipe, and then the others"
sed "s|$demo/vision/cnn.pth|none.pth|" both.json >part.json
refuses 1 'checkpoint "cnn": ' "$grail" sweep part.json -o out
runs "$grail" sweep part.json -o part.jsonl --checkpoints lm
says "1 cells: 0 done before, 1 run now" stdout
(($(wc -l <part.jsonl) == 3)) || fail "$(wc -l <part.jsonl) lines"
ln -s "$demo/vision/cnn.pth" none.pth
runs "$grail" sweep part.json -o part.jsonl
says "2 cells: 1 done before, 1 run now" stdout
rm none.pth
refuses 1 '"lm,vit" names a checkpoint that the recipe does not have, or one twice; it has lm, cnn' \
    "$grail" sweep part.json -o out --checkpoints lm,vit

without_times r.jsonl >expected
check "ended by SIGKILL at several moments, and continued"
for pause in 0.02 0.08 0.2; do
    rm -f s.jsonl
    "$grail" sweep r.json -o s.jsonl --quiet 2>/dev/null >&2 &
    process=$!
    sleep $pause
    kill -KILL $process 2>/dev/null || true
    wait $process 2>/dev/null || true
    runs "$grail" sweep r.json -o s.jsonl --quiet
    cmp expected <(without_times s.jsonl) || fail "the results differ after $pause s"
done
check "every cut of the file continues"
size=$(wc -c <r.jsonl)
for part in 3 5 8; do
    head -c $((size * part / 9)) r.jsonl >s.jsonl
    runs "$grail" sweep r.json -o s.jsonl --quiet
    cmp expected <(without_times s.jsonl) || fail "the results differ"
done
check "a full disk: complete lines stay, and the sweep can be continued"
code=0
rm -f f.jsonl
(ulimit -f 8 && "$grail" sweep r.json -o f.jsonl --quiet) >stdout 2>stderr || code=$?
((code == 1)) || { show; fail "exit code $code"; }
says "f.jsonl" stderr
runs "$grail" sweep r.json -o f.jsonl --quiet
cmp expected <(without_times f.jsonl) || fail "the results differ"
check "two jobs give the same"
rm -f s.jsonl
runs "$grail" sweep r.json -o one.jsonl --quiet --threads 1
runs "$grail" sweep r.json -o s.jsonl --quiet --threads 2 --jobs 2
cmp <(without_times one.jsonl) <(without_times s.jsonl) || fail "the results differ"

check "weights of NaN are an error of the dense network"
copy_model "$golden/llama3" nan
patch_tensor nan/model.safetensors model.layers.0.mlp.down_proj.weight ff ff ff ff
recipe nan.json '"selectors": ["wanda"], "sparsities": [0.5], "compensate": ["none"], "sites": ["ffn"]' "$PWD/nan"
refuses 3 'checkpoint "lm": one: ' "$grail" sweep nan.json -o nan.jsonl
grep -q '"dense"' nan.jsonl && fail "a perplexity of NaN was written"

check "a cell that fails is recorded: a calibration that is too short"
recipe f.json '"selectors": ["magnitude-l2"], "sparsities": [0.5], "compensate": ["none", "full"], "sites": ["ffn"]'
sed -i 's/"samples": \[8\]/"samples": [13]/' f.json
run "$grail" sweep f.json -o f2.jsonl
((code == 1)) || { show; fail "exit code $code"; }
says "1 of 2 cells failed" stderr
grep -q '"compensate":"full".*"error":"[^"]*12' f2.jsonl || { cut -c1-600 f2.jsonl; fail "no error of the samples"; }
runs "$grail" report f2.jsonl -o f2.html
says "1 cells failed" stdout

check "a recipe that cannot be run is refused before anything is written"
recipe bad.json '"selectors": ["magnitude-l2"], "sparsities": [0.5], "compensate": ["own"], "sites": ["ffn"]'
refuses 1 "selector 'magnitude-l2' has no update of its own" "$grail" sweep bad.json -o out
sed 's|"two.npy"|"none.npy"|' r.json >bad.json
refuses 1 'none.npy: cannot open the text: there is no such file' "$grail" sweep bad.json -o out
sed 's|"calibration.npy"|"none.npy"|' r.json >bad.json
refuses 1 'checkpoint "lm": ' "$grail" sweep bad.json -o out
sed 's|"kind": "text", "path": "one.npy"|"path": "one.npy"|' r.json >bad.json
runs "$grail" sweep bad.json -o out --dry-run # the other text is still there
sed 's|"kind": "text", ||g; s|, "windows": 4||' r.json >bad.json
refuses 1 'it reads text, but no evaluation of the recipe does' "$grail" sweep bad.json -o out
sed 's|"name": "ids", "kind": "text"|"name": "ids"|' r.json >bad.json
refuses 1 'none of the calibrations is for checkpoint "lm"; it reads text' "$grail" sweep bad.json -o out
sed 's|"sites": \["ffn"\]|"sites": ["conv"]|' r.json >bad.json
refuses 1 "none of the kinds of sites that the recipe cuts" "$grail" sweep bad.json -o out
sed 's|"refit": "none"|"refits": "none"|' r.json >bad.json
refuses 1 'bad.json: grids[1]: unknown key "refits"' "$grail" sweep bad.json -o out
sed 's|"budget": \[|"budget": [7, |' r.json >bad.json
refuses 1 'bad.json: grids[2]: "budget" is not a string' "$grail" sweep bad.json -o out
