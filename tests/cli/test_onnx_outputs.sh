#!/usr/bin/env bash
# Networks of ONNX that are no classifiers: several outputs, maps, and inputs of any number of channels, as arrays.
#
# usage: test_onnx_outputs.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

net=$source_dir/tests/golden/vision/onnx/net.onnx
pixels=$source_dir/tests/golden/vision/onnx/golden.safetensors
images=$demo/vision/calibration
python=${GRAIL_PYTHON:-python3}

outputs=$source_dir/tests/golden/vision/onnx/outputs.onnx
narrow_outputs() {
    rm -rf out
    runs "$grail" compress "$outputs" -o out --calib "$images" --preset cifar --samples 24 --align 1 --sparsity 0.5 --threads 1 --quiet "$@"
}

check "every output is told by its name"
runs "$grail" inspect "$outputs"
says "output middle: 8 channels, 16 x 16" stdout
says "output scores: 10 logits" stdout
runs "$grail" inspect "$outputs" --json
says '"name": "embedding"' stdout

check "outputs without logits are judged by their relative errors"
narrow_outputs --compensate none --selector random --eval "$images" --images 16
says "outputs of 16 images, compared with those of the dense network" stdout
says "worst output: " stdout
says '| output | relative error | KL |' out/README.md
runs "$grail" verify "$outputs" out/outputs.onnx
says ", holds (tolerance 0.001)" stdout
says "worst output: " stdout
runs "$grail" verify "$outputs" out/outputs.onnx --data "$images" --preset cifar --images 4 --json
says '"worst": "' stdout
says '"is_zero": false' stdout
rm -rf out
refuses 1 "has 5 outputs" "$grail" verify "$outputs" "$net"

narrow_outputs --eval "$images" --images 16
says "the network was calibrated on " stderr

check "they are healed towards the dense network's"
narrow_outputs --heal block,model --heal-steps 4
says "the loss of the network is the mean over its 5 outputs" stdout
narrow_outputs --heal model --heal-steps 4 --memory 1M
sum=$(cksum <out/outputs.onnx)
narrow_outputs --heal model --heal-steps 4
[[ $sum == $(cksum <out/outputs.onnx) ]] || fail "sections of the network are healed otherwise"

check "a classifier is compared with the dense network where no image has a class"
rm -rf out
runs "$grail" compress "$net" -o out --calib "$images" --preset cifar --samples 24 --align 1 --sparsity 0.5 --threads 1 --quiet --eval "$images" --images 16
says "quality on $images: outputs of 16 images, compared with those of the dense network" stdout
says ", same class " stdout
says '| | relative error | output | same class, % |' out/README.md
rm -rf out
runs "$grail" compress "$net" -o out --calib "$images" --preset cifar --samples 24 --align 1 --sparsity 0.5 --threads 1 --quiet --eval "$images" --images 16 --json
says '"result_same_class": ' stdout

channels=$source_dir/tests/golden/vision/onnx/channels.onnx
check "a network of other channels wants arrays"
runs "$grail" inspect "$channels"
says "32 x 32 pixels, 5 channels" stdout
rm -rf out
refuses 1 "the network reads images of 5 channels, but pictures have 3, or 1 of grey; give arrays (.npy)" \
    "$grail" compress "$channels" -o out --calib "$images" --preset vit --sparsity 0.5

needs_onnx "; the checks before are made"

check "ONNX Runtime computes what grail does"
narrow_outputs
rm -f narrow.safetensors
"$grail" logits out/outputs.onnx --pixels "$pixels" -o narrow.safetensors --quiet 2>/dev/null
"$python" -c 'import onnx; onnx.checker.check_model(onnx.load("out/outputs.onnx"), full_check=True)' || fail "no valid model"
"$python" "$source_dir/tests/cli/compare_onnx.py" out/outputs.onnx "$pixels" narrow.safetensors || fail "other outputs"

check "an output of zeros is told, and one that has two names"
"$python" - "$outputs" <<'PYTHON'
import sys
import numpy, onnx

model = onnx.load(sys.argv[1])
for t in model.graph.initializer:
    if t.name in ("near.weight", "near.bias"):
        t.CopyFrom(onnx.numpy_helper.from_array(numpy.zeros(t.dims, numpy.float32), t.name))
model.graph.node.append(onnx.helper.make_node("Identity", ["far"], ["again"]))
again = model.graph.output.add()
again.CopyFrom(next(o for o in model.graph.output if o.name == "far"))
again.name = "again"
onnx.save(model, "zeros.onnx")
PYTHON
rm -rf out
runs "$grail" compress zeros.onnx -o out --calib "$images" --preset cifar --samples 24 --align 1 --sparsity 0.5 \
    --threads 1 --quiet --heal model --heal-steps 2 --eval "$images" --images 8
says "near: relative error 0, max abs difference 0 (0 everywhere in the dense network)" stdout
says "again: relative error " stdout

check "arrays are calibrated on as they are"
"$python" - <<'PYTHON'
import pathlib
import numpy

samples = numpy.random.default_rng(0).normal(size=(20, 5, 32, 32)).astype(numpy.float32)
numpy.save("samples.npy", samples)
pathlib.Path("folder").mkdir()
for i, sample in enumerate(samples):
    numpy.save(f"folder/{i:02}.npy", sample)
samples[1, 2, 3, 4] = numpy.nan
numpy.save("nan.npy", samples)
PYTHON
arrays() {
    rm -rf out
    runs "$grail" compress "$channels" -o out --sparsity 0.5 --align 1 --threads 1 --quiet "$@"
}
arrays --calib samples.npy --eval samples.npy --images 8
says "quality on samples.npy: outputs of 8 images" stdout
says '"images": "samples.npy"' out/report.json
says '"preset": "none"' out/report.json
sum=$(cksum <out/channels.onnx)
arrays --calib folder
[[ $sum == $(cksum <out/channels.onnx) ]] || fail "a folder of samples is another set"
runs "$grail" verify "$channels" out/channels.onnx --data samples.npy
says "features of 20 images" stdout
arrays --calib samples.npy --heal block,model --heal-steps 2
says "the loss of the network is the relative squared error of its output" stdout
cp out/channels.onnx once.onnx
arrays --calib samples.npy
rm -rf healed
runs "$grail" heal out --teacher "$channels" -o healed --calib samples.npy --heal-steps 2 --threads 1 --quiet --eval samples.npy --images 8
says "quality on samples.npy: outputs of 8 images" stdout
"$python" - "$channels" <<'PYTHON'
import sys
import onnx

model = onnx.load(sys.argv[1])
model.graph.node.append(onnx.helper.make_node("Identity", ["mask"], ["again"]))
model.graph.output.add().CopyFrom(model.graph.output[0])
model.graph.output[1].name = "again"
onnx.save(model, "twice.onnx")
PYTHON
rm -rf out
runs "$grail" compress twice.onnx -o out --sparsity 0.5 --align 1 --threads 1 --quiet --calib samples.npy --heal block,model --heal-steps 2
"$python" - <<'PYTHON' || fail "the mean of an output and itself is another loss"
import onnx

once, twice = onnx.load("once.onnx"), onnx.load("out/twice.onnx")
for one, other in zip(once.graph.initializer, twice.graph.initializer, strict=True):
    assert one.raw_data == other.raw_data, one.name
PYTHON
rm -rf out
refuses 3 "nan.npy: sample 1: holds NaN at element" "$grail" compress "$channels" -o out --calib nan.npy --sparsity 0.5
refuses 3 "nan.npy: sample 1: holds NaN at element" "$grail" gram "$channels" -o nan.gguf --calib nan.npy
refuses 1 "arrays are the network's input as they are; leave out the preset" \
    "$grail" compress "$channels" -o out --calib samples.npy --preset cifar --sparsity 0.5
refuses 1 "the images have 5 channels, but the network reads 3" "$grail" compress "$net" -o out --calib samples.npy --sparsity 0.5

if "$python" -c "import onnx, numpy" 2>/dev/null; then
    check "a signal may be longer than images are wide, and have one position alone"
    "$python" - <<'PYTHON' || fail "cannot make networks of signals"
import numpy
from onnx_maker import Network
random = numpy.random.default_rng(5)
for name, channels, length in (("long", 1, 9000), ("point", 9000, 1)):
    net = Network(random)
    net.weights(a=(12, channels, 1), b=(5, 12, 1))
    x = net.add("Relu", [net.add("Conv", ["x", "a"], "h", strides=[min(length, 50)])], "r")
    net.add("Conv", [x, "b"], "y")
    net.save(name, {"x": ["N", channels, length]}, {"y": ["N", 5, None]})
    numpy.save(f"{name}.npy", random.normal(size=(6, channels, length)).astype(numpy.float32))
PYTHON
    for name in long point; do
        rm -rf out
        runs "$grail" compress "$name.onnx" -o out --calib "$name.npy" --align 1 --sparsity 0.5 --threads 1 --quiet
    done

    check "values in a file beside the model are put together with it, and results are one file"
    mkdir beside
    "$python" - "$net" <<'PYTHON' || fail "cannot make beside/net.onnx"
import sys
import onnx
model = onnx.load(sys.argv[1])
onnx.save_model(model, "beside/net.onnx", save_as_external_data=True, location="net.onnx.data", size_threshold=0)
PYTHON
    for file in "$net" beside/net.onnx; do
        rm -rf out
        runs "$grail" compress "$file" -o out --calib "$images" --preset cifar --samples 24 --sparsity 0.5 --threads 1 --quiet
        mv out/net.onnx "narrow-$(wc -c <"$file").onnx"
    done
    "$python" - narrow-*.onnx <<'PYTHON' || fail "other values"
import sys
import onnx
one, other = ({t.name: onnx.numpy_helper.to_array(t).tobytes() for t in onnx.load(f).graph.initializer} for f in sys.argv[1:])
assert one == other and len(one) > 4
PYTHON
    rm beside/net.onnx.data
    rm -rf out
    refuses 1 "cannot open 'beside/net.onnx.data'" "$grail" inspect beside/net.onnx
fi
echo "all checks passed"
