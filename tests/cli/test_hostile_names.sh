#!/usr/bin/env bash
# Names that would act on a terminal, turn the direction of text, end a line or are no UTF-8: in paths,
# weights, configurations, plans and recipes. They are shown escaped, in messages, on standard output
# and in every file of JSON, and nothing fails because of them that need not.
#
# usage: test_hostile_names.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"
command -v iconv >/dev/null || skip "iconv is not installed"

vision=$demo/vision
export OMP_NUM_THREADS=2
write_ids ids.npy 16 16 96
# ESC, a line end, BEL, DEL, CSI as one character, a direction, a byte that is no UTF-8
hostile=$'a\e[31m\nb\a\x7f\xc2\x9b\xe2\x80\xae\xe2\x81\xa6\\c\xff'
shown='a\x1b[31m\nb\x07\x7f\u009b\u202e\u2066\c\xff'             # for people
in_json='a\u001B[31m\nb\u0007\u007f\u009b\u202e\u2066\\\\c\\xff' # in a file or with --json

# harmless FILE...: text that any terminal may be given
harmless() {
    local file
    for file; do
        iconv -f UTF-8 -t UTF-8 "$file" >/dev/null || { od -c "$file" | tail; fail "$file is no UTF-8"; }
        ! grep -qaP '[\x01-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]|\xe2\x81[\xa6-\xa9]' \
            "$file" || { cat -v "$file" >&2; fail "$file holds control characters"; }
    done
}

# tells TEXT FILE: FILE is harmless and holds TEXT
tells() {
    harmless "$2"
    says "$1" "$2"
}

# shows TEXT COMMAND...: succeeds and prints TEXT, harmlessly
shows() {
    local text=$1
    shift
    runs "$@"
    harmless stdout stderr
    says "$text" stdout
}

# objects TEXT COMMAND...: fails with TEXT in one harmless line
objects() {
    refuses 1 "$@" >/dev/null
    harmless stderr
    sed 's/^/   /' stderr
}

check "paths that do not exist, in every command"
for command in "inspect M" "eval M --data ids.npy" "eval $demo/model --data M.txt" \
    "compress M -o out --sparsity 0.5" "compress $demo/model -o out --sparsity 0.5 --calib M.txt" \
    "compress $golden/llama3 -o out --plan M" "verify M $golden/llama3" \
    "verify $golden/llama3 M" "export M -o out" "export $vision/cnn.pth -o M/M" \
    "logits M --ids ids.npy -o out" "logits $golden/llama3 --ids M.npy -o out" \
    "compress $golden/llama3 -o M/M/M --calib ids.npy --sparsity 0.5"; do
    read -ra words <<<"$command"
    objects "$shown" "$grail" "${words[@]//M/$hostile}"
done

check "arguments that are refused"
for words in "M" "inspect --M" "compress $golden/llama3 --sparsity M -o out" \
    "compress $golden/llama3 --sites M --sparsity 0.1 -o o" \
    "completion M" "inspect a M" "eval m --images M"; do
    read -ra words <<<"$words"
    refuses 2 "$shown" "$grail" "${words[@]//M/$hostile}" >/dev/null
    harmless stderr
done

check "a model, its output and its texts under such names"
mkdir "$hostile"
cd "$hostile"
cp -r "$golden/llama3" "$hostile"
cp ../ids.npy "$hostile.npy"
chmod -R u+w "$hostile"
compress=(compress "$hostile" --calib "$hostile.npy" --sparsity 0.5 --align 1 --threads 1)
shows "$shown: llama" "$grail" inspect "$hostile"
shows "\"model\": \"$in_json\"" "$grail" inspect "$hostile" --json
shows "written: o$shown" "$grail" "${compress[@]}" -o "o$hostile"
shows "\"output\": \"p$in_json\"" "$grail" "${compress[@]}" -o "p$hostile" --json
same_result "o$hostile" "p$hostile"
for file in report plan config; do
    cp "o$hostile/$file.json" file.json
    harmless file.json
done
tells "\"model\": \"$in_json\"" "o$hostile/report.json"
says "\"file\": \"$in_json.npy\"" "o$hostile/report.json"
shows "written: q$shown" "$grail" compress "$hostile" --calib "$hostile.npy" --threads 1 \
    --plan "o$hostile/plan.json" -o "q$hostile"
same_result "o$hostile" "q$hostile"
shows "model      o$shown" "$grail" eval "o$hostile" --data "$hostile.npy"
says "text       $shown.npy" stdout
shows "\"model\": \"o$in_json\"" "$grail" eval "o$hostile" --data "$hostile.npy" --json
runs "$grail" verify "$hostile" "o$hostile" --data "$hostile.npy"
harmless stdout stderr
objects "'o$shown' exists already" "$grail" "${compress[@]}" -o "o$hostile"

check "a weights file of such a name"
cp "$vision/cnn.pth" "$hostile.pth"
cp -r "$vision/calibration" "images$hostile"
compress=(compress "$hostile.pth" --calib "images$hostile" --samples 32 --sparsity 0.5 --sites conv)
shows "$shown.pth: resnet" "$grail" inspect "$hostile.pth"
shows "written: w$shown" "$grail" "${compress[@]}" -o "w$hostile"
[[ -e w$hostile/$hostile.pth ]] || fail "the weights have another name: $(ls "w$hostile" | cat -v)"
says "\"images\": \"images$in_json\"" "w$hostile/report.json"
shows "w$shown: resnet" "$grail" inspect "w$hostile"
shows "$shown.onnx:" "$grail" export "w$hostile" -o "$hostile.onnx"
shows "\"file\": \"x$in_json.onnx\"" "$grail" export "w$hostile" -o "x$hostile.onnx" --json
objects "'$shown.onnx' exists" "$grail" export "w$hostile" -o "$hostile.onnx"

check "a run under such names that is interrupted, and continued"
killed_at "r$hostile" 2 "$grail" "${compress[@]}"
cp "r$hostile.partial/grail-state.jsonl" state.jsonl
tells "\"files\":{\"$in_json.pth\":[" state.jsonl
objects "'r$shown.partial' was started with other options or files: read.seed was 0 and is now 1" \
    "$grail" "${compress[@]}" -o "r$hostile" --seed 1 --resume
shows "written: r$shown" "$grail" "${compress[@]}" -o "r$hostile" --resume
same_result "w$hostile" "r$hostile"

cd ..

check "names of tensors"
copy_model "$golden/llama3" model
sed -i 's/model\.layers\.1\./\\u001b\\u202e1x./g' model/model.safetensors
objects "model: tensor 'model.layers.1." "$grail" inspect model
sed -i 's/"num_hidden_layers": *2/"num_hidden_layers": 1/' model/config.json
objects "'\\x1b\\u202e1x." "$grail" inspect model

check "configurations"
# configured TEXT KEY JSON: of a model whose key is set so
configured() {
    copy_model "$golden/llama3" model
    sed -i -E "s/\"$2\": *\"[^\"]*\"/\"$2\": \"${3//\\/\\\\}\"/" model/config.json
    grep -qF -- "\"$3\"" model/config.json || fail "config.json has no $2"
    objects "$1" "$grail" inspect model
}
configured 'x\x1b]0;t\x07\u202e\ny' model_type 'x\u001b]0;t\u0007\u202e\ny'
configured 'x\x1b[2J' hidden_act 'x\u001b[2J'

check "a name of any length leaves the reason"
long=$(head -c 100000 /dev/zero | tr '\0' n)
copy_model "$golden/llama3" model
sed -i -E "s/\"model_type\": *\"[^\"]*\"/\"model_type\": \"$long\"/" model/config.json
objects "nnn...nnn" "$grail" inspect model
(($(wc -c <stderr) < 1200)) || fail "$(wc -c <stderr) bytes"
says "nnn\"; expected one of llama" stderr
objects "'nnn" "$grail" inspect "$(head -c 3000 <<<"$long")"
says "nnn' is neither a model directory nor a weights file" stderr

check "plans"
# plan TEXT DOCUMENT
plan() {
    echo "$2" >plan.json
    objects "$1" "$grail" compress "$golden/llama3" -o out --calib ids.npy --plan plan.json
}
plan "plan.json: 'x\\x1b[31m\\u202e' is not a site" \
    '{"grail_plan": 1, "sites": [{"site": "x\u001b[31m\u202e", "kept": 3}]}'
plan 'plan.json: unknown key "\x1b[2J\n"; the known keys are' '{"grail_plan": 1, "\u001b[2J\n": 0, "sites": []}'
plan "plan.json: \"gqa\" is \"\\u009b1m\"" '{"grail_plan": 1, "gqa": "\u009b1m", "sites": []}'
plan 'plan.json: not valid JSON' $'{"grail_plan": "\xff\e[31m"}'
