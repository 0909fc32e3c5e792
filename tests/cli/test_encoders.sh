#!/usr/bin/env bash
# Encoders of text: the zero-column identity of every family, what a repair gains, text by their own
# tokenizers, files that lie, and commands that make no sense for them.
#
# usage: test_encoders.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

write_ids ids.npy 32 24 96 # roberta's padding among them: it is a token like the others

narrow() {
    rm -rf out
    runs "$grail" compress "$golden/$1" -o out --calib ids.npy --align 1 --quiet "${@:2}"
}

for family in bert bert-masked roberta xlm-roberta distilbert modernbert modernbert-masked; do
    check "$family: the zero-column identity holds"
    narrow $family --compensate none --sparsity 0.5
    runs "$grail" verify "$golden/$family" out --data ids.npy --windows 8 --json
    says '"holds": true' stdout
    plain=$(field relative_error stdout)
    plain_cosine=$(field mean_cosine stdout)
    check "$family: the repair brings hidden states nearer"
    narrow $family --compensate full --sparsity 0.5
    runs "$grail" verify "$golden/$family" out --data ids.npy --windows 8 --json
    holds "$(field relative_error stdout) < 0.9 * $plain"
    holds "$(field mean_cosine stdout) > $plain_cosine"
    runs "$grail" verify "$golden/$family" out
    says " tokens: max abs difference" stdout
    says "mean-pooled vectors of 4 windows: cosine 0." stdout
done

check "a run is resumed with the same bytes"
mv out whole
killed_at out 2 "$grail" compress "$golden/modernbert-masked" --calib ids.npy --align 1 --quiet --sparsity 0.5
runs "$grail" compress "$golden/modernbert-masked" -o out --calib ids.npy --align 1 --quiet --sparsity 0.5 --resume
cmp whole/model.safetensors out/model.safetensors
rm -rf whole out

check "commands that need a next token refuse in plain words"
needs="is an encoder: it gives hidden states, and no scores of a next token, which"
refuses 1 "$needs perplexity is made of" "$grail" eval "$golden/bert" --data ids.npy
run "$grail" generate "$golden/bert" --prompt a
((code == 1)) || fail "generate ends with $code"
says "$needs generating text needs" stderr
refuses 1 "cannot compare logits with hidden states" "$grail" verify "$golden/bert" "$golden/qwen3"
echo '{"grail_plan": 1, "sites": [{"site": "model.layers.0.mlp.down_proj", "kept": 0}]}' >drop.json
refuses_clean 1 "a checkpoint of a bert network cannot say that a block lacks a sublayer" "$grail" compress \
    "$golden/bert" -o out --calib ids.npy --plan drop.json

# A tokenizer of 96 pieces, as many as the networks have tokens.
cp -r "$golden/bert" model
write_vocabulary model/tokenizer.json
for line in {1..300}; do echo "Some words, number $line, of a text about nothing."; done >text.txt

check "text is read by the tokenizer of the directory"
runs "$grail" compress model -o out --calib text.txt --context 32 --samples 16 --sparsity 0.5 --quiet
runs "$grail" verify model out --data text.txt --context 32 --windows 4
says "hidden states of 128 tokens" stdout
[[ -e out/tokenizer.json ]] || fail "the result lacks its tokenizer"
rm -rf out

check "the windows of an encoder have no other frame"
refuses_clean 1 "already have the special tokens" "$grail" compress model -o out --calib text.txt --context 32 \
    --sparsity 0.5 --window-bos
refuses_clean 1 "it must be at least 3" "$grail" compress model -o out --calib text.txt --context 2 --sparsity 0.5
refuses_clean 1 "is longer than the model's 64 positions" "$grail" compress model -o out --calib text.txt \
    --context 65 --sparsity 0.5

check "widths that groups of integers do not fill"
refuses_clean 1 "reads 48 features, which groups of 32 weights do not fill" "$grail" compress "$golden/bert" \
    -o out --calib ids.npy --sparsity 0.5 --quantize w8a16

# A bert of random weights whose widths are multiples of 32, with a pooler.
if command -v python3 >/dev/null; then
    mkdir wide
    python3 - wide <<'PYTHON'
import json, pathlib, random, struct, sys
place, (hidden, inner, vocabulary) = pathlib.Path(sys.argv[1]), (32, 64, 96)
settings = {"model_type": "bert", "vocab_size": vocabulary, "hidden_size": hidden,
            "intermediate_size": inner, "num_hidden_layers": 1, "num_attention_heads": 2,
            "max_position_embeddings": 64, "hidden_act": "gelu"}
shapes = {"embeddings.word_embeddings": (vocabulary, hidden),
          "embeddings.position_embeddings": (64, hidden),
          "embeddings.token_type_embeddings": (2, hidden), "embeddings.LayerNorm": (hidden,)}
layer = "encoder.layer.0."
for name in ("query", "key", "value"):
    shapes[f"{layer}attention.self.{name}"] = (hidden, hidden)
shapes |= {f"{layer}attention.output.dense": (hidden, hidden),
           f"{layer}attention.output.LayerNorm": (hidden,),
           f"{layer}intermediate.dense": (inner, hidden), f"{layer}output.dense": (hidden, inner),
           f"{layer}output.LayerNorm": (hidden,), "pooler.dense": (hidden, hidden)}
random.seed(1)
tensors, data = {}, b""
def add(name, shape, mean):
    global data
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    begin = len(data)
    data += struct.pack(f"<{count}f", *(random.gauss(mean, 0.3) for _ in range(count)))
    tensors[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [begin, len(data)]}
for name, shape in shapes.items():
    add(f"{name}.weight", shape, 1.0 if "Norm" in name else 0.0)
    if "_embeddings" not in name:
        add(f"{name}.bias", shape[:1], 0.0)
header = json.dumps(tensors).encode()
(place / "config.json").write_text(json.dumps(settings))
(place / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + data)
PYTHON
    check "matrices of the layers are rounded in the run, and what stands outside them is named"
    runs "$grail" compress wide -o out --calib ids.npy --sites ffn --sparsity 0.5 --align 32 --quantize w8a16 --quiet
    says '"re:(?!.*layers?\\.[0-9]+\\.)"' out/config.json
    runs "$grail" compress wide -o plain --calib ids.npy --sites ffn --sparsity 0.5 --align 32 --quiet
    runs "$grail" verify plain out --data ids.npy --windows 8 --json
    holds "$(field relative_error stdout) < 0.02"
    rm -rf out plain
fi

check "a directory whose tokenizer is left to transformers"
rm model/tokenizer.json
echo a >model/vocab.txt
refuses_clean 1 "model: has no tokenizer.json, and its vocab.txt is not read; transformers makes one of it, AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)" \
    "$grail" compress model -o out --calib text.txt --context 32 --sparsity 0.5
runs "$grail" compress model -o out --calib ids.npy --sparsity 0.5 --quiet # ids need none
rm -r out

check "a missing table of token types"
sed -i 's/token_type_embeddings/token_tipe_embeddings/' model/model.safetensors
refuses 1 "embeddings.token_type_embeddings.weight" "$grail" inspect model

check "a file that ends too early"
cp "$golden/bert/model.safetensors" model/
truncate -s -8 model/model.safetensors
refuses 1 "model.safetensors" "$grail" inspect model

# config CHANGE TEXT: a configuration that must be refused
config() {
    sed "$1" "$golden/$2/config.json" >model/config.json
    refuses 1 "$3" "$grail" inspect model
}
check "configurations that cannot be right"
rm model/vocab.txt
cp "$golden/bert/model.safetensors" model/
config 's/"vocab_size"/"position_embedding_type": "relative_key", &/' bert \
    '"position_embedding_type" is "relative_key": scores that depend on the distance of positions'
config 's/"vocab_size"/"is_decoder": true, &/' bert '"is_decoder" is true'
config 's/"vocab_size"/"type_vocab_size": 0, &/' bert '"type_vocab_size" is 0'
config 's/"vocab_size"/"type_vocab_size": 5, &/' bert 'token_type_embeddings.weight'
config 's/"num_hidden_layers": 2/"num_hidden_layers": 1/' bert 'encoder.layer.1.'
cp "$golden/modernbert/model.safetensors" model/
config 's/"sliding_attention",/&&/' modernbert '"layer_types" has 6 members, but there are 4 layers'
config 's/"vocab_size"/"norm_bias": true, &/' modernbert '"norm_bias" is true'
cp "$golden/roberta/model.safetensors" model/
config 's/"vocab_size"/"pad_token_id": 7, &/' roberta '"pad_token_id" is 7, expected 1'
config 's/"max_position_embeddings": 64/"max_position_embeddings": 2/' roberta 'expected 3 to'
echo "all passed"

check "an encoder has no cache, so the summary has no line of one"
runs "$grail" compress "$golden/bert" -o none --sparsity 0.5 --dry-run
says "MACs per token" stdout
! grep -q "KV bytes" stdout || { show; fail "bytes of a cache that is not there"; }
