#!/usr/bin/env bash
# ONNX files whose weights are computed by nodes from constants: by weight norm, by a standardised kernel, scaled and
# turned. They are cut like others.
#
# usage: test_onnx_folds.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

pixels=$source_dir/tests/golden/vision/onnx/golden.safetensors
images=$demo/vision/calibration
python=${GRAIL_PYTHON:-python3}
needs_onnx

# NAME: a stem, two convolutions whose weights are computed and added to it, and a matrix that is. "nan" has a gain that
# is no number; in "shared" two convolutions read one computed weight; in "others" an image is multiplied by what a
# weight is computed of; "inputs" has constants among its inputs; "misfit" multiplies what cannot be multiplied;
# "outer" computes one of what no memory holds; in "useless" four nodes make nothing that the output needs, two of sizes.
make_network() {
    "$python" - "$1" <<'PYTHON' || fail "cannot make $1"
import sys
import numpy
from onnx import TensorProto
from onnx_maker import Network

name = sys.argv[1]
net = Network()
add, constant = net.add, net.constant

def weight(name, *shape):
    return net.weight(name, *shape, scale=0.3)

def conv(x, y, w, outputs):
    return add("Conv", [x, w, weight(f"{y}.b", outputs)], y, pads=[1] * 4)

def normed(name, shape, gain):
    v = weight(f"{name}.v", *shape)
    length = add("ReduceL2", [v], f"{name}.length", axes=list(range(1, len(shape))), keepdims=1)
    return add("Mul", [add("Div", [v, length], f"{name}.unit"), constant(f"{name}.g", gain.astype(numpy.float32))], f"{name}.w")

def standard(name, shape):
    v = weight(f"{name}.v", *shape)
    flat = add("Reshape", [v, constant(f"{name}.flat", [1, shape[0], -1])], f"{name}.rows")
    zeros, ones = constant(f"{name}.zeros", numpy.zeros(shape[0], "f4")), constant(f"{name}.ones", numpy.ones(shape[0], "f4"))
    scaled = add("BatchNormalization", [flat, weight(f"{name}.g", shape[0]), zeros, zeros, ones],
                 f"{name}.std", f"{name}.mean", f"{name}.var", training_mode=1)
    return add("Reshape", [scaled[0], constant(f"{name}.shape", shape)], f"{name}.w")

gain = 1 + net.random.random((12, 1, 1, 1))
if name == "nan":
    gain[3] = numpy.nan
if name == "misfit":
    gain = numpy.ones((5, 1, 1, 1))
x = add("Relu", [conv("pixels", "s", weight("s.w", 8, 3, 3, 3), 8)], "stem")
y = add("Relu", [conv(x, "a", normed("a", (12, 8, 3, 3), gain), 12)], "inner")
stem = x
x = add("Add", [conv(y, "b", standard("b", (8, 12, 3, 3)), 8), x], "sum")
if name == "shared":
    y = add("Relu", [conv(stem, "c", "a.w", 12)], "second")
    x = add("Add", [conv(y, "d", weight("d.w", 8, 12, 3, 3), 8), x], "both")
if name == "others":
    x = add("Mul", [x, add("Reshape", ["b.g", constant("wide", [1, 8, 1, 1])], "scale")], "scaled")
if name == "useless":
    add("Cos", [add("Conv", [y, weight("u.w", 4, 12, 1, 1)], "unread")], "unread.too")
    add("Gather", [add("Shape", [y], "size"), constant("first", 0)], "channels")
x = add("Flatten", [add("GlobalAveragePool", [x], "means")], "features")
if name == "outer":
    many = add("Expand", [constant("one", numpy.ones((1, 1), "f4")), constant("sides", [1 << 24, 1 << 24])], "large")
    x = add("MatMul", [x, add("Mul", [weight("o.v", 8, 8), add("ReduceMean", [many], "mean", axes=[0, 1])], "o.w")], "mixed")
head = add("Mul", [add("Transpose", [weight("head.v", 10, 8)], "turned", perm=[1, 0]), constant("half", numpy.float32(0.5))], "head.w")
add("MatMul", [x, head], "logits")
inputs, outputs = {"pixels": ["N", 3, 32, 32]}, {"logits": ["N", 10]}
if name == "inputs":
    inputs |= {c.name: (c.data_type, list(c.dims)) for c in net.constants}
net.save(name, inputs, outputs, declared={"a.w": [12, 8, 3, 3]}, ir_version=3 if name == "inputs" else 8)
PYTHON
}

narrow() {
    rm -rf out
    runs "$grail" compress "$1.onnx" -o out --calib "$images" --preset cifar --samples 24 --align 1 --sparsity 0.5 --quiet "${@:2}"
}

# operators FILE: how many nodes of each, and which initializers
operators() {
    "$python" - "$1" <<'PYTHON'
import collections
import sys
import onnx

model = onnx.load(sys.argv[1])
onnx.checker.check_model(model)
print(*(f"{count} {name}" for name, count in sorted(collections.Counter(n.op_type for n in model.graph.node).items())))
print(*sorted(t.name for t in model.graph.initializer))
PYTHON
}

for name in plain nan shared others inputs misfit outer useless; do
    make_network $name
done

check "weights that nodes compute are those of sites, by the name of what is computed"
runs "$grail" inspect plain.onnx
says "conv    b.w                                               12         1      12" stdout
! grep -q region stdout || fail "has regions"
same_outputs plain.onnx "$pixels"

check "without a cut every byte stays, and so does every node"
for name in plain shared others inputs useless; do
    rm -rf out
    runs "$grail" compress $name.onnx -o out --calib "$images" --preset cifar --samples 24 --sparsity 0 --quiet
    cmp $name.onnx out/$name.onnx || fail "$name has other bytes"
done

check "a cut has plain tensors in place of the nodes, and of what they alone read; and no node whose values nothing reads"
runs "$grail" inspect useless.onnx
says "2 nodes of the file make nothing that an output needs; a narrowed file is without them" stderr
for name in plain shared others inputs useless; do
    narrow $name --selector random --compensate none
    runs "$grail" verify $name.onnx out/$name.onnx
    says ", holds (tolerance 0.001)" stdout
    same_outputs out/$name.onnx "$pixels"
    narrow $name
    same_outputs out/$name.onnx "$pixels"
    operators out/$name.onnx >$name.operators
done
says "1 Add 3 Conv 1 Flatten 1 GlobalAveragePool 1 MatMul 2 Relu" plain.operators
says "a.b a.w b.b b.w head.w s.b s.w" plain.operators
cmp plain.operators inputs.operators
cmp plain.operators useless.operators
says "a.b a.w a.w.2 b.b b.w c.b d.b d.w head.w s.b s.w" shared.operators
says "a.b a.w b.b b.g b.w head.w s.b s.w wide" others.operators

check "a run that is killed goes on to the same bytes"
command=(plain.onnx --calib "$images" --preset cifar --samples 128 --align 1 --sparsity 0.5 --quiet)
rm -rf whole killed.partial
runs "$grail" compress "${command[@]}" -o whole
killed_at killed 1 "$grail" compress "${command[@]}"
runs "$grail" compress "${command[@]}" -o killed --resume
same_result whole killed

check "what healing changes is a plain tensor, too"
rm -rf out
runs "$grail" compress plain.onnx -o out --calib "$images" --preset cifar --samples 24 --align 1 --sparsity 0.5 --heal model --heal-steps 4 --quiet
same_outputs out/plain.onnx "$pixels"
operators out/plain.onnx >stdout
cmp plain.operators stdout
rm -rf healed
runs "$grail" heal plain.onnx --teacher shared.onnx -o healed --calib "$images" --preset cifar --samples 24 --heal-steps 2 --quiet
operators healed/plain.onnx >stdout
cmp plain.operators stdout

check "a weight that is no number is refused by its name"
rm -rf out
refuses 3 "tensor 'a.w' holds a NaN" "$grail" compress nan.onnx -o out --calib "$images" --preset cifar --samples 24 --sparsity 0.5 --quiet

check "what ONNX Runtime does not compute stays with its nodes, which say why"
refuses 1 "node 'make_a.length' (ReduceL2): grail has no row for this operator" "$grail" inspect misfit.onnx
says "Incompatible dimensions" stderr
refuses 1 "node 'make_a.length' (ReduceL2): grail has no row for this operator" \
    env GRAIL_ONNXRUNTIME=nowhere "$grail" inspect plain.onnx
says "GRAIL_ONNXRUNTIME" stderr
run "$grail" inspect outer.onnx
((code == 1)) || fail "a weight larger than any memory: exit code $code"
says "grail has no row for this operator" stderr
