#!/usr/bin/env bash
# grail verify on networks that read images: a network pruned without repair equals the dense
# network with its consumers' columns zeroed, for every kind of site; one changed value is noticed.
#
# usage: test_verify_images.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

cnn=$demo/vision/cnn.pth
vit=$demo/vision/vit
calibration=$demo/vision/calibration
images=$demo/vision/test

cut_network() {
    rm -rf out
    runs "$grail" compress "$1" -o out --calib "$calibration" --sparsity 0.5 --align 1 --quiet "${@:2}"
}

# assert_identity DENSE: of out, on random images and on those of the demonstration
assert_identity() {
    runs "$grail" verify "$1" out
    says "logits on 8 images: max abs difference" stdout
    says "zero-column identity: max abs difference" stdout
    says ", holds (tolerance 0.001)" stdout
    runs "$grail" verify "$1" out --data "$images" --images 40 --json
    [[ $(field images stdout) == 40 ]] || fail "$(field images stdout) images"
    says '"holds": true' stdout
    holds "$(field max_abs stdout) > 0.1 && $(field mean_kl stdout) > 0"
    holds "$(field max_kl stdout) >= $(field mean_kl stdout) && $(field top1_agreement stdout) <= 1"
}

# assert_no_identity DENSE NARROW
assert_no_identity() {
    run "$grail" verify "$1" "$2"
    ((code == 3)) || { show; fail "exit code $code"; }
    says "DOES NOT HOLD" stdout
    run "$grail" verify "$1" "$2" --json
    ((code == 3)) || { show; fail "exit code $code with --json"; }
    says '"holds": false' stdout
}

for network in basic bottleneck; do
    for sites in conv stream conv,stream; do
        check "a ResNet of Hugging Face, $network, $sites: the zero-column identity holds"
        cut_network "$golden/../vision/hf-resnet-$network" --compensate none --sites $sites --selector random
        assert_identity "$golden/../vision/hf-resnet-$network"
    done
done

for sites in conv stream conv,stream; do
    check "the demonstration CNN, $sites: the zero-column identity holds"
    cut_network "$cnn" --compensate none --sites $sites --selector magnitude-l1
    assert_identity "$cnn"
done

check "a report of other channels than were kept: exit code 3"
mv out magnitude
cut_network "$cnn" --compensate none --sites conv,stream --selector random
cp magnitude/report.json out/report.json
assert_no_identity "$cnn" out
runs "$grail" verify "$cnn" out --tolerance 1e6
check "a report of another network is refused"
rm -r out/report.json
sed 's/"layer1.0.conv1"/"layer1.0.conv9"/' magnitude/report.json >out/report.json
run "$grail" verify "$cnn" out
((code == 1)) || { show; fail "exit code $code"; }
says "'layer1.0.conv9' is not a site of the dense model; give the model that this one was narrowed from" stderr

for sites in ffn heads ffn,heads; do
    check "the demonstration ViT, $sites: the zero-column identity holds"
    cut_network "$vit" --compensate none --sites $sites --selector random
    assert_identity "$vit"
done

layer=vit.encoder.layer.1
for part in attention.attention.query attention.attention.value attention.output.dense \
    intermediate.dense output.dense; do
    check "one value of $part is changed: exit code 3"
    copy_model out damaged
    weights=damaged/model.safetensors
    patch_tensor $weights $layer.$part.weight 00 00 40 40
    assert_no_identity "$vit" damaged
done

check "the identity does not apply to fitted or folded networks, or to new BatchNorm statistics"
for options in "--compensate grail" "--compensate none --selector fold" "--compensate none --repair"; do
    read -ra words <<<"$options"
    cut_network "$cnn" --sites conv,stream --selector magnitude-l1 "${words[@]}"
    runs "$grail" verify "$cnn" out --data "$images" --images 20
    says "logits on 20 images" stdout
    says "does not apply" stdout
    runs "$grail" verify "$cnn" out --json
    says '"zero_column_identity": null' stdout
done

check "a network equals itself, on 256 images or on all where there are fewer"
mkdir few
cp -r "$images/$(ls "$images" | head -n 1)" few/
for data in few "$images"; do
    count=$(find "$data" -type f | wc -l)
    runs "$grail" verify "$cnn" "$cnn" --data "$data" --json
    holds "$(field images stdout) == ($count < 256 ? $count : 256)"
    holds "$(field max_abs stdout) == 0 && $(field mean_kl stdout) == 0"
    holds "$(field top1_agreement stdout) == 1"
done
check "images read in another way give another result"
runs "$grail" verify "$cnn" out --data few --json
expected=$(field max_abs stdout)
for option in "--mean 0.9,0.9,0.9" "--std 0.5,0.5,0.5" "--preset cifar-plain" \
    "--preset imagenet --size 64"; do
    read -ra words <<<"$option"
    runs "$grail" verify "$cnn" out --data few --json "${words[@]}"
    [[ $(field max_abs stdout) != "$expected" ]] || fail "$option changed nothing"
done

check "features are compared by distance only"
tower=$golden/../vision/hf-clip-vision
runs "$grail" verify "$tower" "$tower"
says "features of 8 images: max abs difference 0" stdout
runs "$grail" verify "$tower" "$tower" --json
says '"mean_kl": null' stdout

rm -r out
check "settings apply to both networks"
runs "$grail" verify "$vit" "$vit" --set activation=relu
says "max abs difference 0," stdout
refuses 1 "no_such_key" "$grail" verify "$vit" "$vit" --set no_such_key=1

check "networks that cannot be compared"
refuses 1 "cannot compare a text network with an image network" \
    "$grail" verify "$cnn" "$golden/llama3"
refuses 1 "cannot compare a text network with an image network" \
    "$grail" verify "$golden/llama3" "$cnn"
refuses 1 "the networks have different numbers of outputs: '" \
    "$grail" verify "$cnn" "$golden/../vision/simple-vit"
refuses 2 "reads images; --field, --protocol, --context and --windows apply only to text" \
    "$grail" verify "$cnn" "$cnn" --data x --windows 2
write_ids ids.npy 4 32 96
refuses 2 "reads text; --preset, --split, --images" \
    "$grail" verify "$golden/llama3" "$golden/llama3" --data ids.npy --images 2
refuses 2 "--images has no effect without --data" "$grail" verify "$cnn" "$cnn" --images 2
refuses 1 "ids.npy: has dtype '<i2', expected little-endian float32, float16 or float64, or uint8" \
    "$grail" verify "$cnn" "$cnn" --data ids.npy
