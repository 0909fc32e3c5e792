#!/usr/bin/env bash
# ONNX files as models: described, narrowed, compared and measured; what is refused.
#
# usage: test_onnx.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

net=$source_dir/tests/golden/vision/onnx/net.onnx
elements=$source_dir/tests/golden/vision/onnx-elements/net.onnx
pixels=$source_dir/tests/golden/vision/onnx/golden.safetensors
images=$demo/vision/calibration
python=${GRAIL_PYTHON:-python3}

narrow() {
    narrow_file "$net" "$@"
}

narrow_file() {
    local file=$1
    shift
    rm -rf out
    runs "$grail" compress "$file" -o out --calib "$images" --preset cifar --samples 24 --align 1 --quiet "$@"
}

check "a file is described by its nodes"
runs "$grail" inspect "$net"
says "onnx, F32, 4 blocks" stdout
says "nothing says how images are prepared for this network; name the preset" stderr

check "a preset must be named"
refuses 1 "nothing says how images are prepared for this network; name the preset by which images are prepared (--preset)" \
    "$grail" compress "$net" -o out --calib "$images" --sparsity 0.5
refuses 1 "a onnx network has no setting 'activation'" "$grail" inspect "$net" --set activation=relu

check "a run without a cut gives the file byte for byte"
narrow --sparsity 0
"$grail" logits "$net" --pixels "$pixels" -o dense.safetensors --quiet 2>/dev/null
"$grail" logits out/net.onnx --pixels "$pixels" -o same.safetensors --quiet 2>/dev/null
cmp dense.safetensors same.safetensors || fail "logits differ"
cmp "$net" out/net.onnx || fail "bytes differ"

check "a preset that is set is kept"
narrow --sparsity 0.5 --set preset=cifar
says '"preset": "cifar"' out/grail.json
runs "$grail" eval out --data "$demo/vision/test" --images 20
says "cifar" stdout

# narrows NAME: tests/golden/vision/NAME, to what zeros make of it; bytes are kept where nothing is cut
narrows() {
    local name=$1
    net=$source_dir/tests/golden/vision/$name/net.onnx
    narrow --sparsity 0
    cmp "$net" out/net.onnx || fail "bytes differ"
    narrow --sparsity 0.5 --selector random --compensate none
    runs "$grail" verify "$net" out/net.onnx
    says ", holds (tolerance 0.001)" stdout
    narrow --sparsity 0.5
    cp out/net.onnx "$name.onnx"
}

check "positions beside channels go with them, and what several nodes read is narrowed for each"
narrows onnx_flat
runs "$grail" inspect onnx_flat.onnx
narrow --sparsity 0.5 --selector wanda --compensate grail
narrow --sparsity 0.5 --selector fold

check "of channels of groups as many go of each, and none where units are merged"
narrows onnx_groups
for repair in none grail full; do
    narrow --sparsity 0.5 --sites conv,stream,ffn --selector obs --compensate $repair
    cp out/report.json $repair.json
done
runs "$grail" inspect onnx_groups.onnx
narrow --sparsity 0.5 --selector fold
says "such as 0 of 16 units in a2: folding leaves channels of convolutions in groups" stderr
runs "$grail" inspect out/net.onnx
! grep -q folding stderr || fail "$(cat stderr)"
rm -rf out
refuses 1 "site 'a2': channels of a convolution in groups cannot be folded" "$grail" compress "$net" -o other \
    --calib "$images" --preset cifar --sparsity a2=0.5 --selector fold
runs "$grail" gram "$net" --calib "$images" --preset cifar --samples 24 -o groups.gguf --quiet
run "$grail" compress "$net" -o other --calib "$images" --preset cifar --sparsity 0.5 --loop open \
    --stats groups.gguf --selector wanda --compensate none
says "'groups.gguf' has no sums of squares of what 'a2.weight' reads" stderr
((code == 1)) && [[ ! -e other ]] || fail "exit code $code"

# kept_of SITE: the units that the run in out/ has kept
kept_of() {
    "$python" -c 'import json, sys
print(*[s["kept"] for s in json.load(open("out/report.json"))["sites"] if s["site"] == sys.argv[1]])' "$1"
}

check "whole groups go where they are asked for, and merged groups with them"
for selector in random obs; do
    narrow --sparsity 0.5 --sites groups --selector $selector --compensate none
    runs "$grail" verify "$net" out/net.onnx
    says ", holds (tolerance 0.001)" stdout
done
for repair in none grail full; do
    narrow --sparsity 0.5 --sites groups --selector fold --compensate $repair
    cp out/net.onnx whole-groups-$repair.onnx
done
narrow --sparsity 0.5 --sites groups
cp out/net.onnx whole-groups.onnx
runs "$grail" inspect whole-groups.onnx
grep -q 'groups  a2\[groups\]  *2  *6  *12 ' stdout || { show; fail "other groups"; }
narrow --sparsity groups=0.5,conv=0.3
[[ $(kept_of a2) = 16 && $(kept_of squeeze) = 24 && $(kept_of "a2[groups]") = 2 ]] || fail "$(cat out/report.json)"
rm -rf out
refuses 1 "site 'a2': these channels cannot be cut in one run with the whole groups that they belong to" "$grail" \
    compress "$net" -o other --calib "$images" --preset cifar --sparsity "a2=0.5,a2[groups]=0.5"
for budget in uniform error; do
    rm -rf out plan.json
    runs "$grail" plan "$net" -o plan.json --calib "$images" --preset cifar --samples 24 --sites conv,groups \
        --target-ratio 0.7 --budget $budget --quiet
    runs "$grail" compress "$net" -o out --plan plan.json --calib "$images" --preset cifar --samples 24 --quiet
    [[ $(kept_of a2) = 16 && $(kept_of squeeze) = 24 && $(kept_of "a2[groups]") -lt 4 ]] || fail "$(cat out/report.json)"
done

check "channels of transposed convolutions go with their patches"
narrows onnx_decoder
narrow --sparsity 0.5 --selector fold
narrow --sparsity 0.5 --heal model --heal-steps 2 --heal-batch 8

net=$source_dir/tests/golden/vision/onnx/net.onnx

for sites in conv stream ffn conv,stream,ffn; do
    check "a narrowed network is the dense one with zeros: $sites"
    narrow --sparsity 0.5 --selector random --compensate none --sites $sites
    runs "$grail" verify "$net" out/net.onnx
    says ", holds (tolerance 0.001)" stdout
    (($(stat -c %s out/net.onnx) < $(stat -c %s "$net"))) || fail "$(ls -l out)"
done

check "constants of channels are cut with them"
runs "$grail" inspect "$elements"
says "its last node is a Softmax, which results keep" stderr
for selector in random fold; do
    narrow_file "$elements" --sparsity 0.4 --selector $selector --compensate none
    runs "$grail" verify "$elements" out/net.onnx
    [ $selector = fold ] || says ", holds (tolerance 0.001)" stdout
done
narrow_file "$elements" --sparsity 0
cmp "$elements" out/net.onnx || fail "bytes differ"

check "the same bytes come out again, and a result is narrowed again"
narrow --sparsity 0.5
cp out/net.onnx first.onnx
narrow --sparsity 0.5
cmp first.onnx out/net.onnx || fail "bytes differ"
runs "$grail" compress first.onnx -o again --calib "$images" --preset cifar --samples 24 --sparsity 0.2 --align 1 --quiet
runs "$grail" inspect again

for family in attention vit deit dinov2 convnext; do
    net=$source_dir/tests/golden/vision/onnx_$family/net.onnx
    check "heads and neurons of a transformer are sites: $family"
    runs "$grail" inspect "$net"
    says "ffn" stdout
    [ $family = convnext ] || says "heads" stdout
    narrow --sparsity 0
    cmp "$net" out/net.onnx || fail "bytes differ"
    narrow --sparsity 0.4 --sites heads,ffn,conv --selector random --compensate none
    runs "$grail" verify "$net" out/net.onnx
    says ", holds (tolerance 0.001)" stdout
    (($(stat -c %s out/net.onnx) < $(stat -c %s "$net"))) || fail "$(ls -l out)"
    rm -rf again
    runs "$grail" compress out/net.onnx -o again --calib "$images" --preset cifar --samples 24 --sparsity 0.2 --sites heads,ffn,conv --align 1 --quiet
done
net=$source_dir/tests/golden/vision/onnx/net.onnx

check "layers keep other numbers of heads where one constant counts those of all"
net=$source_dir/tests/golden/vision/onnx_vit/net.onnx
narrow --sparsity 0.34 --sites heads --selector random --compensate none
sed -i '/encoder_layer_1.self_attention/,/}/s/"kept": 2/"kept": 3/' out/plan.json
cp out/plan.json layers.json
rm -rf out again
runs "$grail" compress "$net" -o out --calib "$images" --preset cifar --samples 24 --plan layers.json --quiet
runs "$grail" verify "$net" out/net.onnx
says ", holds (tolerance 0.001)" stdout
runs "$grail" compress out/net.onnx -o again --calib "$images" --preset cifar --samples 24 --sparsity 0.34 --sites heads --align 1 --selector random \
    --compensate none --quiet
runs "$grail" verify out/net.onnx again/net.onnx
says ", holds (tolerance 0.001)" stdout

check "an unfinished file is none"
head -c 1 "$net" >one.onnx
rm -rf out
printf '\0' | cat - <(tail -c +2 "$net") >unsealed.onnx
refuses 1 "unsealed.onnx" "$grail" inspect unsealed.onnx
refuses 1 "one.onnx" "$grail" inspect one.onnx

needs_onnx "; the checks before are made"
for whole in whole-groups*.onnx; do
    same_outputs "$whole" "$source_dir/tests/golden/vision/onnx_groups/golden.safetensors"
done

for folder in onnx onnx-elements onnx_flat onnx_groups onnx_decoder onnx_attention onnx_vit onnx_deit onnx_dinov2 onnx_convnext onnx_backbone; do
check "ONNX Runtime computes what grail does: $folder"
net=$source_dir/tests/golden/vision/$folder/net.onnx
pixels=$source_dir/tests/golden/vision/$folder/golden.safetensors
narrow --sparsity 0.5 --sites heads,ffn,conv
"$python" -c 'import onnx; onnx.checker.check_model(onnx.load("out/net.onnx"), full_check=True)' || fail "no valid model"
same_outputs out/net.onnx "$pixels"
done

check "the fit of a map behind which channels are scaled is that of a map which scales them itself"
"$python" - "$source_dir/tests/golden/vision/onnx_backbone/net.onnx" <<'PYTHON' || fail "$(cat stderr)"
import sys, onnx
from onnx import numpy_helper
model = onnx.load(sys.argv[1])
tensors = {t.name: t for t in model.graph.initializer}
values = {name: numpy_helper.to_array(t) for name, t in tensors.items()}
for layer in range(2):
    for name in (f"down{layer}.weight", f"down{layer}.bias"):
        tensors[name].CopyFrom(numpy_helper.from_array(values[name] * values[f"scale{layer}"], name))
    model.graph.initializer.remove(tensors[f"scale{layer}"])
    scaling = next(n for n in model.graph.node if n.output[0] == f"scaled{layer}")
    model.graph.node.remove(scaling)
    for n in model.graph.node:
        n.input[:] = [scaling.input[0] if name == f"scaled{layer}" else name for name in n.input]
onnx.save(model, "folded.onnx")
PYTHON
pixels=$source_dir/tests/golden/vision/onnx_backbone/golden.safetensors
for one in "$source_dir/tests/golden/vision/onnx_backbone/net.onnx" folded.onnx; do
    rm -f "narrow-$(basename "$one").safetensors"
    narrow_file "$one" --sparsity 0.5 --sites ffn --selector magnitude-l1 --target dense --alpha 1e-3 --refit none
    "$grail" logits "out/$(basename "$one")" --pixels "$pixels" -o "narrow-$(basename "$one").safetensors" --quiet 2>/dev/null
done
"$python" "$source_dir/tests/cli/compare_onnx.py" out/folded.onnx "$pixels" narrow-net.onnx.safetensors || fail "another fit"

check "images that are grey and not square"
"$python" - <<'PYTHON' || fail "$(cat stderr)"
from onnx_maker import Network
net = Network(1)
net.weights(a=(6, 1, 3, 3), b=(5, 6, 3, 3), c=(4, 5))
y = net.add("Conv", [net.add("Relu", [net.add("Conv", ["pixels", "a"], "x")], "r"), "b"], "y")
features = net.add("Flatten", [net.add("GlobalAveragePool", [y], "p")], "f")
net.add("Gemm", [features, "c"], "logits", transB=1)
net.save("grey", {"pixels": ["N", 1, 24, 40]}, {"logits": ["N", 4]})
PYTHON
runs "$grail" inspect grey.onnx
says "40 x 24 pixels, 1 channel, 4 classes" stdout
rm -rf out
refuses 1 "is 32 x 32 pixels, but the preset cifar does not resize and needs 40 x 24" \
    "$grail" compress grey.onnx -o out --calib "$images" --preset cifar --sparsity 0.5
runs "$grail" compress grey.onnx -o out --calib "$images" --preset imagenet --samples 24 --sparsity 0.5 --align 1 \
    --selector random --compensate none --quiet
runs "$grail" verify grey.onnx out/grey.onnx --data "$images" --preset imagenet
runs "$grail" verify grey.onnx out/grey.onnx
says ", holds (tolerance 0.001)" stdout
rm -rf out
runs "$grail" compress grey.onnx -o out --calib "$images" --preset imagenet --samples 24 --sparsity 0.5 --align 1 \
    --heal model --heal-steps 2 --quiet
says '"width": 40' out/report.json

check "nodes that share the sizes of a Split keep numbers of their own, and images have the size that a setting says"
"$python" - <<'PYTHON' || fail "$(cat stderr)"
from onnx_maker import Network
net = Network(2)
add = net.add
net.weights(a=(8, 3, 3, 3), b=(8, 4, 3, 3), c=(8, 4), d=(6, 4))
sizes = net.constant("sizes", [4, 4])
p, q = add("Split", [add("Conv", ["pixels", "a"], "x", pads=[1] * 4), sizes], "p", "q", axis=1)
x = add("Mul", [p, add("Sigmoid", [q], "s")], "m")
t, u = add("Split", [add("Conv", [x, "b"], "y", pads=[1] * 4), sizes], "t", "u", axis=1)
x = add("Concat", [add("Relu", [t], "v"), u], "w", axis=1)
x = add("Flatten", [add("GlobalAveragePool", [x], "g")], "f")
add("Gemm", [add("Gemm", [x, "c"], "h"), "d"], "logits", transB=1)
net.save("halves", {"pixels": ["N", 3, 32, "W"]}, {"logits": ["N", 6]})
PYTHON
rm -rf out
refuses 1 "leaves the width of the images open, but not the other size; the setting width=N says it" "$grail" inspect halves.onnx
runs "$grail" inspect halves.onnx --set width=32
says "32 x 32 pixels" stdout
narrow_halves() {
    rm -rf out
    runs "$grail" compress halves.onnx --set width=32 -o out --calib "$images" --preset cifar --samples 24 --align 1 --quiet "$@"
    runs "$grail" inspect out
    pixels=$source_dir/tests/golden/vision/onnx/golden.safetensors
    same_outputs out/halves.onnx "$pixels"
}
narrow_halves --sparsity 0.5
narrow_halves --sparsity a=0.5 --sparsity b=0.25
echo "all checks passed"
