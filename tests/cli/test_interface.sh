#!/usr/bin/env bash
# What people and programs see of grail: help, completion, progress and results, JSON, dry runs, and
# the ways to say what is cut and what it is calibrated on.
#
# usage: test_interface.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

write_ids ids.npy 16 32 96
write_ids other.npy 16 32 96 2
tiny=$golden/llama3
commands=(inspect plan gram compress heal eval verify generate export quantize doctor completion)

check "help"
runs "$grail" --help
[[ ! -s stderr ]] || fail "--help prints on stderr"
for command in "${commands[@]}"; do
    says "  $command " stdout
done
runs "$grail" --version
[[ $(cat stdout) =~ ^grail\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "version $(cat stdout)"
cp stdout expected
runs "$grail" -V
cmp stdout expected || fail "-V is not --version"
for command in "${commands[@]}" logits; do
    for flag in --help -h --help-all; do
        runs "$grail" "$command" $flag
        says "usage: grail $command" stdout
        says "  --help" stdout
        [[ ! -s stderr ]] || fail "$command $flag prints on stderr"
        (($(wc -L <stdout) <= 100)) || fail "$command $flag has lines of $(wc -L <stdout) columns"
    done
    runs "$grail" "$command" --help
    cp stdout expected
    for word in help --help; do
        runs "$grail" $word "$command"
        cmp stdout expected || fail "grail $word $command is not grail $command --help"
    done
done
runs "$grail" --help
cp stdout expected
for arguments in help "help help" "help --help"; do
    read -ra words <<<"$arguments"
    runs "$grail" "${words[@]}"
    cmp stdout expected || fail "grail $arguments is not grail --help"
done
refuses 2 "unknown command 'compres'; did you mean 'compress'? see grail --help" "$grail" help compres
refuses 2 "grail help: unexpected argument 'eval'; see grail --help" "$grail" help compress eval

check "help in groups, with what is required"
runs "$grail" compress --help
groups=$(sed -n 's/^\([a-z ]*\):$/\1/p' stdout | paste -sd,)
[[ $groups == "input,what to cut,how much,effort and time,measurement,machine,output,help,examples" ]] || fail "groups $groups"
says "  --help-all" stdout
(($(wc -l <stdout) < 80)) || fail "the first page of help has $(wc -l <stdout) lines"
for option in effort time; do
    grep -qE "^  --$option [A-Z]+ " stdout || fail "--$option is not on the first page"
done
! grep -q "^  --ridge" stdout || fail "--ridge is on the first page"
runs "$grail" compress --help-all
groups=$(sed -n 's/^\([a-z ]*\):$/\1/p' stdout | paste -sd,)
[[ $groups == "input,what to cut,how much,effort and time,repair,healing,measurement,machine,output,help,examples" ]] || fail "groups $groups"
says "usage: grail compress MODEL --output DIR [options]" stdout
grep -qE "^  --output DIR +\[required\] " stdout || fail "--output is not marked"
(($(grep -cE "^  --[a-z-]+ [A-Z]+ +\[one required\] " stdout) == 7)) || fail "the limits are not marked"
runs "$grail" heal --help
says "usage: grail heal MODEL --output DIR --teacher MODEL --calib PATH [options]" stdout
runs "$grail" completion --help
says "usage: grail completion SHELL" stdout
! grep -q "\[options\]" stdout || fail "completion has options"

check "what was probably meant"
refuses 2 "unknown command 'evla'; did you mean 'eval'? see grail --help" "$grail" evla
refuses 2 "unknown command 'frobnicate'; see grail --help" "$grail" frobnicate
refuses 2 "unknown option '--sparsty'; did you mean '--sparsity'? see grail compress --help" "$grail" compress "$tiny" --sparsty=0.3
refuses 2 "--loop takes closed or open, not 'opne'; did you mean 'open'? see grail plan --help" "$grail" plan "$tiny" --loop opne
refuses 2 "SHELL takes bash or zsh, not 'bahs'; did you mean 'bash'?" "$grail" completion bahs
meant() {
    refuses 1 "did you mean '$1'?" "$grail" compress "$tiny" -o out --calib ids.npy "${@:2}"
}
meant wanda --sparsity 0.5 --selector wnada
meant full --sparsity 0.5 --compensate fulll
meant dense --sparsity 0.5 --target dens
meant block --sparsity 0.5 --heal blok
meant lines --sparsity 0.5 --protocol line
meant search --target-ratio 0.8 --budget serach
meant conv --target-ratio 0.8 --sites covn
meant ref --sparsity 0.5 --backend re
refuses 2 "did you mean 'heads'?" "$grail" compress "$tiny" -o out --calib ids.npy --sparsity 0.5 --sites head

check "options without effect are refused"
idle() { # COMMAND MESSAGE OPTION...
    refuses 2 "grail $1: $2" "$grail" "$1" "$tiny" -o out "${@:3}"
}
for option in "steps 3" "rate 0.1" "time 9s"; do
    idle compress "--heal-${option% *} has no effect without one of --heal, --effort best and --time; give one of them, or leave --heal-${option% *} out; see" \
        --calib ids.npy --sparsity 0.5 --heal-${option% *} ${option#* }
done
idle compress "--heal-steps has no effect with --heal none; leave one of the two out; see" \
    --calib ids.npy --sparsity 0.5 --heal none --heal-steps 3
for option in uniform-widths drop-sublayers "tries 3" "search-seconds 9" "heads-removed 0.1" \
    "budget error"; do
    idle compress "--${option% *} has no effect without one of --target-ratio, --target-params, --target-macs, --target-kv-bytes and --target-size; give one of them, or leave --${option% *} out; see" \
        --calib ids.npy --sparsity 0.5 --$option
done
idle plan "--tries has no effect with --budget error; leave one of the two out; see" --calib ids.npy \
    --target-ratio 0.8 --budget error --tries 3
idle compress "--sites has no effect with --plan; leave one of the two out; see" --plan p --sites ffn
idle compress "--align has no effect with --plan; leave one of the two out; see" --plan p --align 1
idle compress "--samples has no effect without --calib" --sparsity 0.5 --samples 4
for option in "field body" "protocol lines" "context 8" window-bos "preset vit" "split test" "size 8" \
    "mean 0,0,0" "std 1,1,1"; do
    idle compress "--${option%% *} has no effect without one of --calib and --eval; give one" --sparsity 0.5 --$option
    [[ $option == window-bos ]] ||
        refuses 2 "grail verify: --${option%% *} has no effect without --data" \
            "$grail" verify "$tiny" "$tiny" --$option
done
for option in windows images; do
    idle compress "--$option has no effect without --eval; give it too" --calib ids.npy --sparsity 0.5 --$option 2
done
refuses 2 "--windows has no effect without --data" "$grail" verify "$tiny" "$tiny" --windows 2
refuses 2 "cnn.pth reads images; the modes of --gqa apply only to text" "$grail" inspect \
    "$demo/vision/cnn.pth" --gqa kv-groups
for option in "target local" "bias auto" "ridge zero" "refit none" "ridge-scale mean" \
    "token-weights none" "alpha 0.01"; do
    idle compress "--${option% *} has no effect with --compensate none; leave one of the two out; see" \
        --calib ids.npy --sparsity 0.5 --compensate none --$option
    refuses 1 "fits nothing, so the choice of" "$grail" compress "$tiny" -o out --calib ids.npy --sparsity 0.5 \
        --selector wanda++ --compensate own --$option --dry-run
    says "(--${option% *})" stderr
done
runs "$grail" compress "$tiny" -o out --calib ids.npy --sparsity 0.5 --selector slimgpt --compensate own \
    --alpha 0.01 --dry-run

check "-- ends the options of every command"
cp "$demo/vision/cnn.pth" ./-d.pth
mkdir ./-m
cp "$tiny"/* ./-m
runs "$grail" inspect "$demo/vision/cnn.pth" --json
cp stdout expected
runs "$grail" inspect --json -- -d.pth
diff <(grep -v '"model"' expected) <(grep -v '"model"' stdout) || fail "another network"
runs "$grail" verify --json -- -m -m
runs "$grail" compress -o out --calib ids.npy --sparsity 0.5 --quiet -- -m
says "grail compress --output DIR --calib ids.npy --sparsity 0.5 ./-m" out/README.md
runs "$grail" compress -o again --calib ids.npy --sparsity 0.5 --quiet ./-m
cmp out/model.safetensors again/model.safetensors
rm -r out again
runs "$grail" plan -o plan.json --calib ids.npy --target-ratio 0.8 --budget error --quiet -- -m
says "next: grail compress ./-m -o narrow --plan plan.json --calib ids.npy" stdout
rm plan.json
refuses 1 "grail: '--json' is neither a model directory" "$grail" inspect -- --json
refuses 2 "grail inspect: unexpected argument '--json'" "$grail" inspect -- -d.pth --json
refuses 2 "grail inspect: expected MODEL" "$grail" inspect --
refuses 2 "unknown option '-d.pth'" "$grail" inspect -d.pth
for command in "${commands[@]}"; do # as many as it takes, and one more
    takes=$("$grail" "$command" --help | sed -n "s/^usage: grail $command \([A-Z ]*\).*/\1/p" | wc -w)
    more=("--help" "-h" "-o")
    refuses 2 "grail $command: unexpected argument '${more[takes]}'" "$grail" "$command" -- "${more[@]:0:takes+1}"
done
rm -r ./-m ./-d.pth

check "messages of the library name the options of the command"
refuses 1 "give a smaller one (--context)" "$grail" eval "$demo/model" --data "$demo/held-out.txt" --context 1000
refuses 1 "use that, or another budget (--loop, --budget)" "$grail" plan "$tiny" -o out --calib ids.npy \
    --target-ratio 0.8 --loop open

# completes WORDS...: what the sourced script offers for the last word
completes() {
    bash -c 'source completion.bash; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _grail
        echo "${COMPREPLY[*]}"' - "$@"
}
offers() {
    local expected=$1
    shift
    [[ $(completes "$@") == "$expected" ]] || fail "offers '$(completes "$@")' for: $*"
}
check "completion in bash"
runs "$grail" completion bash
cp stdout completion.bash
bash -n completion.bash || fail "bash does not parse it"
offers --selector grail compress --selector
offers "inspect plan gram compress heal eval verify generate export quantize doctor completion help" grail ""
offers "eval export" grail help e
offers compress grail compr
offers "fold" grail compress model --selector fo
offers "none own grail full" grail compress model --compensate ""
offers "wikitext2" grail eval model --protocol wiki
offers "--tolerance" grail verify --tol
touch calibration.txt -- -d.pth
offers calibration.txt grail compress model --calib cal
offers -d.pth grail inspect -- -d
offers -d.pth grail compress -o out --sparsity 0.3 -- -d
check "completion in zsh"
runs "$grail" completion zsh
says "#compdef grail" stdout
says "_arguments -S" stdout
if command -v zsh >/dev/null; then
    zsh -n stdout || fail "zsh does not parse it"
fi

compress=("$grail" compress "$tiny" --calib ids.npy)
check "progress goes to stderr, results to stdout"
runs "${compress[@]}" -o out --sparsity 0.5
says "block 1/2" stderr
says "block 2/2" stderr
! grep -q "^block" stdout || fail "progress on stdout"
says "written: out" stdout
says "who loads this:" stdout
! grep -q "written: out\|^totals" stderr || fail "results on stderr"
check "--quiet says nothing on stderr but warnings"
for arguments in "eval out --data other.npy" "compress $tiny --calib ids.npy -o quiet --sparsity=0.5"; do
    read -ra words <<<"$arguments"
    runs "$grail" "${words[@]}" --quiet
    grep -qv '^grail: warning: ' stderr && { show; fail "'$arguments' prints on stderr"; }
    [[ -s stdout ]] || fail "'$arguments' prints no result"
done
same_result out quiet
rm -r out quiet

check "--dry-run writes nothing, needs no text and tells the widths of the real run"
ls -A >before
for options in "" "--calib $work/ids.npy"; do
    read -ra words <<<"$options"
    runs "$grail" compress "$tiny" -o dry --sparsity 0.5 --dry-run "${words[@]}"
    says "heads 2 of 4 units kept, width 64 -> 32, in 2 sites" stdout
    ! grep -q "^written:" stdout || fail "says that it was written"
    [[ $(ls -A) == "$(cat before)" ]] || fail "wrote $(ls -A | comm -13 before -)"
done

check "--dry-run works beside every other option of compress, and checks what they name"
dry=("$grail" compress "$tiny" -o dry --sparsity 0.5 --dry-run --calib ids.npy)
"$grail" compress --help | sed -n 's/^  --\([a-z-]*\).*/\1/p' |
    while read -r option; do ! "${dry[@]}" --$option 0 2>&1 | grep "dry-run has no\|with --dry-run\|--dry-run writes"; done || fail "refused beside another option"
runs "${dry[@]}" --eval other.npy --windows 3 --resume --heal model --keep-non-finite --quiet
says "calibration: 16 windows of 32 tokens" stdout
says "--eval then measures three networks on 3 windows of other.npy" stdout
says "--resume finds no interrupted run beside 'dry', so a new one begins" stdout
says ", of which healing takes " stdout
says "nothing was written" stdout
runs "${dry[@]}" --quantize w8a16
runs "$grail" compress "$demo/vision/cnn.pth" -o dry --sparsity 0.5 --dry-run --calib "$demo/vision/calibration" \
    --eval "$demo/vision/test" --images 100
says "calibration: 128 images" stdout
says "--eval then measures three networks on 100 images of" stdout
! grep -q "by guessing" stderr || { show; fail "judges what was not measured"; }
refuses 1 "cannot open 'nowhere.npy'" "$grail" compress "$tiny" -o out --sparsity 0.5 --dry-run --calib nowhere.npy
refuses 1 "17 samples were requested, but the text holds only 16 windows" "${dry[@]}" --samples 17
refuses 1 "cannot read 'nowhere.npy' for --eval" "${dry[@]}" --eval nowhere.npy
refuses 1 "17 windows were requested, but the text holds 16 (--windows)" "${dry[@]}" --eval other.npy --windows 17
refuses 2 "and --windows apply only to text" "$grail" compress "$demo/vision/cnn.pth" -o out --sparsity 0.5 --dry-run \
    --eval "$demo/vision/test" --windows 3
mkdir flat
cp "$demo/vision/calibration/"*0.jpg flat
for way in --dry-run --quiet; do # without classes outputs are compared
    runs "$grail" compress "$demo/vision/cnn.pth" -o out --sparsity 0.5 --selector magnitude-l1 --compensate none --eval flat $way
done
says ", same class " stdout
rm -r out
[[ ! -e dry && ! -e dry.partial ]] || fail "wrote"
rm -r flat

# widths SPARSITY EXPECTED OPTIONS...: of the demonstration model, as "kind from -> to xsites"
widths() {
    local sparsity=$1 expected=$2 found
    shift 2
    runs "$grail" compress "$demo/model" -o dry --sparsity "$sparsity" --dry-run "$@"
    found=$(sed -n 's/^  \([a-z]*\)  *.* width \([0-9]*\) -> \([0-9]*\), in \([0-9]\).*/\1 \2-\3 x\4/p' \
        stdout | paste -sd,)
    [[ $found == "$expected" ]] || fail "--sparsity $sparsity $* gives $found, expected $expected"
}
check "what is cut: by kind, by site, by a list"
site=model.layers.2.mlp.down_proj
widths 0.3 "heads 160-112 x4,ffn 480-336 x4" --align 1
widths 0.3 "ffn 480-336 x4" --align 1 --sites ffn
widths 0.3 "heads 160-112 x4" --align 1 --sites heads
widths 0.3 "heads 160-112 x4,ffn 480-336 x4" --align 1 --sites ffn,heads
widths ffn=0.3,heads=0.2 "heads 160-128 x4,ffn 480-336 x4" --align 1
widths heads=0.2 "heads 160-128 x4" --align 1
widths $site=0.5 "ffn 480-480 x3,ffn 480-240 x1" --align 1
widths ffn=0.3,$site=0 "ffn 480-336 x3,ffn 480-480 x1" --align 1
widths 0.3 "heads 160-112 x4,ffn 480-336 x4" --align=1 --gqa=query-per-group --sparsity=0.5 \
    --sparsity 0.3 --gqa kv-groups
check "alignment of FFN widths"
widths ffn=0.3 "ffn 480-352 x4" --align 32
widths ffn=0.3 "ffn 480-384 x4" --align 128
widths ffn=0.3 "ffn 480-336 x4" --align auto
widths ffn=0.3 "ffn 480-336 x4"

check "kinds that are not cut are not listed, and llama.cpp gets what grail export writes"
runs "$grail" compress "$demo/model" -o out --calib "$demo/calibration.txt" --sparsity ffn=0.3 --align 32 --dry-run
says "  ffn   352 of 480 units kept" stdout
! grep -q "heads .* units kept" stdout || { show; fail "lists heads, which are not cut"; }
says "llama.cpp     yes  as a GGUF file that grail export writes (llama); Q4_K would hold no matrix: 160 and 352 are no multiples of 256; use q5_0, or align widths to 256" stdout
runs "$grail" compress "$demo/model" -o out --calib "$demo/calibration.txt" --sparsity 0 --dry-run
says "widths: nothing is cut" stdout

check "widths at which GPUs are slow are named"
slow="no multiple of 8: width 332 of model.layers.0.mlp.down_proj, and others; a GPU multiplies"
narrow=(compress "$demo/model" --sparsity ffn=0.31 --selector magnitude-l1 --compensate none)
runs "$grail" "${narrow[@]}" -o out --align 1 --dry-run
says "$slow" stdout
runs "$grail" "${narrow[@]}" -o out --dry-run
! grep -q "no multiple of 8" stdout || { show; fail "320 is one"; }
runs "$grail" "${narrow[@]}" -o odd --align 1
says "$slow" stdout
runs "$grail" inspect odd
says "$slow" stdout
rm -rf odd

check "names of wrappers are left out of the result of a class; those of a larger network stay, and the class does not open them"
for begin in module language_model; do
    copy_model "$tiny" "wrapped"
    python3 - "$begin" <<'END'
import json, sys
with open("wrapped/model.safetensors", "rb") as file:
    size = int.from_bytes(file.read(8), "little")
    header, data = json.loads(file.read(size)), file.read()
header = {name if name[0] == "_" else f"{sys.argv[1]}.{name}": tensor for name, tensor in header.items()}
text = json.dumps(header).encode()
with open("wrapped/model.safetensors", "wb") as file:
    file.write(len(text).to_bytes(8, "little") + text + data)
END
    runs "${compress[@]/$tiny/wrapped}" -o "out-$begin" --sparsity 0.5 --quiet
    mv stdout "said-$begin"
done
says "  transformers  yes  as llama" said-module
says "  transformers  no   its class does not know tensors whose names begin with 'language_model.model.'; save that network by itself" said-language_model
says "  llama.cpp     yes" said-language_model
grep -q '"module\.' out-module/model.safetensors && fail "the result names a wrapper"
grep -q '"language_model\.model\.' out-language_model/model.safetensors || fail "the result has other names"
runs "$grail" eval out-module --data ids.npy
rm -r out-module out-language_model

check "a plan with other widths in each layer: the result brings classes that open it"
cat >plan.json <<END
{"grail_plan": 1, "sites": [
    {"site": "model.layers.0.mlp.down_proj", "kept": 40},
    {"site": "model.layers.1.mlp.down_proj", "kept": 60, "selector": "magnitude-l2"},
    {"site": "model.layers.1.self_attn.o_proj", "kept": 3}]}
END
runs "${compress[@]}" -o out --plan plan.json
says "  transformers  yes  version 4.57 or newer, with trust_remote_code=True" stdout
says "  vLLM          no   the layers have different numbers of heads" stdout
says "  llama.cpp     yes  as a GGUF file that grail export writes (deci)" stdout
says "class GrailLlamaForCausalLM(LlamaForCausalLM):" out/modeling_grail.py
says "ffn   60 of 80 units kept" stdout
says "heads 3 of 4 units kept" stdout
runs "$grail" eval out --data ids.npy
runs "$grail" inspect out
says "model.layers.0.mlp.down_proj                      40" stdout
check "its plan.json repeats the run"
runs "${compress[@]}" -o again --plan out/plan.json
cmp out/model.safetensors again/model.safetensors
check "a narrowed model can be narrowed again"
cp out/modeling_grail.py classes.py
echo "raise SystemExit" >>out/modeling_grail.py # what came with the model is not taken over
runs "$grail" compress out -o twice --calib ids.npy --sparsity ffn=0.25 --align 1
cmp twice/modeling_grail.py classes.py
runs "$grail" eval twice --data ids.npy
rm -r out again twice

check "query heads of every group"
runs "${compress[@]}" -o out --sparsity heads=0.5 --gqa query-per-group
says "heads 4 of 8 units kept, width 64 -> 32" stdout
says '"num_attention_heads": 4' out/config.json
says '"num_key_value_heads": 4' out/config.json
runs "$grail" eval out --data ids.npy
rm -r out

# text_run OUTPUT FILE OPTIONS...
text_run() {
    runs "$grail" compress "$demo/model" -o "$1" --calib "$2" --context 64 --samples 16 \
        --sparsity 0.3 --quiet "${@:3}"
}
check "the same text as .txt, .jsonl, .jsonl.gz, and in another field"
head -c 8000 "$demo/calibration.txt" >text.txt
json_text=$(sed 's/\\/\\\\/g; s/"/\\"/g' text.txt | awk '{ printf "%s%s", (NR > 1 ? "\\n" : ""), $0 }')
printf '{"text": "%s"}\n' "$json_text" >text.jsonl
gzip -k text.jsonl
printf '{"n": 1, "body": "%s"}\n\n' "$json_text" >body.jsonl
text_run out text.txt
for file in text.jsonl text.jsonl.gz; do
    text_run again $file
    cmp out/model.safetensors again/model.safetensors || fail "calibration from $file gives other weights"
    rm -r again
done
text_run again body.jsonl --field body
cmp out/model.safetensors again/model.safetensors || fail "calibration from another --field gives other weights"
rm -r out again

check "eval warns of text that the model was calibrated on, and of that alone"
size=$(($(stat -c %s "$source_dir/LICENSE") / 2))
head -c $size "$source_dir/LICENSE" >first.txt
tail -c +$((size + 1)) "$source_dir/LICENSE" >second.txt
text_run out first.txt
runs "$grail" eval out --data first.txt --context 64 --windows 10
says "warning: the model was calibrated on this text" stderr
says "perplexity" stdout
{ cat first.txt; echo "and a line more"; } >longer.txt
runs "$grail" eval out --data longer.txt --context 64 --windows 10
says "warning: this text holds" stderr
runs "$grail" eval out --data second.txt --context 64 --windows 10
[[ ! -s stderr ]] || { show; fail "warns about text that was not calibrated on"; }
runs "$grail" eval "$demo/model" --data first.txt --context 64 --windows 10
[[ ! -s stderr ]] || { show; fail "warns about a model that was not calibrated"; }

command -v python3 >/dev/null || skip "JSON is not parsed: python3 is not installed"
check "on a terminal progress moves within a block, and leaves one line for each"
python3 - "${compress[@]}" -o shown --sparsity 0.5 <<'END' || fail "the terminal shows something else"
import os, pty, re, subprocess, sys
reader, writer = pty.openpty()
run = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=writer)
os.close(writer)
text = b""
try:
    while chunk := os.read(reader, 4096):
        text += chunk
except OSError:  # all writers have gone
    pass
text = text.decode()
shares = [int(share) for share in re.findall(r"\r\x1b\[Kblock 1/2: (\d+) %, [0-2] sites? done", text)]
lines = [line for line in text.split("\r\n") if "written" in line]
good = (run.wait() == 0 and len(shares) >= 8 and shares == sorted(shares) and shares[-1] == 100 and len(lines) == 2
        and all(re.search(r"\x1b\[Kblock \d/2  heads .*;  ffn .*;  written", line) for line in lines))
sys.exit(0 if good else repr(text))
END
rm -rf shown

# parses KEYS COMMAND...: valid JSON, which has the keys
parses() {
    local keys=$1
    shift
    runs "$@"
    python3 - "$keys" <<'END' || { show; fail "not the expected JSON: $*"; }
import json, sys
with open("stdout") as file:
    document = json.load(file, parse_constant=lambda name: sys.exit(f"{name} is not JSON"))
missing = [key for key in sys.argv[1].split() if key not in document]
sys.exit(f"without {missing}" if missing else 0)
END
}
check "--json"
parses "model parameters sites" "$grail" inspect "$tiny" --json
parses "perplexity error mean_nll windows context text_sha256 overlap_runs" \
    "$grail" eval out --data second.txt --context 64 --windows 4 --json
parses "max_abs mean_kl zero_column_identity" "$grail" verify "$tiny" "$tiny" --json
parses "cpu threads blas sgemm_gflops" "$grail" doctor --seconds 0.01 --json
parses "output parameters loaders sites" "${compress[@]}" -o dry --sparsity 0.5 --dry-run --json
parses "output parameters loaders sites samples" "${compress[@]}" -o tiny --sparsity 0.5 --json
for file in config plan report; do
    parses "" cat tiny/$file.json
done
