#!/usr/bin/env bash
# Windows of encoders that are a document each, and the vectors of documents: what --eval and verify
# say of them, against a plain computation.
#
# usage: test_documents.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

cp -r "$golden/bert" model
write_vocabulary model/tokenizer.json
# 60 lines of 3 to 20 tokens with [CLS] and [SEP]; 20 of them are the longest
for line in {1..60}; do
    printf 'word%d' $((line % 39 + 1))
    for ((word = 0; word < line % 30 && word < 17; word++)); do
        printf ' word%d' $(((line * 7 + word * word) % 39 + 1))
    done
    echo
done >text.txt

# compress_model DATA [OPTION]...: narrows the model in out
compress_model() {
    rm -rf out
    runs "$grail" compress model -o out --calib "$1" --sparsity 0.5 --align 1 "${@:2}"
}

check "a line is a window, and samples count lines"
compress_model text.txt
says "calibration: 60 documents, one in each window" stdout
compress_model text.txt --samples 16 --seed 3
says "calibration: 16 documents, one in each window" stdout
says '"samples": 16' out/report.json
says "16 documents, one in each window" out/README.md
mv out once
compress_model text.txt --samples 16 --seed 3
same_result once out
rm -rf once out
refuses_clean 1 "61 samples were requested, but the text holds only 60 documents; give more text or fewer samples" \
    "$grail" compress model -o out --calib text.txt --sparsity 0.5 --samples 61

check "JSON lines hold a document each, with line ends inside, and blank ones are left out"
printf '%s\n' '{"text": "word1 word2\nword3"}' '{"text": ""}' '{"text": " "}' '{"text": "word4"}' >few.jsonl
compress_model few.jsonl --quiet
says "calibration: 2 documents, one in each window, with 8 tokens" stdout
printf '%s\n' '{"text": ""}' '{"text": "\u200b"}' >none.jsonl
rm -rf out
refuses_clean 1 "none.jsonl: the tokenizer makes no token of any document" "$grail" compress model -o out \
    --calib none.jsonl --sparsity 0.5 --quiet
echo '{"messages": [{"role": "user", "content": "a"}]}' >chat.jsonl
refuses_clean 1 "chat.jsonl" "$grail" compress model -o out --calib chat.jsonl --sparsity 0.5 --quiet

check "several texts"
compress_model text.txt=0.75 --calib few.jsonl --samples 8 --quiet
says "calibration: 8 documents" stdout

check "a long document is cut, by the context or by what sentence-transformers says"
compress_model text.txt --context 8 --quiet
says "of them have the 8 tokens of the context; what is longer was cut off" stdout
echo '{"max_seq_length": 12, "do_lower_case": false}' >model/sentence_bert_config.json
compress_model text.txt --quiet
says "of them have the 12 tokens of the context" stdout
echo '{"max_seq_length": -12}' >model/sentence_bert_config.json
rm -rf out
refuses_clean 1 '"max_seq_length" is -12, expected a number of tokens' "$grail" compress model -o out \
    --calib text.txt --sparsity 0.5
rm model/sentence_bert_config.json

check "what joins documents, or needs windows of one length, is refused"
for protocol in wikitext2 ptb c4; do
    refuses_clean 1 "the protocol $protocol joins documents to one text, but each window of an encoder is a document; give plain or lines" \
        "$grail" compress model -o out --calib text.txt --sparsity 0.5 --protocol $protocol
done
refuses 1 "give token ids in a .npy file, whose rows have one length" "$grail" logits model --ids text.txt -o logits.safetensors

check "documents of one token, and one document"
printf 'a\nb\nc\nd\ne\nf\n' >letters.txt
compress_model letters.txt --quiet
says "6 documents, one in each window, with 18 tokens" stdout
echo word1 >single.txt
compress_model single.txt --quiet --eval single.txt
says "result     cosine " stdout
! grep -q nearest stdout || { show; fail "one document has no nearest one"; }
says "| this network | " out/README.md

check "an interrupted run goes on with the same bytes"
compress_model text.txt --quiet
mv out whole
killed_at out 2 "$grail" compress model --calib text.txt --sparsity 0.5 --align 1 --quiet
runs "$grail" compress model -o out --calib text.txt --sparsity 0.5 --align 1 --quiet --resume
cmp whole/model.safetensors out/model.safetensors
rm -rf out

check "statistics, plans and healing take documents"
runs "$grail" gram model -o all.gguf --calib text.txt --full
runs "$grail" compress model -o out --stats all.gguf --loop open --calib text.txt --sparsity 0.5 --align 1 --quiet
rm -rf out
runs "$grail" compress model -o out --calib text.txt --target-ratio 0.8 --budget search --align 1 --quiet
rm -rf out
runs "$grail" heal whole --teacher model -o out --calib text.txt --heal-steps 20 --heal-time 60s --quiet --eval text.txt
says "  narrow     cosine 0." stdout
says "  healed     cosine 0." stdout
rm -rf out
compress_model text.txt --quiet --heal block --heal-steps 10 --selector wanda++
rm -rf out

check "--eval says how near the vectors of documents are"
mkdir model/1_Pooling
echo '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}' >model/1_Pooling/config.json
compress_model text.txt --quiet --eval text.txt
says "quality on text.txt: cls-pooled vectors of 60 documents, compared with those of the dense network" stdout
says "  plain cut  cosine 0." stdout
says ", same nearest one " stdout
says 'Vectors (cls-pooled) of the 60 documents of `text.txt`, compared with those of the dense network' out/README.md
says "| this network | 0." out/README.md
says "the network was calibrated on this data" stderr
compress_model text.txt --quiet --json --eval text.txt
says '"measure": "cosine"' stdout
says '"documents": 60' stdout
says '"dense": null' stdout
rm -rf out
refuses_clean 1 "61 windows were requested, but the text holds 60" "$grail" compress model -o out --calib text.txt \
    --sparsity 0.5 --quiet --eval text.txt --windows 61
runs "$grail" compress model -o out --calib text.txt --sparsity 0.5 --eval text.txt --dry-run
says "--eval then measures three networks on 60 documents of text.txt" stdout
refuses 1 "grail verify compares the vectors that two encoders give for the documents of a text" "$grail" eval model --data text.txt

check "pooling that is not known is said"
echo '{"pooling_mode_max_tokens": true, "pooling_mode_mean_tokens": false}' >model/1_Pooling/config.json
runs "$grail" verify model whole --data text.txt
says "pools by max, which is not measured; vectors are means" stdout
echo '{"pooling_mode_max_tokens": true}' >model/1_Pooling/config.json
runs "$grail" verify model whole --data text.txt
says "pools by several ways" stdout
echo '{"pooling_mode": "cls"}' >model/1_Pooling/config.json
runs "$grail" verify model whole --data text.txt
says "cls-pooled vectors of 60 documents: cosine 0." stdout
echo '{"pooling_mode_cls_token": 3}' >model/1_Pooling/config.json
refuses 1 "pooling_mode_cls_token" "$grail" verify model whole --data text.txt
echo '[{"path": "../x", "type": "sentence_transformers.models.Pooling"}]' >model/modules.json
refuses 1 "is not the name of a folder beside the weights" "$grail" verify model whole --data text.txt
echo '[{"path": "pool", "type": "sentence_transformers.models.Pooling"}, {"path": "2_Dense", "type": "x.Dense"}]' >model/modules.json
mv model/1_Pooling model/pool
echo '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}' >model/pool/config.json
runs "$grail" verify model whole --data text.txt
says "cls-pooled" stdout
says "lists a module of type 'Dense', which is not applied to the vectors" stdout
rm -r model/pool model/modules.json

check "NaN in the weights, and in what comes of them"
copy_model whole damaged
patch_tensor damaged/model.safetensors encoder.layer.1.output.LayerNorm.bias 00 00 c0 7f
refuses 3 "holds a NaN or infinity at element 0" "$grail" verify model damaged --data text.txt
copy_model whole damaged
patch_tensor damaged/model.safetensors encoder.layer.1.output.LayerNorm.weight ff ff 7f 7f
refuses 3 "'damaged' gives a text a vector that is not finite; look for NaN or infinity in its weights" \
    "$grail" verify model damaged --data text.txt

command -v python3 >/dev/null || skip "python3 is missing: the plain computation was left out"
check "cosines and nearest ones against a plain computation on token ids"
write_ids ids.npy 12 9 96
for pooling in mean cls; do
    mkdir -p model/1_Pooling
    first=$([[ $pooling == cls ]] && echo true || echo false)
    mean=$([[ $pooling == cls ]] && echo false || echo true)
    echo "{\"pooling_mode_cls_token\": $first, \"pooling_mode_mean_tokens\": $mean}" >model/1_Pooling/config.json
    rm -f dense.safetensors narrow.safetensors
    runs "$grail" logits model --ids ids.npy -o dense.safetensors
    runs "$grail" logits whole --ids ids.npy -o narrow.safetensors
    runs "$grail" verify model whole --data ids.npy --json
    mv stdout verified
    runs python3 - $pooling verified <<'PYTHON'
import json, math, struct, sys
pooling, verified = sys.argv[1], json.load(open(sys.argv[2]))["pooled"]
def vectors(name):
    data = open(name, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    view = json.loads(data[8:8 + size])["logits"]
    count, length, width = view["shape"]
    values = struct.unpack(f"<{count * length * width}f", data[8 + size:])
    rows = [[values[(w * length + t) * width:][:width] for t in range(length)] for w in range(count)]
    return [states[0] if pooling == "cls" else [sum(c) / length for c in zip(*states)] for states in rows]
def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))
dense, narrow = vectors("dense.safetensors"), vectors("narrow.safetensors")
count = len(dense)
cosines = [cosine(a, b) for a, b in zip(dense, narrow)]
mean = sum(cosines) / count
interval = 1.959964 * math.sqrt(sum((c - mean) ** 2 for c in cosines) / count / (count - 1))
def nearest(of):
    return [max((k for k in range(count) if k != i), key=lambda k: cosine(of[i], of[k])) for i in range(count)]
same = sum(a == b for a, b in zip(nearest(dense), nearest(narrow))) / count
expected = {"mean_cosine": mean, "least_cosine": min(cosines), "cosine_interval": interval, "same_nearest": same}
print(expected, verified)
assert verified["pooling"] == pooling and verified["windows"] == count
for key, value in expected.items():
    assert abs(verified[key] - value) < 1e-5, key
assert 0 < same < 1
PYTHON
done
echo "all passed"
