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
says "folding leaves channels that grouped convolutions read or make as they are" stderr
rm -rf out
refuses 1 "site 'a2': channels of a convolution in groups cannot be folded" "$grail" compress "$net" -o other \
    --calib "$images" --preset cifar --sparsity a2=0.5 --selector fold
runs "$grail" gram "$net" --calib "$images" --preset cifar --samples 24 -o groups.gguf --quiet
run "$grail" compress "$net" -o other --calib "$images" --preset cifar --sparsity 0.5 --loop open \
    --stats groups.gguf --selector wanda --compensate none
says "'groups.gguf' has no sums of squares of what 'a2.weight' reads" stderr
((code == 1)) && [[ ! -e other ]] || fail "exit code $code"

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

check "an unfinished file is none"
head -c 1 "$net" >one.onnx
rm -rf out
printf '\0' | cat - <(tail -c +2 "$net") >unsealed.onnx
refuses 1 "unsealed.onnx" "$grail" inspect unsealed.onnx
refuses 1 "one.onnx" "$grail" inspect one.onnx

"$python" -c "import onnx, onnxruntime, numpy" 2>/dev/null || skip "$python lacks onnx, onnxruntime or numpy; the checks before are made"

for folder in onnx onnx-elements onnx_flat onnx_groups onnx_decoder onnx_attention onnx_vit onnx_deit onnx_dinov2 onnx_convnext; do
check "ONNX Runtime computes what grail does: $folder"
net=$source_dir/tests/golden/vision/$folder/net.onnx
pixels=$source_dir/tests/golden/vision/$folder/golden.safetensors
narrow --sparsity 0.5 --sites heads,ffn,conv
rm -f narrow.safetensors
"$grail" logits out/net.onnx --pixels "$pixels" -o narrow.safetensors --quiet 2>/dev/null
"$python" -c 'import onnx; onnx.checker.check_model(onnx.load("out/net.onnx"), full_check=True)' || fail "no valid model"
"$python" "$source_dir/tests/cli/compare_onnx.py" out/net.onnx "$pixels" narrow.safetensors || fail "other logits"
done

check "images that are grey and not square"
"$python" - <<'PYTHON' || fail "$(cat stderr)"
import numpy, onnx
from onnx import TensorProto, helper, numpy_helper
random = numpy.random.default_rng(1)
shapes = {"a": (6, 1, 3, 3), "b": (5, 6, 3, 3), "c": (4, 5)}
tensors = [numpy_helper.from_array(random.normal(size=s).astype(numpy.float32), n) for n, s in shapes.items()]
nodes = [helper.make_node("Conv", ["pixels", "a"], ["x"]), helper.make_node("Relu", ["x"], ["r"]),
         helper.make_node("Conv", ["r", "b"], ["y"]), helper.make_node("GlobalAveragePool", ["y"], ["p"]),
         helper.make_node("Flatten", ["p"], ["f"]), helper.make_node("Gemm", ["f", "c"], ["logits"], transB=1)]
image = helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["N", 1, 24, 40])
logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 4])
graph = helper.make_graph(nodes, "grey", [image], [logits], tensors)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "grey.onnx")
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
echo "all checks passed"
