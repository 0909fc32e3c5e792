#!/usr/bin/env bash
# Nodes of ONNX files that no row reads: they are left to ONNX Runtime, and the network around them is narrowed.
#
# usage: test_onnx_regions.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

pixels=$source_dir/tests/golden/vision/onnx/golden.safetensors
images=$demo/vision/calibration
python=${GRAIL_PYTHON:-python3}
needs_onnx

# NAME: two residual blocks with operators between them that no row reads, behind a branch and before a sorted
# value; "shaped" declares its shapes, "tail" has one behind the logits which "both" gives too, "sized" resizes to the size of the images, "all" nothing else. "shuffled" reads five
# channels and gives a map with each group of four channels beside each other.
make_network() {
    "$python" - "$1" <<'PYTHON' || fail "cannot make $1"
import sys
import numpy
import onnx
from onnx import TensorProto, helper
from onnx_maker import Network

name = sys.argv[1]
net = Network()
add, constant, weight = net.add, net.constant, net.weight

def conv(x, y, inputs, outputs):
    return net.conv(x, y, inputs, outputs, pads=[1] * 4)

def block(x, name):
    inner = add("Relu", [conv(x, f"{name}a", 8, 12)], f"{name}b")
    return add("Relu", [add("Add", [conv(inner, f"{name}c", 12, 8), x], f"{name}d")], name)

def branch(operator, x):
    made = helper.make_tensor_value_info(operator, TensorProto.FLOAT, None)
    return helper.make_graph([helper.make_node(operator, [x], [operator])], operator, [], [made])

if name == "all":
    add("Einsum", [add("Sin", ["pixels"], "x"), weight("mix", 3, 10)], "logits", equation="nchw,cd->nd")
elif name == "shuffled":
    x = block(conv(add("Sin", ["pixels"], "x"), "s", 5, 8), "one")
    x = add("Reshape", [x, constant("parted", [0, 2, 2, 2, 32, 32])], "pieces")
    x = add("Transpose", [x], "moved", perm=[0, 1, 4, 2, 5, 3])
    add("Reshape", [x, constant("larger", [0, 2, 64, 64])], "logits")
else:
    x = block(add("Relu", [conv("pixels", "s", 3, 8)], "stem"), "one")
    if name == "sized":
        x = block(x, "between")
        sizes = []
        for of, a in ((x, 0), ("pixels", 2)):
            bounds = [constant(f"{of}_{end}", [at]) for end, at in (("from", a), ("to", a + 2))]
            sizes.append(add("Slice", [add("Shape", [of], f"{of}_shape"), *bounds], f"{of}_sizes"))
        x = add("Resize", [x, "", "", add("Concat", sizes, "sizes", axis=0)], "resized", mode="cubic")
    elif name in ("masked", "endless"):  # minus infinity, which the region takes away itself, or the nodes behind it
        mask = constant("mask", numpy.where(net.random.random((1, 8, 32, 32)) < 0.1, -numpy.inf, 0).astype(numpy.float32))
        x = add("Exp" if name == "masked" else "Relu", [add("Add", [add("Sin", [x], "wave"), mask], "masked")], "seen")
    elif name == "inner":  # its pieces are no value of a graph, and their sizes are those of a later one
        pieces = add("Cos", [add("Reshape", [x, constant("halves", [-1, 4, 32, 32])], "parted")], "pieces")
        sides = add("Slice", [add("Shape", [pieces], "inner_shape"), constant("second", [2]), constant("fourth", [4])], "sides")
        x = block(add("Reshape", [pieces, constant("whole", [-1, 8, 32, 32])], "back"), "between")
        count = add("Slice", [add("Shape", [x], "shape"), constant("none", [0]), constant("half", [2])], "count")
        doubled = add("Mul", [sides, constant("twice", [2])], "doubled")
        x = add("Resize", [x, "", "", add("Concat", [count, doubled], "sizes", axis=0)], "resized", mode="cubic")
    elif name == "bounded":  # where the halves of a gate end is told by a constant that a region reads as an axis
        y, three, axis = conv(x, "wide", 8, 6), constant("three", [3]), constant("second", [1])
        left = add("Slice", [y, constant("none", [0]), three, axis], "left")
        right = add("Slice", [y, three, constant("all", [6]), axis], "right")
        sums = add("GlobalAveragePool", [add("ReduceSum", [x, three], "sums", keepdims=1)], "sizes")
        gate = add("Sigmoid", [net.conv(sums, "gate", 8, 8, (1, 1))], "gated")
        x = add("Add", [add("Mul", [x, gate], "weighed"), conv(add("Mul", [left, right], "product"), "narrow", 3, 8)], "mixed")
    elif name not in ("tail", "both"):
        large = add("Greater", [add("ReduceSum", [x], "sum", keepdims=0), constant("zero", numpy.float32(0))], "large")
        x = add("If", [large], "chosen", then_branch=branch("Sin", x), else_branch=branch("Cos", x))
        tokens = add("Reshape", [x, constant("flat", [0, 8, -1])], "tokens")
        scores = add("MatMul", [tokens, add("Transpose", [tokens], "turned", perm=[0, 2, 1])], "scores")
        mixed = add("MatMul", [add("Softmax", [scores], "shares", axis=-1), tokens], "mixed")
        x = add("Reshape", [mixed, constant("image", [0, 8, 32, 32])], "back")
    x = add("Flatten", [add("GlobalAveragePool", [block(x, "two")], "means")], "features")
    x = add("Gemm", [x, weight("head.w", 10, 8), weight("head.b", 10)], "scores" if name in ("tail", "both") else "logits", transB=1)
    if name in ("tail", "both"):
        add("Sin", [x], "logits")
is_map = name == "shuffled"
sides = ["H", "W"] if name == "sized" else [32, 32]
outputs = {"logits": ["N", 2, 64, 64] if is_map else ["N", 10], **({"scores": ["N", 10]} if name == "both" else {})}
net.save(name, {"pixels": ["N", 5 if is_map else 3, *sides]}, outputs)
if name in ("shaped", "tail"):
    onnx.shape_inference.infer_shapes_path(f"{name}.onnx")
PYTHON
}

narrow_other() {
    rm -rf out
    runs "$grail" compress "$1.onnx" -o out --calib "$images" --preset cifar --samples 24 --align 1 --sparsity 0.5 --quiet "${@:2}"
}

# verified NAME: what a plain cut writes is the dense network with zeros
verified() {
    narrow_other "$1" --selector random --compensate none
    runs "$grail" verify "$1.onnx" "out/$1.onnx"
    says ", holds (tolerance 0.001)" stdout
    same_outputs "out/$1.onnx" "$pixels"
}

check "what no row reads is computed by ONNX Runtime"
for name in middle shaped tail all; do
    make_network $name
done
runs "$grail" inspect middle.onnx
says "2 regions of nodes that grail has no rows for are left to ONNX Runtime; 24 channels that are read or made there stay (the first begins with node 'make_sum' (ReduceSum))" stderr
says "region of 3 nodes, 16 channels: node 'make_sum' (ReduceSum): grail has no row for this operator" stdout
says "channels that 3 of 6 maps make stay in every cut: 3 go through nodes left to ONNX Runtime ('s.w' first, at node 'make_sum' (ReduceSum))" stderr
for name in middle tail all; do
    same_outputs $name.onnx "$pixels"
done

check "a region that asks for the size of the images does not hold them, so that blocks end before it"
make_network sized
runs "$grail" inspect sized.onnx
says "onnx, F32, 3 blocks" stdout
says "region of 6 nodes" stdout
same_outputs sized.onnx "$pixels"
verified sized

check "a region asks for sizes that another one has inside, without computing it once more"
make_network inner
runs "$grail" inspect inner.onnx
says "region of 3 nodes" stdout
says "region of 4 nodes, 16 channels: node 'make_resized' (Resize)" stdout
same_outputs inner.onnx "$pixels"
verified inner

check "minus infinity inside a region is no matter; what a region gives away must be numbers"
make_network masked
same_outputs masked.onnx "$pixels"
narrow_other masked
same_outputs out/masked.onnx "$pixels"
make_network endless
run "$grail" compress endless.onnx -o out2 --calib "$images" --preset cifar --samples 24 --sparsity 0.5 --quiet
says "the output of node 'make_wave' (Sin), which ONNX Runtime computes, is NaN or infinite" stderr

check "an output that moves channels between positions is computed by ONNX Runtime, and shapes are asked of any channels"
make_network shuffled
"$python" - <<'PYTHON' || fail "cannot make five channels"
import numpy
from onnx_maker import write_pixels

write_pixels("five.safetensors", numpy.random.default_rng(1).standard_normal((2, 32, 32, 5)).astype(numpy.float32))
PYTHON
runs "$grail" inspect shuffled.onnx
says "makes an output with channels in pieces, or beside positions" stdout
same_outputs shuffled.onnx five.safetensors

check "a network around it is narrowed, and is the dense one with zeros"
verified middle
narrow_other middle
same_outputs out/middle.onnx "$pixels"
says '"regions": [' out/report.json

check "channels stay whose bounds a region needs as they are"
make_network bounded
verified bounded
"$python" - <<'PYTHON' || fail "the gate was cut"
import onnx
dims = {t.name: list(t.dims) for t in onnx.load("out/bounded.onnx").graph.initializer}
assert dims["wide.w"][0] == 6, dims["wide.w"]
PYTHON

check "shapes that regions have are still declared, so that nothing is asked of a result"
narrow_other shaped
runs env GRAIL_ONNXRUNTIME=nowhere "$grail" inspect out/shaped.onnx
says "region of 3 nodes, 16 channels: node 'make_sum' (ReduceSum)" stdout

check "a network that is nothing else comes out byte for byte"
narrow_other all
says "widths: nothing is cut" stdout
cmp all.onnx out/all.onnx || fail "bytes differ"

check "no gradient goes through it"
rm -rf out
refuses 1 "no gradient goes through node 'make_sum' (ReduceSum), which ONNX Runtime computes" \
    "$grail" compress middle.onnx -o healed --calib "$images" --preset cifar --samples 24 --sparsity 0.5 --heal model
says "every output is behind it; heal blocks" stderr
refuses 1 "no gradient goes through node 'make_sum' (ReduceSum), which ONNX Runtime computes, to the weights before it: choose by a metric without gradients" \
    "$grail" compress middle.onnx -o healed --calib "$images" --preset cifar --samples 24 --sparsity 0.5 --metric fisher
runs "$grail" compress middle.onnx -o healed --calib "$images" --preset cifar --samples 24 --sparsity 0.5 --heal block --heal-steps 8
says "block 1 of 2 was not healed: no gradient goes through node 'make_sum' (ReduceSum), which ONNX Runtime computes" stdout
says "healed block 2 of 2 in 8 steps" stdout
says '"region": 1' healed/report.json
make_network both
rm -rf healed
runs "$grail" compress both.onnx -o healed --calib "$images" --preset cifar --samples 24 --sparsity 0.5 --heal model --heal-steps 8
says "the network was trained by the outputs that are not behind node 'make_logits' (Sin), which ONNX Runtime computes, and judged by all" stdout
says "healed the network in 8 steps" stdout

check "ONNX Runtime that is missing, or none"
echo none >none.so
run_middle=("$grail" compress middle.onnx -o out --calib "$images" --preset cifar --samples 24 --sparsity 0.5 --quiet)
rm -rf out
refuses 1 "'nowhere' has no libonnxruntime.so; GRAIL_ONNXRUNTIME names the directory of the package onnxruntime, or the library" \
    env GRAIL_ONNXRUNTIME=nowhere "${run_middle[@]}"
refuses 1 "ONNX Runtime was not found: python3 has no package onnxruntime" env GRAIL_ONNXRUNTIME= "${run_middle[@]}"
refuses 1 "./none.so: file too short" env GRAIL_ONNXRUNTIME=none.so "${run_middle[@]}"
refuses 1 "is no ONNX Runtime: it lacks the function OrtGetApiBase" env GRAIL_ONNXRUNTIME="$GRAIL_TEST_GPU" "${run_middle[@]}"
refuses 1 "is release 1.2.3, expected 1.14 or newer" \
    env FAKE_ONNXRUNTIME_OLD=1 GRAIL_ONNXRUNTIME="$GRAIL_TEST_ONNXRUNTIME" "${run_middle[@]}"
[[ ! -e out ]] || fail "out was made"

check "what is fitted before it needs none"
narrow_other tail
cp -r out with
rm -rf out
runs env GRAIL_ONNXRUNTIME=nowhere "$grail" compress tail.onnx -o out --calib "$images" --preset cifar --samples 24 --align 1 --sparsity 0.5 --quiet
cmp with/tail.onnx out/tail.onnx || fail "bytes differ"
rm -rf out
refuses 1 "node 'make_logits' (Sin): 'nowhere' has no libonnxruntime.so" env GRAIL_ONNXRUNTIME=nowhere "$grail" verify tail.onnx with/tail.onnx

check "parts of a Split that some regions share and others make are made once in each"
"$python" - <<'PYTHON' || fail "cannot make shared.onnx"
import numpy
from onnx_maker import Network, write_pixels
net = Network()
net.weights(0.3, a=(8, 3, 3, 3), q=(16, 8, 1, 1), pe=(8, 1, 3, 3), o=(8, 8, 1, 1), f=(12, 8, 1, 1), g=(8, 12, 1, 1), z=(4, 8, 1, 1))
add, constant = net.add, net.constant
x = add("Relu", [add("Conv", ["pixels", "a"], "c", pads=[1] * 4)], "c1")
rows = add("Reshape", [add("Conv", [x, "q"], "qkv"), constant("heads", [0, 2, 8, 64])], "r")
q, k, v = add("Split", [rows, constant("parts", [2, 2, 4])], "q0", "k0", "v0", axis=2)
turned = add("Transpose", [q], "qt", perm=[0, 1, 3, 2])
image = add("Reshape", [v, constant("map", [0, 8, 8, 8])], "vr")
scores = add("MatMul", [turned, k], "qk")
beside = add("Conv", [image, "pe"], "pv", pads=[1] * 4, group=8)
shares = add("Transpose", [add("Softmax", [scores], "sm", axis=3)], "st", perm=[0, 1, 3, 2])
mixed = add("Reshape", [add("MatMul", [v, shares], "av"), "map"], "ar")
x = add("Add", [x, add("Conv", [add("Add", [mixed, beside], "sum"), "o"], "pr")], "res")
inner = add("Conv", [add("Relu", [add("Conv", [x, "f"], "f1")], "f2"), "g"], "f3")
add("Conv", [add("Add", [x, inner], "sum2"), "z"], "y")
net.save("shared", {"pixels": ["N", 3, 8, 8]}, {"y": ["N", 4, 8, 8]})
images = net.random.normal(size=(16, 3, 8, 8)).astype(numpy.float32)
numpy.save("shared.npy", images)
write_pixels("shared.safetensors", images[:4].transpose(0, 2, 3, 1))
PYTHON
rm -rf out
runs "$grail" compress shared.onnx -o out --calib shared.npy --align 1 --sparsity 0.5 --threads 1 --quiet
for file in shared.onnx out/shared.onnx; do
    rm -f logits.safetensors
    runs "$grail" logits "$file" --pixels shared.safetensors -o logits.safetensors --quiet
    "$python" "$source_dir/tests/cli/compare_onnx.py" "$file" shared.safetensors logits.safetensors || fail "$file: other outputs"
done
echo "all checks passed"
