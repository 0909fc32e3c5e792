#!/usr/bin/env bash
# Damaged and unsuitable models: refused in one line that names the file, the tensor or the key, what
# was expected and what was found; nothing is left behind.
#
# usage: test_bad_model.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

write_ids ids.npy 8 16 96
weights=model/model.safetensors

fresh() {
    copy_model "$golden/${1:-llama3}" model
}

# bad CODE TEXT OPTIONS...
bad() {
    local code=$1 text=$2
    shift 2
    refuses_clean "$code" "$text" "$grail" compress model -o out --calib ids.npy --sparsity 0.5 \
        --align 1 --quiet "$@"
}

check "weights that are cut short"
fresh
for size in 0 5; do
    truncate -s $size $weights
    bad 1 "$weights: has $size bytes, too few"
done
fresh
truncate -s 100 $weights
bad 1 "$weights: the header ends at byte 2128, but the file has 100 bytes: truncated?"
fresh
truncate -s 200000 $weights
bad 1 "$weights: tensor 'model.layers.1.mlp.gate_proj.weight': ends at byte 201472 of the data, but the data has 197872 bytes: truncated?"
fresh
truncate -s 300000 $weights
bad 1 "$weights: the tensors end at byte 271616 of the data, but the data has 297872 bytes"

check "headers that contradict the file"
fresh
patch $weights 0 ff ff ff ff ff ff ff 7f
bad 1 "$weights: claims a header of 9223372036854775807 bytes"
fresh
patch $weights 0 ff ff 03
bad 1 "$weights: header"
fresh
replace_header $weights '{"__metadata__"' '["__metadata__"'
bad 1 "$weights: header: not valid JSON"
fresh
replace_header $weights '[24576,49152]' '[24575,49151]'
bad 1 "$weights: tensor 'model.embed_tokens.weight' begins at byte 24575 of the data, but the one before it ends at 24576: overlap"
fresh
replace_header $weights '"shape":[96,64]' '"shape":[64,64]'
bad 1 "$weights: tensor 'lm_head.weight': [64, 64] elements of F32 take 16384 bytes, but its data_offsets give it 24576"
fresh
replace_header $weights '"dtype":"F32"' '"dtype":"F99"'
bad 1 "$weights: tensor 'lm_head.weight': dtype \"F99\" is unknown"
fresh
replace_header $weights '"dtype":"F32"' '"dtype":"I32"'
bad 1 "tensor 'lm_head.weight' has dtype I32; the supported dtypes are F64, F32, F16 and BF16 (a quantised checkpoint cannot be narrowed; use the checkpoint from before quantisation)"
fresh
replace_header $weights '"model.layers.0.mlp.down_proj' '"model.layers.0.mlp.town_proj'
bad 1 "tensor 'model.layers.0.mlp.down_proj.weight' is missing"

check "files that are missing or not where the index says"
fresh
rm $weights model/golden.safetensors
bad 1 "'model' holds neither model.safetensors nor model.safetensors.index.json"
touch model/pytorch_model.bin
bad 1 "pytorch_model.bin: is not a torch checkpoint"
fresh
rm model/config.json
bad 1 "model: its tensors fit no known family"
fresh llama3-sharded
rm model/model-00002-of-00002.safetensors
bad 1 "shard 'model-00002-of-00002.safetensors' is missing"
fresh llama3-sharded
sed -i 's/model-00002-of-00002.safetensors/model-00001-of-00002.safetensors/' model/*.index.json
bad 1 "lists tensor 'model.layers.1.input_layernorm.weight', but 'model-00001-of-00002.safetensors' lacks it"
fresh llama3-sharded
sed -i 's#"model-00002-of-00002.safetensors"#"../x.safetensors"#' model/*.index.json
bad 1 "'../x.safetensors', is not a plain file name"
refuses_clean 1 "'nowhere' is neither a model directory nor a weights file" "$grail" compress nowhere -o out --sparsity 0.5
printf 'GGUF\3\0\0\0' >m.gguf
refuses_clean 1 "m.gguf: the number of tensors at byte 8 takes 8 bytes, but the file has 8 bytes: truncated?" "$grail" compress m.gguf -o out --sparsity 0.5
refuses_clean 1 "ids.npy: is an array of NumPy" "$grail" compress ids.npy -o out --sparsity 0.5

# config SED_EXPRESSION TEXT
config() {
    fresh
    sed -i "$1" model/config.json
    ! cmp -s model/config.json "$golden/llama3/config.json" || fail "'$1' changes nothing"
    bad 1 "$2"
}
check "a config.json that does not fit the weights"
config 's/"intermediate_size": 80/"intermediate_size": 88/' \
    "tensor 'model.layers.0.mlp.gate_proj.weight' has shape [80, 64], but config.json needs shape [88, 64]"
config 's/"num_hidden_layers": 2/"num_hidden_layers": 3/' \
    "tensor 'model.layers.2.input_layernorm.weight' is missing"
config 's/"num_hidden_layers": 2/"num_hidden_layers": 1/' \
    "tensor 'model.layers.1.input_layernorm.weight' is of layer 1, but the last one that config.json describes is layer 0"
check "missing and impossible values in config.json"
config 's/"num_key_value_heads": 4/"num_key_value_heads": 3/' \
    "model/config.json: layer 0: 8 attention heads are not divisible by 3"
config 's/"num_attention_heads": 8/"num_attention_heads": 0/' \
    "model/config.json: \"num_attention_heads\" is 0, expected 1 to"
config 's/"hidden_size": 64/"hidden_size": 6.4/' "model/config.json: \"hidden_size\" is not an integer"
config '/"hidden_size"/d' "model/config.json: \"hidden_size\" is missing"
config 's/"silu"/"mish"/' "hidden_act \"mish\" is not supported; the supported values are silu"
config 's/"llama3"/"mrope"/' "rotary scaling \"mrope\" is not supported"
config 's/^{/[/' "model/config.json: not valid JSON"
check "an unknown family"
config 's/"llama"/"electra"/' \
    "model/config.json: unknown model_type \"electra\"; expected one of llama, mistral, qwen2, qwen3"
config 's/"llama"/"gemma3n"/' "the nearest is llama, but gemma3n has several residual streams"
config 's/^{/{"quantization_config": {"quant_method": "gptq", "bits": 4},/' \
    "model/config.json: \"quantization_config\" says that its weights are quantised (gptq, 4 bits)"
config '/"model_type"/d' "expected one of llama, mistral, qwen2, qwen3"

# poison MODEL TENSOR BYTES...: overwrites the data after the first 8 bytes
poison() {
    fresh "$1"
    patch $weights $(($(tensor_offset $weights "$2") + 8)) "${@:3}"
}
check "NaN and infinity in weights: the tensor is named, in the first block and behind finished ones"
for layer in 0 1; do
    for part in mlp.down_proj mlp.up_proj self_attn.k_proj input_layernorm; do
        poison llama3 model.layers.$layer.$part.weight 00 00 c0 7f
        bad 3 "tensor 'model.layers.$layer.$part.weight' holds a NaN or infinity at element 2"
    done
done
poison llama3 model.layers.1.mlp.up_proj.weight 00 00 80 ff
bad 3 "'model.layers.1.mlp.up_proj.weight' holds a NaN or infinity" --selector magnitude-l2 \
    --compensate none
poison llama-mha model.layers.1.mlp.up_proj.weight 00 7c
bad 3 "'model.layers.1.mlp.up_proj.weight' holds a NaN or infinity at element 4"
poison llama3-bf16 model.layers.1.mlp.up_proj.weight c0 7f
bad 3 "'model.layers.1.mlp.up_proj.weight' holds a NaN or infinity at element 4"
poison llama3 lm_head.weight 00 00 80 7f
refuses 3 "'lm_head.weight' holds a NaN or infinity at element 2" "$grail" eval model --data ids.npy
check "NaN and infinity in tensors that are copied, of any dtype: an error, or named in report.json"
copied=("$grail" compress model -o out --selector magnitude-l1 --compensate none --sparsity)
for name in model.norm.weight model.embed_tokens.weight; do
    poison llama3 $name 00 00 80 7f
    refuses_clean 3 "model/model.safetensors: tensor '$name' holds a NaN or infinity at element 2; the checkpoint is damaged; where nothing computes with the tensor, it can be copied as it is (--keep-non-finite)" \
        "${copied[@]}" 0.5
    runs "${copied[@]}" 0.5 --keep-non-finite
    [[ $(grep -A1 '"non_finite"' out/report.json | tail -n 1) == *"\"$name\""* ]] || fail "not in report.json"
    rm -r out
done
poison llama3 model.layers.1.mlp.up_proj.weight 00 00 c0 7f
refuses_clean 3 "tensor 'model.layers.1.mlp.up_proj.weight' holds a NaN" "${copied[@]}" 0
refuses_clean 3 "tensor 'model.layers.1.mlp.up_proj.weight' holds a NaN" "${copied[@]}" 0.5 --keep-non-finite \
    --align 1 --quiet
check "the message stands on a line of its own, behind the progress"
run "$grail" compress model -o out --calib ids.npy --sparsity 0.5 --align 1 --keep-non-finite
((code == 3)) || fail "exit code $code"
grep -q '^grail: ' stderr || { show; fail "the message does not begin a line"; }
check "activations that overflow: the layer is named"
poison llama3 model.layers.1.mlp.gate_proj.weight ff ff 7f 7f ff ff 7f 7f ff ff 7f 7f
bad 3 "the output of 'model.layers.1.mlp.gate_proj.weight' is NaN or infinite"

check "a site whose units all score equal: a warning, and report.json says it"
fresh
dd if=/dev/zero of=$weights bs=1 seek="$(tensor_offset $weights model.layers.1.mlp.down_proj.weight)" \
    count=$((80 * 64 * 4)) conv=notrunc status=none
runs "$grail" compress model -o out --calib ids.npy --sparsity 0.5 --align 1 --selector magnitude-l2
says "ffn 80 -> 40" stderr
says "[scores equal]" stderr
says "grail: warning: in 1 of 4 narrowed sites, such as model.layers.1.mlp.down_proj, all units score equal under selector magnitude-l2, so the first ones were kept; choose another --selector, or calibrate on more samples" stderr
[[ $(grep -c '"tied": true' out/report.json) == 1 ]] || fail "report.json does not name the tied site once"

check "a head beside embeddings that config.json ties is the head, in results, too"
fresh
own=$(perplexity model ids.npy)
sed -i 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' model/config.json
grep -q '"tie_word_embeddings": true' model/config.json || fail "config.json does not tie"
[[ $(perplexity model ids.npy) == "$own" ]] || fail "another head was read"
says "tensor 'lm_head.weight' differs from 'model.embed_tokens.weight'; it is read as the head" stderr
rm -rf out
runs "$grail" compress model -o out --calib ids.npy --sparsity 0 --compensate none --quiet
grep -q '"tie_word_embeddings": false' out/config.json || fail "the result ties"
cmp model/model.safetensors out/model.safetensors
rm -rf out
write_tokenizer model/tokenizer.json
runs "$grail" export model -o own.gguf --type f16
grep -q output.weight own.gguf || fail "the file has no head"
