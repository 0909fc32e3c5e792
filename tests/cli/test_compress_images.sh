#!/usr/bin/env bash
# grail compress on the demonstration network of images: the order of the repairs, what lies in the
# output, and what is refused.
source "$(dirname "$0")/lib.sh"

cnn=$demo/vision/cnn.pth
calibration=$demo/vision/calibration
images=$demo/vision/test

top1() {
    runs "$grail" eval "$1" --data "$images" --images 300 --json
    field top1 stdout
}

check "half of all channels removed, with four repairs"
for repair in "none" "none --repair" "grail" "full"; do
    read -ra words <<<"$repair"
    runs "$grail" compress "$cnn" -o "out-${repair// /}" --calib "$calibration" --sparsity 0.5 \
        --sites conv,stream --selector magnitude-l1 --compensate "${words[@]}" --quiet
    says "torch.load" stdout
done
none=$(top1 out-none) repaired=$(top1 out-none--repair) grail_top1=$(top1 out-grail)
full=$(top1 out-full)
holds "$none < $repaired && $none < $grail_top1 && $grail_top1 < $full && $full > 0.7"

check "the same name and format, and no config.json that was not there"
[[ $(ls out-full) == $'README.md\ncalibration.hashes\ncnn.pth\ngrail.json\nplan.json\nreport.json' ]] || fail "$(ls out-full)"
runs "$grail" inspect out-full --json
holds "$(field parameters stdout) < 120000"

check "an open loop gives a network that opens, too"
runs "$grail" compress "$cnn" -o open --calib "$calibration" --sparsity 0.5 --sites conv,stream \
    --selector fold --loop open --repair --quiet
holds "$(top1 open) > $none"

check "one CIFAR batch is a set of images, whatever its split"
for i in $(seq 32); do
    printf '\3' && head -c 3072 /dev/urandom
done >data_batch_1.bin
runs "$grail" compress "$cnn" -o batch --calib data_batch_1.bin --sparsity 0.25 --samples 16 --quiet

check "options that do not fit the network are refused"
printf 'words\n' >text.txt
refuses 1 "the model reads images: give CIFAR batches, a folder of JPEG and PNG files, or arrays (.npy)" \
    "$grail" compress "$cnn" -o no --calib "$demo/calibration.txt" --sparsity 0.5
refuses 1 "this network reads images; give a directory of images, CIFAR batches or arrays (.npy) to calibrate on (--calib)" \
    "$grail" compress "$cnn" -o no --sparsity 0.5
refuses 2 "--sites takes ffn, heads, conv, stream, experts, latent, values or groups, not 'neck'" \
    "$grail" compress "$cnn" -o no --calib "$calibration" --sparsity 0.5 --sites neck
refuses 1 "use the stream score 'first' (--stream-score)" "$grail" compress "$cnn" -o no --calib "$calibration" \
    --sparsity 0.5 --sites stream --selector wanda --stream-score all
[[ ! -e no && ! -e no.partial ]] || fail "a refused run left something behind"

check "the description of its images goes with a network that has no config.json, and into the report"
mkdir clip
cp "$golden/../vision/open-clip/model.safetensors" clip/open_clip_model.safetensors
printf '{"model_cfg": {"quick_gelu": true, "vision_cfg": {"image_size": 24}},
 "preprocess_cfg": {"mean": [0.5, 0.25, 0.5], "resize_mode": "squash"}}' >clip/open_clip_config.json
runs "$grail" compress clip -o clip-out --set head_dim=16 --calib "$calibration" --samples 16 \
    --sparsity ffn=0.3 --quiet
grep -q "torch.load" stdout && { show; fail "no torch file was written"; }
says "safetensors   yes" stdout
grep -q "grail: note" stderr && { show; fail "nothing was assumed"; }
cmp clip/open_clip_config.json clip-out/open_clip_config.json || fail "the description was changed"
says '"origin": "open_clip_config.json"' clip-out/report.json
runs "$grail" inspect clip-out
says "both edges to 24, bicubic, crop 24; times 0.00392157, mean 0.5 0.25 0.5" stdout
says "activation: quick_gelu" stdout

# What transformers opens are directories whose residual streams and insides of blocks were cut alike.
of_hugging_face() {
    local loads=$1 network=$2
    shift 2
    rm -rf hf
    runs "$grail" compress "$network" -o hf --calib "$calibration" --samples 32 --quiet "$@"
    grep -q "grail: note" stderr && { show; fail "nothing was assumed"; }
    grep -A 1 '"loader": "transformers"' hf/report.json | grep -q "\"loads\": $loads" ||
        fail "the verdict is not $loads: $*"
    runs "$grail" verify "$network" hf --quiet
    runs "$grail" eval hf --data "$images" --images 16 --quiet
    rm -f hf.onnx
    runs "$grail" export hf -o hf.onnx
}

for kind in basic bottleneck; do
    network=$golden/../vision/hf-resnet-$kind
    check "a directory of Hugging Face's ResNets, $kind blocks, is narrowed in every way"
    of_hugging_face false "$network" --sparsity 0.5 --sites conv
    of_hugging_face false "$network" --sparsity 0.5 --sites stream --repair
    of_hugging_face true "$network" --sparsity 0.5 --sites conv,stream --selector fold
    of_hugging_face true "$network" --sparsity 0.5 --sites conv,stream --heal block,model --heal-steps 2
    mv hf "$kind-once"
    of_hugging_face true "$kind-once" --sparsity 0.5 --sites conv,stream --align 1
    runs "$grail" plan "$network" -o "$kind.json" --calib "$calibration" --samples 32 --target-ratio 0.6 --quiet
    of_hugging_face false "$network" --plan "$kind.json"
done

check "its configuration then states all that the class is built from, and without one where it belongs"
copy_model "$golden/../vision/hf-resnet-basic" hf-short
for key in layer_type depths hidden_sizes embedding_size id2label; do
    python3 -c "import json, sys; d = json.load(open(sys.argv[1])); d.pop(sys.argv[2])
json.dump(d, open(sys.argv[1], 'w'))" hf-short/config.json $key
done
of_hugging_face true hf-short --sparsity 0.5 --sites conv,stream
[[ $(tr -d ' \n' <hf/config.json) == *'"hidden_sizes":[4,8],"depths":[1,2],"embedding_size":4,"layer_type":"basic","num_labels":10'* ]] ||
    { cat hf/config.json >&2; fail "config.json lacks what it is built from"; }
rm hf-short/config.json
of_hugging_face true hf-short --sparsity 0.5 --sites conv,stream --size 40
says "as resnet, once grail.json is copied to config.json" hf/report.json
grep -q "from_pretrained" hf/README.md || exit 0
fail "the card has lines that open a directory with config.json"
