#!/usr/bin/env bash
# grail verify: a model pruned without repair equals the dense model with its consumers' columns
# zeroed, in every family and both ways of cutting grouped heads; one changed value is noticed.
#
# usage: test_verify.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

write_ids ids.npy 16 32 96

cut_model() {
    rm -rf out
    runs "$grail" compress "$golden/$1" -o out --calib ids.npy --align 1 --quiet "${@:2}"
}

families=(llama-mha llama-mqa llama3 llama3-bf16 llama3-sharded mistral qwen2 qwen3 gemma phi3 gpt2 glm4 gpt-neox falcon)
for gqa in kv-groups query-per-group; do
    for family in "${families[@]}"; do
        check "$family, $gqa: the zero-column identity holds"
        cut_model $family --compensate none --gqa $gqa --sparsity 0.5
        runs "$grail" verify "$golden/$family" out
        says "zero-column identity: max abs difference" stdout
        says ", holds (tolerance 0.001)" stdout
        runs "$grail" verify "$golden/$family" out --data ids.npy --windows 3 --json
        says '"holds": true' stdout
        holds "$(field max_abs stdout) > 0"
    done
done

# tensors that one unit's rows, or a kept column, lie in
for part in mlp.down_proj mlp.gate_proj self_attn.o_proj self_attn.q_proj self_attn.v_proj; do
    check "one value of $part is changed: exit code 3"
    cut_model llama3 --compensate none --sparsity 0.5
    weights=out/model.safetensors
    patch_tensor $weights model.layers.1.$part.weight 00 00 40 40
    run "$grail" verify "$golden/llama3" out
    ((code == 3)) || { show; fail "exit code $code"; }
    says "DOES NOT HOLD" stdout
    run "$grail" verify "$golden/llama3" out --json
    ((code == 3)) || { show; fail "exit code $code with --json"; }
    says '"holds": false' stdout
done

check "a wider tolerance lets it pass"
runs "$grail" verify "$golden/llama3" out --tolerance 1e6

check "the identity does not apply to repaired or folded models, which are compared by their logits"
for options in "--compensate grail" "--compensate none --selector fold"; do
    read -ra words <<<"$options"
    cut_model llama3 --sparsity 0.5 "${words[@]}"
    runs "$grail" verify "$golden/llama3" out
    says "does not apply" stdout
    holds "$(grep -o 'max abs difference [0-9.e+-]*' stdout | cut -d' ' -f4) > 0"
done

check "a model equals itself"
runs "$grail" verify "$golden/llama3" "$golden/llama3" --json
holds "$(field max_abs stdout) == 0 && $(field mean_kl stdout) == 0 && $(field top1_agreement stdout) == 1"

check "nothing cut: the weights' files have the model's bytes"
for family in "${families[@]}"; do
    cut_model $family --sparsity 0
    for file in "$golden/$family"/model*.safetensors; do
        cmp "$file" "out/${file##*/}" || fail "$file differs"
    done
    runs "$grail" verify "$golden/$family" out --json
    holds "$(field max_abs stdout) == 0"
done

check "the language model of a larger network gives a language model"
mkdir larger
python3 - "$golden/llama3" <<'PYTHON'
import json, struct, sys
data = open(sys.argv[1] + "/model.safetensors", "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + size])
renamed = {"language_model." + name if name != "__metadata__" else name: value for name, value in header.items()}
end = max(value["data_offsets"][1] for name, value in header.items() if name != "__metadata__")
renamed["vision_tower.weight"] = {"dtype": "F32", "shape": [2], "data_offsets": [end, end + 8]}
text = json.dumps(renamed).encode()
open("larger/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data[8 + size:] + bytes(8))
config = {"model_type": "llava", "text_config": json.load(open(sys.argv[1] + "/config.json"))}
json.dump(config, open("larger/config.json", "w"))
PYTHON
write_ids larger.npy 4 32 96
for from in larger "$golden/llama3"; do
    rm -rf of
    runs "$grail" compress "$from" -o of --sparsity 0.5 --calib larger.npy --context 32 --align 1 --quiet --threads 1
    cp of/model.safetensors "of-${from##*/}" && cp of/config.json "config-${from##*/}"
    runs "$grail" logits of --ids larger.npy -o "logits-${from##*/}"
done
cmp logits-larger logits-llama3 || fail "another result"
grep -q '"model_type": *"llama"' config-larger || fail "$(cat config-larger)"
! grep -q "language_model\|vision_tower" of-larger || fail "names of the larger network are left"
runs "$grail" verify larger of

check "eval --against: the difference of two networks on the same windows has an error of its own"
cut_model llama3 --compensate none --sparsity 0.5
runs "$grail" eval out --data ids.npy --against "$golden/llama3" --json
says '"difference_error": ' stdout
mv stdout both
value() { python3 -c "import json, sys; d = json.load(open('$1')); print($2)"; }
holds "$(value both "d['against']['difference'] - (d['mean_nll'] - d['against']['mean_nll'])") ^ 2 < 1e-18"
holds "0 < $(value both "d['against']['difference_error']")"
runs "$grail" eval out --data ids.npy --against "$golden/llama3" --windows 1 --json
[[ $(value stdout "d['against']['difference_error']") == None ]] || fail "one window has an error"
one=$(value stdout "d['against']['difference']")
runs "$grail" eval out --data ids.npy --against "$golden/llama3" --windows 2 --json
two=$(value stdout "abs($one - d['against']['difference']) - d['against']['difference_error']") # half of what two differ by
holds "$two ^ 2 < 1e-18"
runs "$grail" eval out --data ids.npy --against "$golden/llama3"
says "difference   of the mean NLL " stdout
says ", the standard error over 16 windows of both" stdout
runs "$grail" eval "$golden/llama3" --data ids.npy --against "$golden/llama3"
says "of the mean NLL +0.000000 +- 0.000000" stdout
says "1.0000 times the perplexity" stdout
runs "$grail" eval out --data ids.npy --json
[[ $(value stdout "d['against']") == None ]] || fail "something is compared that nobody named"
rm -r out both
refuses 1 "no-model" "$grail" eval "$golden/llama3" --data ids.npy --against no-model
copy_model "$demo/model" other-words
echo >>other-words/tokenizer.json
refuses 1 "tokenizers of the two models differ" "$grail" eval "$demo/model" --data "$demo/held-out.txt" --context 32 \
    --windows 2 --against other-words
refuses 2 "--against" "$grail" eval "$demo/vision/cnn.pth" --data "$demo/vision/test" --against "$demo/vision/cnn.pth"
