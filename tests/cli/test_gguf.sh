#!/usr/bin/env bash
# Networks in GGUF files: the same results as those of the directories that they were made from, in the
# same form as they are.
source "$(dirname "$0")/lib.sh" "$@"

gguf=$source_dir/tests/golden/gguf

check "a file is described like its directory"
runs "$grail" inspect "$gguf/qwen2.gguf"
says "qwen2.gguf: qwen2, F32, 2 blocks" stdout
sed 1d stdout >of-file
runs "$grail" inspect "$golden/qwen2"
sed 1d stdout | cmp - of-file || fail "the sites differ"

check "a network that is not cut is the same file"
for name in llama3 llama-mha qwen2 qwen3; do
    runs "$grail" compress "$gguf/$name.gguf" -o "same-$name" --sparsity 0 --compensate none --quiet
    cmp "$gguf/$name.gguf" "same-$name/$name.gguf" || fail "$name changed"
    [[ ! -e same-$name/config.json && ! -e same-$name/grail.json ]] || fail "$(ls "same-$name")"
done

python3 - <<'PYTHON'
import struct
ids = [(7 * i * i + 3 * i) % 96 for i in range(8 * 64)]
header = "{'descr': '<i4', 'fortran_order': False, 'shape': (8, 64), }"
header += " " * (-(len(header) + 11) % 64) + "\n"
with open("ids.npy", "wb") as file:
    file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack("<512i", *ids))
PYTHON

# differ FILE FILE: the largest difference of their logits
differ() {
    python3 - "$1" "$2" <<'PYTHON'
import json, struct, sys
def read(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    begin, end = json.loads(data[8:8 + size])["logits"]["data_offsets"]
    return struct.unpack(f"<{(end - begin) // 4}f", data[8 + size + begin:8 + size + end])
print(max(abs(a - b) for a, b in zip(read(sys.argv[1]), read(sys.argv[2]))))
PYTHON
}

# cut LARGEST_DIFFERENCE NAME OPTION...: the results of both forms have the same logits
cut() {
    local largest=$1 name=$2 difference
    shift 2
    rm -rf a b a.logits b.logits
    runs "$grail" compress "$golden/$name" -o a --calib ids.npy --quiet --threads 1 "$@"
    runs "$grail" compress "$gguf/$name.gguf" -o b --calib ids.npy --quiet --threads 1 "$@"
    runs "$grail" logits a --ids ids.npy -o a.logits
    runs "$grail" logits b --ids ids.npy -o b.logits
    difference=$(differ a.logits b.logits)
    awk "BEGIN { exit !($difference <= $largest) }" || fail "$name: the logits differ by $difference"
}

check "a cut and repaired file computes what the cut directory does"
cut 0 qwen2 --sparsity 0.5 --sites ffn
cp -r "$golden/qwen3" . && sed -i 's/"rms_norm_eps": 0.001,/"rms_norm_eps": 0.0010000000474974513,/' qwen3/config.json
golden=. cut 0 qwen3 --sparsity 0.5             # with the epsilon of the file, which is in F32
runs "$grail" inspect b
says "b: qwen3, BF16" stdout
cut 1e-4 llama3 --sparsity 0.5                # its frequencies went through a table in F32

check "the keys are those of the narrowed network"
runs "$grail" compress "$gguf/llama3.gguf" -o cut --calib ids.npy --sparsity 0.5
says "llama.cpp     yes  the file as it is, as llama" stdout
runs "$grail" inspect cut/llama3.gguf
says "cut/llama3.gguf: llama, F32, 2 blocks" stdout
runs "$grail" compress "$gguf/llama3.gguf" -o plain --calib ids.npy --sparsity 0.5 --compensate none --quiet
runs "$grail" verify "$gguf/llama3.gguf" plain

check "layers of different widths take the family that has them"
python3 - <<'PYTHON'
import json
plan = json.load(open("cut/plan.json"))
ffn = [site for site in plan["sites"] if "mlp" in site["site"]]
ffn[0]["kept"] += 8
ffn[0].pop("kept_units", None)
json.dump(plan, open("plan.json", "w"))
PYTHON
runs "$grail" compress "$gguf/llama3.gguf" -o layers --calib ids.npy --plan plan.json
says "the file as it is, as deci" stdout
grep -qaF "deci.feed_forward_length" layers/llama3.gguf || fail "the keys are not those of deci"
! grep -qaF "llama.block_count" layers/llama3.gguf || fail "keys of llama are left"
runs "$grail" eval layers --data ids.npy

check "a directory reads its only file"
mkdir only && cp "$gguf/qwen2.gguf" only/m.gguf && echo '{"model_type": "other"}' >only/config.json
runs "$grail" inspect only
says "only: qwen2, F32" stdout

check "a directory is written as another program writes it"
write_tokenizer tokenizer.json
for name in llama3 llama-mha qwen2 qwen3; do
    cp -r "$golden/$name" "$name" && cp tokenizer.json "$name"
    runs "$grail" export "$name" -o "$name.gguf"
    says "$name.gguf: " stdout
    runs "$grail" logits "$name.gguf" --ids ids.npy -o "$name.logits"
    runs "$grail" logits "$gguf/$name.gguf" --ids ids.npy -o "$name.other"
    difference=$(differ "$name.logits" "$name.other")
    # the divisors of llama3 are taken from frequencies in F32
    awk "BEGIN { exit !($difference <= ("'"'"$name"'"'" == "'"'"llama3"'"'" ? 1e-5 : 0)) }" || fail "$name: $difference"
done

check "a network of text is one file with its tokenizer"
runs "$grail" export "$demo/model" -o demo.gguf
says "demo.gguf: llama, F16, " stdout
runs "$grail" eval "$demo/model" --data "$demo/held-out.txt" --context 128 --windows 2 --json
grep '"mean_nll"\|"stream_tokens"' stdout >expected
runs "$grail" eval demo.gguf --data "$demo/held-out.txt" --context 128 --windows 2 --json
grep '"mean_nll"\|"stream_tokens"' stdout | cmp - expected || fail "the evaluation differs"

check "eight bits are written where a matrix fills the blocks"
runs "$grail" export "$demo/model" --to gguf --type q8_0 -o small.gguf
for type in q4_0 q5_0; do
    runs "$grail" export "$demo/model" --type $type -o $type.gguf
    runs "$grail" inspect $type.gguf
    says "llama, ${type^^}, " stdout
    runs "$grail" eval $type.gguf --data "$demo/held-out.txt" --windows 2
done
refuses 1 "Q4_K would hold no matrix: 160 and 480 are no multiples of 256; use q5_0" "$grail" export "$demo/model" --type q4_k -o no.gguf
[[ ! -e no.gguf ]] || fail "leaves a file"
refuses 2 "q5_k" "$grail" export "$demo/model" --type q5_k -o no.gguf

check "the table of embeddings has a type of its own"
runs "$grail" export "$demo/model" --type q4_0 -o default.gguf
says "the head, or the table of embeddings that it shares, is Q8_0" stdout
runs "$grail" export "$demo/model" --type q4_0 --table-type q4_0 -o smallest.gguf --json
says '"table": "Q4_0"' stdout
(($(stat -c %s smallest.gguf) < $(stat -c %s default.gguf))) || fail "$(ls -l)"
runs "$grail" export "$demo/model" --type q4_0 --table-type f16 -o table.gguf
says "is F16" stdout
refuses 1 "rows of 'model.embed_tokens.weight' have 160 weights, which blocks of Q6_K, of 256, do not fill; choose q8_0 (--table-type)" \
    "$grail" export "$demo/model" --type q4_0 --table-type q6_k -o no.gguf
refuses 2 "--table-type takes" "$grail" export "$demo/model" --table-type w4a16 -o no.gguf
[[ ! -e no.gguf ]] || fail "leaves a file"
(($(stat -c %s small.gguf) < $(stat -c %s demo.gguf) * 6 / 10)) || fail "$(ls -l)"
runs "$grail" inspect small.gguf
says "small.gguf: llama, Q8_0" stdout
refuses 1 "tensor 'token_embd.weight' is quantised (Q8_0)" "$grail" compress small.gguf -o out --sparsity 0.5 --compensate none --selector magnitude-l1
runs "$grail" compress small.gguf -o halved --sparsity 0.5 --compensate none --selector magnitude-l1 --type f16
runs "$grail" inspect halved
says "halved: llama, F16" stdout
[[ -e halved/model.gguf && ! -e halved/small.gguf ]] || fail "the type changed and the name did not: $(ls halved)"
runs "$grail" compress demo.gguf -o rounded --sparsity ffn=0.5 --selector magnitude-l1 --quantize q4_0 --calib "$demo/calibration.txt" --samples 8 --context 64 --quiet
[[ -e rounded/model.gguf && ! -e rounded/demo.gguf ]] || fail "the type changed and the name did not: $(ls rounded)"

check "a file of blocks is cut to whole blocks"
runs "$grail" compress small.gguf -o out --sparsity ffn=0.3 --compensate none --type f16 --dry-run
says "ffn   352 of 480 units kept" stdout
runs "$grail" compress demo.gguf -o out --sparsity ffn=0.3 --compensate none --dry-run
says "ffn   336 of 480 units kept" stdout
mkdir wide && cp tokenizer.json wide
python3 - <<'PYTHON'
import json, struct
config = {"model_type": "llama", "vocab_size": 96, "hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 1,
          "num_attention_heads": 4, "num_key_value_heads": 4, "rms_norm_eps": 1e-5, "tie_word_embeddings": True}
json.dump(config, open("wide/config.json", "w"))
layer = "model.layers.0."
shapes = {"model.embed_tokens.weight": [96, 256], "model.norm.weight": [256], layer + "input_layernorm.weight": [256],
          layer + "post_attention_layernorm.weight": [256], layer + "mlp.down_proj.weight": [256, 1024]}
shapes |= {layer + f"self_attn.{name}_proj.weight": [256, 256] for name in "qkvo"}
shapes |= {layer + f"mlp.{name}_proj.weight": [1024, 256] for name in ("gate", "up")}
header, data = {}, b""
for name, shape in shapes.items():
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    begin = len(data)
    data += struct.pack("<4e", 0.5, -0.25, 0.125, 1) * (count // 4)
    header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [begin, len(data)]}
text = json.dumps(header).encode()
open("wide/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
PYTHON
runs "$grail" export wide --type q4_k -o wide.gguf
runs "$grail" compress wide.gguf -o out --sparsity ffn=0.4 --compensate none --type f16 --dry-run
says "ffn   512 of 1024 units kept" stdout
runs "$grail" compress wide -o out --sparsity ffn=0.4 --compensate none --dry-run
says "ffn   640 of 1024 units kept" stdout

check "layers of different widths are written as deci, and what has no form is refused"
runs "$grail" compress "$demo/model" -o layers2 --sparsity model.layers.1.mlp.down_proj=0.5 --compensate none --selector magnitude-l1 --quiet
runs "$grail" export layers2 -o layers2.gguf
says "layers2.gguf: deci" stdout
runs "$grail" logits layers2 --ids ids.npy -o layers2.logits
runs "$grail" logits layers2.gguf --ids ids.npy -o layers2.other
cmp layers2.logits layers2.other || fail "the logits differ"
refuses 1 "has neither tokenizer.json nor vocab.json with merges.txt" "$grail" export "$golden/qwen2" -o out
sed -i '1s/{/{"partial_rotary_factor": 0.5,/' llama3/config.json
refuses 1 "no architecture of GGUF files holds it: rotary positions turn only a part of each head (partial_rotary_factor); a directory holds it, and the types w4a16 and w8a16 round it there" "$grail" export llama3 -o out
refuses 1 "leave them out, or give the directory that the file was made from" "$grail" compress "$gguf/qwen3.gguf" -o out --sparsity 0.5 --compensate none --selector magnitude-l1 --set hidden_act=gelu
refuses 1 "; take the directory that the file was made from" "$grail" export "$gguf/qwen3.gguf" -o out --set hidden_act=gelu
sed -i 's/"hidden_act": "silu"/"hidden_act": "gelu"/' qwen3/config.json
refuses 1 "no architecture of GGUF files holds it: the activation of its FFNs is not silu" "$grail" export qwen3 -o out

check "a window that GGUF files cannot state is refused by its name"
cp -r "$golden/qwen2" windows && cp tokenizer.json windows
python3 - <<'PYTHON'
import json
config = json.load(open("windows/config.json"))
config.pop("layer_types", None)
config |= {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}
json.dump(config, open("windows/config.json", "w"))
PYTHON
refuses 1 "1 of 2 layers attend to a window of 8 positions (sliding_window) in texts of up to 256; for texts below the window set sliding_window=null" "$grail" export windows -o out
runs "$grail" export windows --set sliding_window=null -o without.gguf

check "a GGUF file is written with another type"
runs "$grail" export small.gguf --type q8_0 -o again.gguf
cmp small.gguf again.gguf || fail "blocks of the same type changed"
runs "$grail" export small.gguf --type q4_0 -o smaller.gguf
says "smaller.gguf: llama, Q4_0, " stdout
runs "$grail" eval smaller.gguf --data "$demo/held-out.txt" --windows 2
for name in llama3 qwen2; do rm -f a.logits b.logits # rows in pairs with a table, and biases
    runs "$grail" export "$gguf/$name.gguf" --type f32 -o $name-f32.gguf
    runs "$grail" logits "$gguf/$name.gguf" --ids ids.npy -o a.logits
    runs "$grail" logits $name-f32.gguf --ids ids.npy -o b.logits
    cmp a.logits b.logits || fail "the logits of $name differ"
done
refuses 1 "'demo.gguf' exists; remove it or give another name" "$grail" export "$demo/model" -o demo.gguf
