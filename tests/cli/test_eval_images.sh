#!/usr/bin/env bash
# grail eval on images: the accuracy of pretrained networks, what is printed, and what is refused.
#
# usage: test_eval_images.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

write_ids ids.npy 4 32 96
tiny=$golden/llama3

check "a model of text, and images"
mkdir images
refuses 1 "the folder 'images' holds no text: no .txt, .jsonl or .jsonl.gz file" \
    "$grail" eval "$tiny" --data images
refuses 2 "reads text; --preset, --split" "$grail" eval "$tiny" --data ids.npy --images 4
refuses 2 "reads text; --preset, --split" "$grail" eval "$tiny" --data ids.npy --mean 0,0,0
check "options of three numbers, and of many values"
for value in 1 1,2 1,2,3,4 1,2,x 1,,3 ""; do
    refuses 2 "--std takes three numbers separated by commas, not '$value'" \
        "$grail" eval "$tiny" --data images --std "$value"
done
refuses 1 "no_such_key" "$grail" eval "$tiny" --data ids.npy --set no_such_key=1
refuses 1 "no_such_key" "$grail" inspect "$tiny" --set no_such_key=1

check "networks without a head, and labels beyond it"
refuses 1 "gives features, not classes: accuracy needs a checkpoint with a classification head" \
    "$grail" eval "$golden/../vision/hf-clip-vision" --data "$demo/vision/test"
refuses 1 "has label 7, but the network has only 7 classes" \
    "$grail" eval "$golden/../vision/simple-vit" --data "$demo/vision/test"
check "the demonstration network has the accuracy that torch measured"
runs "$grail" eval "$demo/vision/cnn.pth" --data "$demo/vision/test" --json
top1=$(field top1 stdout)
sed -n '/"cnn"/,/}/p' "$demo/vision/expected.json" >expected
holds "($top1 - $(field top1 expected)) ^ 2 < 0.0021 ^ 2" # two images of a thousand

check "a folder with only some of the classes gives a warning"
mkdir some
cp -r "$demo/vision/test/checker" "$demo/vision/test/disc" some
runs "$grail" eval "$demo/vision/cnn.pth" --data some
says "grail: warning: some has 2 class folders, the network has 10 classes" stderr
runs "$grail" eval "$demo/vision/cnn.pth" --data "$demo/vision/test" --images 10
grep -q warning stderr && { show; fail "printed a warning that does not apply"; }
check "what is assumed of a network is told, and not where it is given"
says "grail: note: $demo/vision/cnn.pth: nothing says how images are prepared for this resnet network; \
assumed is the preset cifar (32 x 32 pixels, not resized" stderr
runs "$grail" eval "$demo/vision/cnn.pth" --data "$demo/vision/test" --images 10 --preset cifar
[[ ! -s stderr ]] || { show; fail "printed a note that does not apply"; }
runs "$grail" eval "$demo/vision/cnn.pth" --data "$demo/vision/test" --images 10 --set preset=cifar
[[ ! -s stderr ]] || { show; fail "printed a note that does not apply"; }
check "classes in another order give a warning, before a run as well"
mkdir turned
i=0
for class in "$demo"/vision/test/*; do
    mkdir "turned/$(((i++ + 3) % 10))"
    cp "$class"/000??.jpg "turned/$(((i + 2) % 10))"
done
runs "$grail" eval "$demo/vision/cnn.pth" --data turned
says "no more than by guessing; do the classes have the network's order?" stderr
mv turned/9 turned/10
runs "$grail" eval "$demo/vision/cnn.pth" --data turned --json
says "names of the class folders are numbers" stdout
mv turned/10 turned/9
runs "$grail" compress "$demo/vision/cnn.pth" -o turned-narrow --sparsity conv=0.5 --selector magnitude-l1 \
    --compensate none --eval turned --quiet
says "is the one that the network says" stderr
mv turned/9 turned/10
for way in --dry-run --quiet; do
    runs "$grail" compress "$demo/vision/cnn.pth" -o turned-again --sparsity conv=0.5 --selector magnitude-l1 \
        --compensate none --eval turned --images 10 --json $way
    says "warning: turned: the names of the class folders are numbers" stderr
    grep -q '"the names of the class folders are numbers' stdout || fail "not among the notices of JSON"
done
runs "$grail" heal turned-narrow --teacher "$demo/vision/cnn.pth" -o turned-healed --calib "$demo/vision/calibration" \
    --heal-steps 1 --samples 8 --eval turned --images 10 --json --quiet
grep -q '"the names of the class folders are numbers' stdout || fail "not among the notices of JSON"

check "folders that have the names of the network's classes have their indices, whatever their order"
for class in ring star triangle; do # not the first three
    mkdir -p named/$class
    cp "$demo/vision/test/$class"/00[0-2]??.jpg named/$class
done
cp -r "$demo/vision/vit" ids
for labels in '"id2label"' '"label_names"'; do
    sed "s/\"id2label\"/$labels/" "$demo/vision/vit/config.json" >ids/config.json
    runs "$grail" eval ids --data named --json
    holds "$(field top1 stdout) > 0.5"
    grep -q warning stderr && { show; fail "printed a warning that does not apply"; }
done
sed '/"id2label"/,/}/d; s/"label2id"/"label_names": ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"],\n &/' \
    "$demo/vision/vit/config.json" >ids/config.json
mv named/ring named/n4 && mv named/star named/n7
runs "$grail" eval ids --data named
says "grail: warning: named has 3 class folders, the network has 10 classes" stderr
mv named/triangle named/n9
runs "$grail" eval ids --data named --json
holds "$(field top1 stdout) > 0.5"

check "activations that overflow name the matrix, and its block where it is in one"
refuses 3 "grail: the output of 'conv1.weight' is NaN or infinite" "$grail" eval "$demo/vision/cnn.pth" \
    --data "$demo/vision/test" --images 8 --mean 1e38,1e38,1e38 --std 1e-38,1e-38,1e-38

check "what a checkpoint says of its images goes before what is usual, and --preset before that"
cp -r "$golden/../vision/hf-vit" vit
printf '{"image_processor_type": "ViTImageProcessor", "size": {"shortest_edge": 27}, "resample": 0,
 "do_center_crop": true, "crop_size": 24, "image_mean": [0.1, 0.2, 0.3]}' >vit/preprocessor_config.json
runs "$grail" inspect vit
[[ ! -s stderr ]] || { show; fail "printed a note that does not apply"; }
says "preset checkpoint, 24 x 24 pixels" stdout
says "images: shorter edge to 27, nearest, crop 24; times 0.00392157, mean 0.1 0.2 0.3, \
std 0.5 0.5 0.5 (preprocessor_config.json)" stdout
says "activation: gelu" stdout
runs "$grail" inspect vit --json
says '"origin": "preprocessor_config.json"' stdout
says '"notices": []' stdout
mkdir images/one && cp "$demo/vision/test/disc/"0001*.jpg images/one
echo '{"size": 9999}' >vit/preprocessor_config.json
refuses 1 "vit/preprocessor_config.json: \"size\" is 9999 pixels, expected 1 to 8192; name the \
preset by which images are prepared (--preset)" "$grail" eval vit --data images
runs "$grail" eval vit --data images --preset vit
says "preset vit" stdout
grep -q "grail: note" stderr && { show; fail "printed a note that does not apply"; }
runs "$grail" inspect vit
says "grail: note: vit/preprocessor_config.json: \"size\" is 9999" stderr
says "activation: gelu" stdout

check "an activation that tensors do not show is not guessed in silence"
cp -r "$golden/../vision/open-clip" clip
runs "$grail" inspect clip --set head_dim=16
says "gelu is assumed" stderr
says "the setting activation=gelu or activation=quick_gelu decides (--set)" stderr
says "activation: gelu (assumed)" stdout
echo '{"model_cfg": {"quick_gelu": true, "vision_cfg": {"image_size": 24}}}' >clip/open_clip_config.json
runs "$grail" inspect clip --set head_dim=16
[[ ! -s stderr ]] || { show; fail "printed a note that does not apply"; }
says "activation: quick_gelu" stdout

for needed in cifar-10-batches-bin resnet18-cifar10; do
    [[ -d $shared/$needed ]] || skip "accuracies are not measured: $shared/$needed is not there"
done
cifar=$shared/cifar-10-batches-bin
resnet18=$shared/resnet18-cifar10/resnet18_cifar10.pth

check "ResNet-18: 86.0 % lies in the interval of some images"
runs "$grail" eval "$resnet18" --data "$cifar" --json --images "${GRAIL_TEST_ALL:+1}250"
[[ $(field images stdout) == "${GRAIL_TEST_ALL:+1}250" ]] || fail "$(field images stdout) images"
[[ $(field preset stdout) == cifar ]] || fail "preset $(field preset stdout)"
top1=$(field top1 stdout)
holds "$(field low stdout) < 0.86 && 0.86 < $(field high stdout)"
holds "$(field low stdout) < $top1 && $top1 < $(field high stdout)"
holds "$(field top5 stdout) > 0.95"
holds "($(field high stdout) - $(field low stdout)) / 2 - $(field interval stdout) < 1e-9"
check "another preset gives another result"
runs "$grail" eval "$resnet18" --data "$cifar" --json --images 20
expected=$(field mean_nll stdout)
runs "$grail" eval "$resnet18" --data "$cifar" --json --images 20 --preset cifar-imagenet
[[ $(field preset stdout) == cifar-imagenet ]] || fail "preset $(field preset stdout)"
[[ $(field mean_nll stdout) != "$expected" ]] || fail "the preset changed nothing"
check "the preset's numbers given one by one are the preset"
runs "$grail" eval "$resnet18" --data "$cifar" --json --images 20 --preset cifar-imagenet \
    --mean 0.4914,0.4822,0.4465 --std 0.2023,0.1994,0.2010
[[ $(field mean_nll stdout) == "$expected" ]] || fail "the result differs"

check "one line says what matters"
runs "$grail" eval "$resnet18" --data "$cifar" --images 20
head -n 1 stdout |
    grep -qE '^top-1 [0-9.]+ % \+- [0-9.]+, top-5 [0-9.]+ %, 20 images, preset cifar$' ||
    { show; fail "the first line is wrong"; }
grep -qv '^grail: note:' stderr && { show; fail "progress where there is no terminal"; }

check "inspect tells what an image costs"
runs "$grail" inspect "$resnet18"
says "M multiply-accumulates; preset cifar, 32 x 32 pixels, 10 classes" stdout
runs "$grail" inspect "$resnet18" --json
says '"preset": "cifar"' stdout

check "a network of images, and what it cannot be measured on"
refuses 1 "ids.npy: has dtype '<i2', expected little-endian float32, float16 or float64, or uint8" \
    "$grail" eval "$resnet18" --data ids.npy
refuses 2 "reads images; --field, --protocol" "$grail" eval "$resnet18" --data "$cifar" --windows 3
refuses 1 "20000 images were requested, but the data holds 10000" \
    "$grail" eval "$resnet18" --data "$cifar" --images 20000
refuses 1 "unknown preset 'cfar'; expected one of cifar" \
    "$grail" eval "$resnet18" --data "$cifar" --preset cfar
refuses 1 "unknown split 'valid'; expected one of train, test" "$grail" eval "$resnet18" --data "$cifar" --split valid
refuses 1 "or measure with grail eval, which reads their classes from a CSV file (--labels)" \
    "$grail" eval "$resnet18" --data "$shared/imagenet-sample" --preset imagenet
