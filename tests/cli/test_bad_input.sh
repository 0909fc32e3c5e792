#!/usr/bin/env bash
# Texts, options, plans and outputs that cannot be used: refused in one line that says what is wrong
# and what would be right, before anything is written.
#
# usage: test_bad_input.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

write_ids ids.npy 8 16 96
tiny=$golden/llama3

# text TEXT OPTIONS...: of the demonstration model, which has a tokenizer
text() {
    local said=$1
    shift
    refuses_clean 1 "$said" "$grail" compress "$demo/model" -o out --sparsity 0.5 --context 64 "$@"
}

check "texts that hold nothing, or not enough"
: >empty.txt
text "empty.txt: is empty" --calib empty.txt
printf '  \n\n' >blank.txt
text "blank.txt: holds no text" --calib blank.txt
echo hello >tiny.txt
text "tiny.txt: the text holds 5 tokens, fewer than one window of 64; give more text or a smaller context (--calib, --context)" --calib tiny.txt
text "5000 samples were requested, but the text holds only 391 windows of 64 tokens; give more text, fewer samples or a smaller context (--calib, --samples, --context)" \
    --calib "$demo/held-out.txt" --samples 5000
text "a context of 300 tokens is longer than the model's 256 positions; give a smaller one (--context)" --calib "$demo/held-out.txt" --context 300
text "a context of 1 tokens is too short; it must be at least 2" --calib "$demo/held-out.txt" --context 1
check "texts that are not what their name says"
printf 'hello \xff\xfe world' >latin.txt
text "latin.txt: is not UTF-8 at byte 6 (0xff)" --calib latin.txt
echo hello >text.md
text "text.md: has no known ending; expected .txt, .jsonl, .jsonl.gz or .npy" --calib text.md
text "cannot open 'nothing.txt'" --calib nothing.txt
printf 'PAR1' >rows.parquet
text "rows.parquet: Parquet files are not read; write JSON lines in Python, datasets.Dataset.from_parquet(PATH).to_json(\"texts.jsonl\"), or give Samples.dataset of the Python package the data set" \
    --calib rows.parquet
mkdir folder.txt
text "the folder 'folder.txt' holds no text: no .txt, .jsonl or .jsonl.gz file" --calib folder.txt
printf '{"text": "a b c"}\n{"text": "a"\n' >broken.jsonl
text "broken.jsonl: line 2: document: not valid JSON" --calib broken.jsonl
printf '{"text": "a b c"}\n\n{"body": "a"}\n' >other.jsonl
text "other.jsonl: line 3: has no string field \"text\"; choose one of its string fields: \"body\" (--field)" --calib other.jsonl
text "other.jsonl: line 1: has no string field \"body\"" --calib other.jsonl --field body
printf '{"text": "a"}\n{"messages": [{"role": "user", "content": "a"}]}\n' >chat.jsonl
text "chat.jsonl: line 2: \"messages\" is a conversation, which a chat template has to write, and the model has none that is read here; give the token ids that apply_chat_template of transformers makes as .npy, or JSON lines of its texts" \
    --calib chat.jsonl
tr -d '"' <"$demo/held-out.txt" | awk '{ printf "{\"text\": \"%s\"}\n", $0 }' | gzip |
    head -c 3000 >short.jsonl.gz
text "short.jsonl.gz: the compressed data end early: truncated?" --calib short.jsonl.gz
check "several texts"
text "the shares of the texts add up to 0.5, expected 1 (--calib)" --calib "$demo/held-out.txt=0.5"
text "the shares of the texts add up to 1, expected less than 1, so that the others have some (--calib)" \
    --calib "$demo/held-out.txt=1" --calib "$demo/calibration.txt"
text "no window of '$demo/held-out.txt'; take more samples, a larger share, or leave the text out (--calib, --samples)" \
    --calib "$demo/held-out.txt=0.01" --calib "$demo/calibration.txt" --samples 8
refuses 2 "--calib takes PATH or PATH=SHARE with a share above 0 and at most 1, not 'a.txt=2'" \
    "$grail" compress "$demo/model" --sparsity 0.5 --calib a.txt=2 -o out
check "token ids"
write_ids large.npy 8 64 2000
text "large.npy: token 1 has id 913, outside the model's vocabulary of 512" --calib large.npy
head -c 100 ids.npy >short.npy
text "short.npy: the header ends at byte 128, but the file has 100 bytes: truncated?" --calib short.npy
echo text >text.npy
text "text.npy: is not an .npy file" --calib text.npy
check "a text for a model without a tokenizer"
refuses_clean 1 "has neither tokenizer.json nor vocab.json with merges.txt" "$grail" compress "$tiny" -o out \
    --sparsity 0.5 --calib "$demo/held-out.txt"
check "no text where one is needed"
refuses_clean 1 "selector 'obs' with this compensation needs calibration text (--calib)" \
    "$grail" compress "$demo/model" -o out --sparsity 0.5

# option CODE TEXT OPTIONS...: of a tiny model
option() {
    local code=$1 said=$2
    shift 2
    refuses_clean "$code" "$said" "$grail" compress "$tiny" -o out --calib ids.npy "$@"
}

check "sparsities"
for sparsity in -0.1 1 1.5 inf heads=2 ffn=0.5,heads=-1; do
    option 1 "is outside [0, 1)" --sparsity $sparsity
done
for sparsity in nan junk "" 0.3x ffn ffn= ffn=x ffn=nan ffn=0.3, ,ffn=0.3; do
    option 2 "; give a fraction such as 0.3, or ffn=0.3,heads=0.2" --sparsity "$sparsity"
done
option 1 "site 'model.layers.0.self_attn.o_proj' would lose all of its 4 units" \
    --sparsity heads=0.9999999999
option 2 "cannot read --sparsity '0,5'" --sparsity 0,5
option 2 "--sparsity names 'ffn' twice" --sparsity ffn=0.5,heads=0.2,ffn=0.3
option 1 "no site of the requested kinds; it has ffn, heads: ask for one of these" --sparsity 0.3 --sites conv,stream
option 2 "--sites needs one number for --sparsity, but 'ffn=0.3' names kinds or sites itself" --sparsity ffn=0.3 \
    --sites ffn
option 1 "'foo' is neither a site of this model nor a kind of site" --sparsity foo=0.3
option 1 "'model.layers.9.mlp.down_proj' is neither a site" --sparsity model.layers.9.mlp.down_proj=0.3
for sites in foo "" ffn,; do
    option 2 "takes ffn, heads, conv, stream, experts, latent, values or groups, not" --sparsity 0.3 --sites "$sites"
done
option 2 "give exactly one of --sparsity, --plan and a limit"
option 2 "give exactly one of --sparsity, --plan and a limit" --sparsity 0.3 --plan plan.json

check "a line says of each kind that rounding misses what was asked for, and what mends it"
runs "$grail" compress "$tiny" -o out --calib ids.npy --sparsity 0.3 --align 256 --dry-run
says "grail: warning: ffn: 0.0 % of the parameters are removed where 30.0 % were asked for, such as 0 of 80 units in model.layers.0.mlp.down_proj: widths are multiples of --align; lower it" stderr
says "grail: warning: heads: 25.0 % of the parameters are removed where 30.0 % were asked for, such as 1 of 4 units in model.layers.0.self_attn.o_proj: groups of heads go as whole units" stderr
runs "$grail" compress "$tiny" -o out --calib ids.npy --sparsity 0.01 --sites heads --align 1 --dry-run
says "heads: 0.0 % of the parameters are removed where 1.0 % were asked for, such as 0 of 4 units" stderr
runs "$grail" compress "$tiny" -o out --calib ids.npy --sparsity 0.3 --dry-run
grep -qE '^  ffn +56 of 80 units kept' stdout || { show; fail "the ffn lost what heads could not"; }
says "heads: 25.0 %" stderr
! grep -q "warning: ffn" stderr || { show; fail "a warning of a kind that lost what was asked for"; }
runs "$grail" compress "$tiny" -o out --calib ids.npy --sparsity 0.5 --align 1 --dry-run
[[ ! -s stderr ]] || { show; fail "printed a warning that does not apply"; }

check "a warning names a kind that the options name and the model lacks"
for words in "--sparsity 0.3 --sites ffn,conv" "--sparsity ffn=0.3,conv=0.5"; do
    runs "$grail" compress "$tiny" -o out --calib ids.npy $words --dry-run
    says "grail: warning: the model has no sites of kind conv" stderr
done
runs "$grail" compress "$demo/vision/cnn.pth" -o out --sparsity 0.5 --dry-run
[[ ! -s stderr ]] || { show; fail "printed a warning that does not apply"; }

check "unknown names are refused, with the known ones"
option 1 "random, magnitude-l1, magnitude-l2, wanda, fold, random-fold" --sparsity 0.3 --selector foo
option 1 "unknown compensation 'foo'; expected one of none, own, grail, full" --sparsity 0.3 --compensate foo
option 1 "selector 'wanda' has no update of its own; choose none, grail or full; these selectors have one: " \
    --sparsity 0.3 --selector wanda --compensate own
option 1 "no parameter of the checkpoint can take a fitted bias, and stock loaders would not read a new one; use the compensation none, grail or full, since this one fits nothing but a bias (--compensate)" \
    --sparsity 0.3 --selector flap --compensate own
option 1 "unknown target 'foo'; expected one of local, dense" --sparsity 0.3 --target foo
option 1 "unknown bias mode 'foo'; expected one of off, on, auto" --sparsity 0.3 --bias foo
option 1 "unknown ridge 'foo'; expected one of zero, prior" --sparsity 0.3 --ridge foo
option 1 "unknown ridge scale 'foo'; expected one of mean, diagonal" --sparsity 0.3 --ridge-scale foo
option 1 "unknown token weights 'foo'; expected one of none, stream" --sparsity 0.3 --token-weights foo
option 1 "unknown backend 'foo'; expected one of cpu, ref" --sparsity 0.3 --backend foo
option 1 "unknown protocol 'foo'; expected one of plain, lines, wikitext2, ptb, c4" --sparsity 0.3 --protocol foo
option 2 "--gqa takes kv-groups or query-per-group, not 'foo'" --sparsity 0.3 --gqa foo
option 2 "--loop takes closed or open, not 'foo'" --sparsity 0.3 --loop foo
check "options without effect on this kind of network are refused"
for words in "--preset cifar" "--split test" "--size 32" "--mean 0,0,0" "--std 1,1,1" \
    "--conv-fit kernel" "--stream-score all" --repair; do
    option 2 "reads text; --preset, --split, --size, --mean, --std, --images, --conv-fit, --stream-score" \
        --sparsity 0.3 $words
done
for words in "--field text" "--protocol plain" "--context 32" --window-bos "--gqa kv-groups"; do
    refuses_clean 2 "reads images; --field, --protocol, --context, --window-bos, --gqa and --windows apply only to text" \
        "$grail" compress "$demo/vision/cnn.pth" -o out --calib "$demo/vision/calibration" \
        --sparsity 0.3 $words
done
refuses_clean 2 "--context has no effect without --ids" "$grail" logits "$tiny" --pixels x -o out --context 3
check "numbers out of range"
for align in 0 -1 x 99999999999999999999; do
    option 2 "--align takes auto or an integer of at least 1, not '$align'" --sparsity 0.3 --align $align
done
for alpha in foo -1 nan inf; do
    option 2 "--alpha takes cv or a number of at least 0, not '$alpha'" --sparsity 0.3 --alpha $alpha
done
option 2 "--threads takes an integer from 1 to 1024, not '100000'" --sparsity 0.3 --threads 100000
option 2 "--threads takes an integer from 1 to 1024, not '0'" --sparsity 0.3 --threads 0
option 2 "--memory takes a number of bytes above 0, such as 500M, not '0'" --sparsity 0.3 --memory 0
option 2 "--samples takes an integer of at least 1, not '0'" --sparsity 0.3 --samples 0
option 2 "--samples takes an integer of at least 1, not 'x'" --sparsity 0.3 --samples x
option 2 "--seed takes an integer of at least 0, not '-1'" --sparsity 0.3 --seed -1
option 2 "--memory takes a number of bytes above 0, such as 500M, not '5X'" --sparsity 0.3 --memory 5X
check "options that this model does not support"
option 1 "no parameter of the checkpoint can take a fitted bias" --sparsity 0.3 --bias on
option 1 "folding needs complete KV groups" --sparsity 0.5 --selector fold --gqa query-per-group

# plan TEXT DOCUMENT
plan() {
    echo "$2" >plan.json
    option 1 "$1" --plan plan.json
}
check "plans"
rm -f plan.json
option 1 "cannot open 'plan.json'" --plan plan.json
plan "plan.json: not valid JSON" '{'
plan "plan.json: not a JSON object" '[]'
plan "plan.json: not a plan, expected \"grail_plan\": 1" '{}'
plan "plan.json: \"grail_plan\" is 2, expected 1" '{"grail_plan": 2}'
plan "plan.json: \"sites\" is not an array" '{"grail_plan": 1}'
site=model.layers.0.mlp.down_proj
plan "plan.json: 'x' is not a site of this model" \
    '{"grail_plan": 1, "sites": [{"site": "x", "kept": 3}]}'
plan "plan.json: site '$site' keeps -1 units, expected 1 to 80" \
    "{\"grail_plan\": 1, \"sites\": [{\"site\": \"$site\", \"kept\": -1}]}"
plan "plan.json: site '$site' has 80 units in this model, but the plan says 90" \
    "{\"grail_plan\": 1, \"sites\": [{\"site\": \"$site\", \"kept\": 40, \"units\": 90}]}"
plan "plan.json: site '$site' has no \"kept\"; give the number of units to keep" \
    "{\"grail_plan\": 1, \"sites\": [{\"site\": \"$site\"}]}"
plan "plan.json: sites[0]: unknown key \"keep\"; the known keys are site, kind, selector, units, kept" \
    "{\"grail_plan\": 1, \"sites\": [{\"site\": \"$site\", \"keep\": 40}]}"
plan "plan.json: unknown key \"repare\"; the known keys are gqa, seed, loop, select, stream_score, metric, repair," \
    '{"grail_plan": 1, "repare": true, "sites": []}'
plan "plan.json: compensation: unknown key \"lambda\"; the known keys are enabled, target, bias, conv_fit," \
    '{"grail_plan": 1, "compensation": {"lambda": 1}, "sites": []}'
plan "plan.json: unknown selector 'finest'" \
    "{\"grail_plan\": 1, \"sites\": [{\"site\": \"$site\", \"kept\": 40, \"selector\": \"finest\"}]}"
plan "plan.json: site '$site' appears twice in \"sites\"" \
    "{\"grail_plan\": 1, \"sites\": [{\"site\": \"$site\", \"kept\": 40}, {\"site\": \"$site\", \"kept\": 8}]}"
plan "plan.json: site '$site': \"kept_units\" names 2 units, but \"kept\" is 40; make them agree" \
    "{\"grail_plan\": 1, \"sites\": [{\"site\": \"$site\", \"kept\": 40, \"kept_units\": [0, 1]}]}"
plan "plan.json: site '$site': \"kept_units\"[1] is 3 after 8; sort the units, each once" \
    "{\"grail_plan\": 1, \"sites\": [{\"site\": \"$site\", \"kept_units\": [8, 3]}]}"
plan "\"kept_units\" keeps 2 of the units 0 to 1, expected 1: as many of each of the 4 groups" '{"grail_plan": 1,
    "gqa": "query-per-group", "sites": [{"site": "model.layers.0.self_attn.o_proj",
    "kept_units": [0, 1, 4, 6]}]}'
plan "plan.json: \"gqa\" is \"x\", expected one of kv-groups, query-per-group" '{"grail_plan": 1, "gqa": "x", "sites": []}'
plan "keeps 3 units, expected a multiple of its 4 groups" '{"grail_plan": 1,
    "gqa": "query-per-group", "sites": [{"site": "model.layers.0.self_attn.o_proj", "kept": 3}]}'

check "options that a plan states itself"
# stated JSON KEY OPTION...: the plan of one site has JSON, whose KEY goes before the option
stated() {
    echo "{\"grail_plan\": 1, $1}" >plan.json
    option 1 "plan.json: \"$2\" is stated, and a plan goes before options; leave the option out, or take the key out of the plan (${*:3:1})" \
        --plan plan.json "${@:3}"
}
sites="\"sites\": [{\"site\": \"$site\", \"kept\": 40}]"
stated "${sites/\}/, \"selector\": \"wanda\"\}}" sites.selector --selector obs
stated "\"gqa\": \"kv-groups\", $sites" gqa --gqa kv-groups
stated "\"loop\": \"open\", $sites" loop --loop closed
stated "\"select\": \"closed\", $sites" select --select open
for words in "enabled true compensate" "target \"local\" target" "bias \"off\" bias" "ridge \"zero\" ridge" \
    "refit \"none\" refit" "ridge_scale \"mean\" ridge-scale" "token_weights \"none\" token-weights" "alpha 0.1 alpha"; do
    read -r key value name <<<"$words"
    word=${value//\"/}
    [[ $name == compensate ]] && word=grail
    stated "\"compensation\": {\"$key\": $value}, $sites" "compensation.$key" "--$name" "$word"
    [[ $name == compensate ]] ||
        stated "\"compensation\": {\"enabled\": false}, $sites" compensation.enabled "--$name" "$word"
done
cat >plan.json <<<"{\"grail_plan\": 1, \"seed\": 1, \"gqa\": null, \"compensation\": {\"ridge\": \"prior\"}, $sites}"
runs "$grail" compress "$tiny" -o out --calib ids.npy --plan plan.json --selector wanda --gqa kv-groups --loop open \
    --compensate grail --alpha 0.1 --seed 2 --dry-run
cat >plan.json <<<'{"grail_plan": 1, "repair": false, "stream_score": "all", "compensation": {"conv_fit": "channel"}, "sites": []}'
for option in --repair "--stream-score first" "--conv-fit kernel"; do
    refuses_clean 1 "and a plan goes before options; leave the option out, or take the key out of the plan (${option% *})" \
        "$grail" compress "$demo/vision/cnn.pth" -o out --plan plan.json $option
done

check "outputs"
refuses 2 "grail compress: give --output DIR; see grail compress --help" "$grail" compress "$tiny" --calib ids.npy \
    --sparsity 0.3
option 2 "no value follows '-o'; give --output DIR; see grail compress --help" --sparsity 0.3 -o
option 1 "no output directory was given" --sparsity 0.3 -o ""
mkdir there
for output in there there/ there//; do
    refuses_clean 1 "'there' exists already; choose another output or delete it" \
        "$grail" compress "$tiny" -o $output --calib ids.npy --sparsity 0.3
done
for output in narrow.gguf narrow.safetensors narrow.onnx/ narrow.PTH narrow.bin; do
    refuses_clean 1 "a directory, with plan.json and report.json beside the weights (grail export makes a file of it), is written; give a name without ." "$grail" compress "$tiny" -o $output --calib ids.npy --sparsity 0.3
done
copy_model "$tiny" model
for output in model/out model/../model/out ./model//out; do
    refuses_clean 1 "lies inside the model 'model'" "$grail" compress model -o $output \
        --calib ids.npy --sparsity 0.3
done
[[ $(ls model) == $(ls "$tiny") ]] || fail "something was written into the model"
refuses_clean 1 "cannot find the output's parent directory 'no/where'" "$grail" compress "$tiny" \
    -o no/where/out --calib ids.npy --sparsity 0.3
refuses_clean 1 "Not a directory" "$grail" compress "$tiny" -o ids.npy/out --calib ids.npy \
    --sparsity 0.3
echo mine >out.partial
refuses 1 "'out.partial' is not a directory, and the run needs a directory of this name; delete it" "$grail" compress "$tiny" -o out \
    --calib ids.npy --sparsity 0.3 --resume
[[ $(cat out.partial) == mine ]] || fail "out.partial was touched"
rm out.partial
mkdir out.partial
echo mine >out.partial/notes
refuses 1 "but no record of a run; move it away, or choose another output" "$grail" compress "$tiny" -o out \
    --calib ids.npy --sparsity 0.3 --resume
[[ $(cat out.partial/notes) == mine ]] || fail "out.partial/notes was touched"
rm -r out.partial
if ((EUID != 0)); then
    mkdir -m 555 closed
    refuses_clean 1 "cannot write to" "$grail" compress "$tiny" -o closed/out --calib ids.npy \
        --sparsity 0.3
else
    echo "   not tested as root: a directory that may not be written"
fi

check "command lines"
refuses 2 "unknown command 'compres'; did you mean 'compress'? see grail --help" "$grail" compres model
refuses 2 "unknown option '--calibre'; did you mean '--calib'? see grail compress --help" "$grail" compress model \
    --calibre ids.npy
refuses 2 "unknown option '-x'" "$grail" compress model -x
refuses 2 "--quiet takes no value, not even '1'; see grail compress --help" "$grail" compress model --quiet=1
refuses 2 "expected MODEL" "$grail" compress -o out
refuses 2 "unexpected argument 'model'" "$grail" compress model model
refuses 2 "expected DENSE NARROW" "$grail" verify model
refuses 2 "grail eval: give --data PATH; see grail eval --help" "$grail" eval model
refuses 2 "SHELL takes bash or zsh, not 'fish'; see grail completion --help" "$grail" completion fish
refuses 2 "grail logits: give --output FILE; see" "$grail" logits model
refuses 2 "give either --ids FILE or --pixels FILE" "$grail" logits model -o out
refuses 2 "--gqa takes kv-groups or query-per-group, not 'x'; see grail inspect --help" "$grail" inspect model \
    --gqa x
refuses 1 "100 windows were requested, but the text holds 8" "$grail" eval model --data ids.npy \
    --windows 100
refuses 1 "the networks have different vocabularies: 'model' has 96 tokens" "$grail" verify model "$demo/model"
run "$grail"
((code == 2)) || fail "exit code $code"
says "usage: grail COMMAND" stderr
