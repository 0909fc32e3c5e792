#!/usr/bin/env bash
# Networks of ONNX that ONNX Runtime has optimised: operators of its own domain that stand for several of ONNX. Each is read
# and narrowed as those. And a norm that exporters spell out with the inverse of the root.
#
# usage: test_onnx_fused.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

python=${GRAIL_PYTHON:-python3}
needs_onnx

"$python" - <<'PYTHON' || fail "cannot make the networks"
import numpy
from onnx import TensorProto
from onnx_maker import Network, write_pixels

net = Network()
add, constant, linear, weight = net.add, net.constant, net.linear, net.weight
OF = {"domain": "com.microsoft"}


def matrix(x, name, inputs, outputs):
    return add("MatMul", [x, weight(f"{name}.w", inputs, outputs)], name)


def fused_conv(x, name, inputs, outputs, activation, *more, params=None, **attributes):
    given = {} if params is None else {"activation_params": params}
    return add("FusedConv", [x, weight(f"{name}.w", outputs, inputs, 3, 3), weight(f"{name}.b", outputs), *more], name,
               activation=activation, pads=[1] * 4, **given, **attributes, **OF)


def norm(name, width=16):
    return [constant(f"{name}.w", (1 + 0.1 * net.random.standard_normal(width)).astype(numpy.float32)), weight(f"{name}.b", width)]


# Convolutions with each activation, one in groups of single channels, one with a sum.
x = fused_conv("pixels", "c0", 3, 12, "Relu", strides=[2, 2])
y = fused_conv(x, "c1", 12, 20, "LeakyRelu", params=[0.2])
x = fused_conv(y, "c2", 20, 12, "Relu", x)
y = fused_conv(x, "c3", 12, 20, "Clip", params=[0.0, 6.0])
y = fused_conv(y, "c4", 1, 20, "HardSigmoid", params=[0.3, 0.4], group=20)
x = add("Add", [x, fused_conv(y, "c5", 20, 12, "Tanh")], "x0")
y = add("FusedGemm", [add("Flatten", [add("GlobalAveragePool", [x], "means")], "flat"), weight("g.w", 24, 12), weight("g.b", 24)], "g",
        transB=1, activation="LeakyRelu", activation_alpha=0.1, **OF)
add("Gemm", [y, weight("h.w", 24, 5), weight("h.b", 5)], "y")
net.save("maps", {"pixels": ["N", 3, 16, 16]}, {"y": ["N", 5]})
net.nodes, net.constants = [], []

# Attention by one matrix, and by three; norms of sums, with and without what they add, one of which gives its sum, too.
x = add("Conv", ["pixels", weight("e.w", 16, 3, 4, 4), weight("e.b", 16)], "e", strides=[4, 4])
x = add("Transpose", [add("Reshape", [x, constant("flatten", [0, 16, -1])], "row")], "tokens", perm=[0, 2, 1])
a = add("Attention", [x, weight("qkv.w", 16, 48), weight("qkv.b", 48)], "a", num_heads=2, **OF)
s, _, _, x = add("SkipLayerNormalization", [matrix(a, "o", 16, 16), x, *norm("n0"), weight("o.b", 16)], "n0", "", "", "x1", epsilon=1e-5, **OF)
f = add("BiasGelu", [matrix(s, "f", 16, 40), weight("f.b", 40)], "fg", **OF)
s = add("SkipLayerNormalization", [matrix(f, "p", 40, 16), x, *norm("n1"), weight("p.b", 16)], "n1", epsilon=1e-5, **OF)
f = add("FastGelu", [matrix(s, "f2", 16, 40), weight("f2.b", 40)], "f2g", **OF)
f = add("FastGelu", [matrix(f, "m2", 40, 24)], "m2g", **OF)
x = add("SkipSimplifiedLayerNormalization", [matrix(f, "p2", 24, 16), s, norm("n2")[0]], "n2", epsilon=1e-5, **OF)
q, k, v = (linear(x, name, 16, 16) for name in ("q", "k", "v"))
a = add("MultiHeadAttention", [q, k, v], "a2", num_heads=4, scale=0.4, **OF)
x = add("Add", [x, linear(a, "o2", 16, 16)], "x2")
x = add("SimplifiedLayerNormalization", [x, norm("n3")[0]], "n3", axis=-1, epsilon=1e-5)
f = add("QuickGelu", [linear(x, "f3", 16, 24)], "f3g", alpha=1.3, **OF)
f = add("QuickGelu", [linear(f, "f4", 24, 40)], "f4g", **OF)
f = add("QuickGelu", [linear(f, "f5", 40, 24)], "f5g", alpha=1.0, **OF)
x = add("Add", [x, add("FusedMatMul", [f, weight("p3.w", 16, 24)], "p3", transB=1, alpha=0.7, **OF)], "x3")
heads = constant("heads", [0, 0, 2, 8])
q, k, v = (add("Transpose", [add("Reshape", [linear(x, f"{n}4", 16, 16), heads], f"{n}h")], f"{n}t", perm=[0, 2, 1, 3]) for n in "qkv")
scores = add("FusedMatMul", [q, k], "scores", transB=1, alpha=0.35, **OF)
mixed = add("FusedMatMul", [add("Softmax", [scores], "shares", axis=-1), v], "mixed", **OF)
mixed = add("Reshape", [add("Transpose", [mixed], "turned", perm=[0, 2, 1, 3]), constant("all", [0, 0, -1])], "together")
x = add("Add", [x, linear(mixed, "o4", 16, 16)], "x4")
root = add("Sqrt", [add("Add", [add("ReduceMean", [add("Pow", [x, constant("two", numpy.float32(2))], "squares")], "mean", axes=[-1]),
                                constant("epsilon", numpy.float32(1e-5))], "summed")], "root")
x = add("Mul", [x, add("Div", [constant("unit", numpy.float32(1)), root], "inverse")], "scaled")
x = add("Mul", [norm("n5")[0], add("Cast", [x], "again", to=TensorProto.FLOAT)], "n5")
x = linear(add("Gelu", [linear(x, "f6", 16, 24)], "f6g", **OF), "p6", 24, 16)
x = add("FusedMatMul", [add("Transpose", [x], "columns", perm=[0, 2, 1]), weight("t.w", 16, 16)], "t", transA=1, **OF)
f = linear(x, "f7", 16, 24)
cube = add("Mul", [add("Pow", [f, constant("three", numpy.float32(3))], "cube"), constant("c", numpy.float32(0.044715))], "small")
wave = add("Tanh", [add("Mul", [add("Add", [f, cube], "bent"), constant("s", numpy.float32((2 / numpy.pi) ** 0.5))], "slow")], "wave")
f = add("Mul", [f, add("Add", [wave, constant("more", numpy.float32(1))], "gate")], "twice")
x = add("Add", [x, add("FusedMatMul", [f, weight("p7.w", 24, 16)], "p7", alpha=0.5, **OF)], "x7")
add("Gemm", [add("ReduceMean", [x], "pooled", axes=[1], keepdims=0), weight("h.w", 5, 16), weight("h.b", 5)], "y", transB=1)
net.save("tokens", {"pixels": ["N", 3, 16, 16]}, {"y": ["N", 5]})
net.nodes, net.constants = [], []
samples = net.random.standard_normal((24, 3, 16, 16)).astype(numpy.float32)
for name in ("maps", "tokens"):
    numpy.save(f"{name}.npy", samples)
    write_pixels(f"{name}.safetensors", samples.transpose(0, 2, 3, 1))

# Tables of words, positions and kinds in one node, whose mask the attention reads; the second one sees earlier positions alone.
x, mask = add("EmbedLayerNormalization", ["input_ids", "token_type_ids", weight("words", 40, 16), weight("places", 12, 16),
                                          weight("kinds", 2, 16), *norm("n"), "attention_mask"], "embedded", "count", epsilon=1e-5, **OF)
for i in range(2):
    a = add("Attention", [x, weight(f"{i}qkv.w", 16, 48), weight(f"{i}qkv.b", 48), mask if i == 0 else ""], f"{i}a", num_heads=4,
            unidirectional=i, **OF)
    x = add("SkipLayerNormalization", [matrix(a, f"{i}o", 16, 16), x, *norm(f"{i}n"), weight(f"{i}o.b", 16)], f"{i}x", epsilon=1e-5, **OF)
    f = add("BiasGelu", [matrix(x, f"{i}f", 16, 40), weight(f"{i}f.b", 40)], f"{i}g", **OF)
    x = add("SkipLayerNormalization", [matrix(f, f"{i}p", 40, 16), x, *norm(f"{i}m"), weight(f"{i}p.b", 16)],
            "hidden" if i else "x", epsilon=1e-5, **OF)
net.save("words", {name: (TensorProto.INT32, ["N", "T"]) for name in ("input_ids", "token_type_ids", "attention_mask")},
         {"hidden": ["N", "T", 16]})
mask = (numpy.arange(9) < net.random.integers(2, 10, (24, 1))).astype(numpy.int32)
numpy.save("mask.npy", mask)
numpy.save("ids.npy", net.random.integers(2, 40, (24, 9)).astype(numpy.int32) * mask)
numpy.save("kinds.npy", net.random.integers(0, 2, (24, 9)).astype(numpy.int32))

# What no row reads stays, and is no reason to refuse the file: scores with a mask of their own, and earlier keys.
net.nodes, net.constants = [], []
x = add("Conv", ["pixels", weight("e.w", 16, 3, 4, 4), weight("e.b", 16)], "e", strides=[4, 4])
x = add("Transpose", [add("Reshape", [x, constant("flatten", [0, 16, -1])], "row")], "tokens", perm=[0, 2, 1])
mask = constant("mask", numpy.tril(numpy.ones((1, 1, 16, 16)), 0).astype(numpy.float32))
a = add("Attention", [x, weight("qkv.w", 16, 48), weight("qkv.b", 48), "", "", mask], "a", num_heads=2, **OF)
x = add("SkipLayerNormalization", [matrix(a, "o", 16, 16), x, *norm("n0")], "n0", epsilon=1e-5, **OF)
x = add("Add", [x, linear(add("BiasGelu", [matrix(x, "f", 16, 40), weight("f.b", 40)], "fg", **OF), "p", 40, 16)], "x1")
add("Gemm", [add("ReduceMean", [x], "pooled", axes=[1], keepdims=0), weight("h.w", 5, 16), weight("h.b", 5)], "y", transB=1)
net.save("masked", {"pixels": ["N", 3, 16, 16]}, {"y": ["N", 5]})
PYTHON

# NAME SITES PARAMETERS: no region is left, and it can be healed, too
narrow_whole() {
    runs "$grail" inspect "$1.onnx"
    grep -q region stdout && fail "a region is left in $1"
    narrow_by_half "$@"
    rm -rf out
    runs "$grail" compress "$1.onnx" -o out --calib "$1.npy" --sites "$2" --sparsity 0.5 --heal model --heal-steps 4 --quiet
    same_outputs "out/$1.onnx" "$1.safetensors"
}

narrow_whole maps conv,ffn 5021
narrow_whole tokens ffn,heads 5825

check "words"
of_words=input_ids=ids.npy,token_type_ids=kinds.npy,attention_mask=mask.npy
compare() {
    "$python" "$source_dir/tests/cli/compare_onnx_inputs.py" "$grail" "$@" || fail "$1: other outputs"
}
runs "$grail" inspect words.onnx
[[ $(grep -c "  heads  " stdout) == 2 && $(grep -c "  ffn  " stdout) == 2 ]] || fail "sites of words.onnx"
grep -q region stdout && fail "a region is left"
compare words.onnx "$of_words"
for repair in full none; do
    rm -rf out
    runs "$grail" compress words.onnx -o out --calib "$of_words" --sites heads,ffn --align 1 --sparsity 0.5 --compensate $repair --quiet
    compare out/words.onnx "$of_words"
done

check "what no row reads stays"
runs "$grail" inspect masked.onnx
says "is attention with a mask, earlier keys, rotary embedding or sizes of its own" stdout
runs "$grail" compress masked.onnx -o kept --calib tokens.npy --sites ffn --sparsity 0.5 --quiet
same_outputs kept/masked.onnx tokens.safetensors
"$python" - <<'PYTHON' || fail "cannot change a network"
import onnx
model = onnx.load("maps.onnx")
node = next(n for n in model.graph.node if n.output[0] == "c1")
next(a for a in node.attribute if a.name == "activation").s = b"Softplus"
onnx.save(model, "unknown.onnx")
PYTHON
rm -rf out
refuses 1 "node 'make_c1' (FusedConv): has an activation that grail has no row for" "$grail" inspect unknown.onnx

check "regions of FLOAT16"
"$python" - <<'PYTHON' || fail "cannot make half.onnx"
import numpy, onnx
from onnx import TensorProto, helper, numpy_helper
model = onnx.load("masked.onnx")
for one in model.graph.initializer:
    if one.data_type == TensorProto.FLOAT:
        one.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(one).astype(numpy.float16), one.name))
for node in model.graph.node:
    node.input[:] = ["halves" if name == "pixels" else name for name in node.input]
    node.output[:] = ["half_y" if name == "y" else name for name in node.output]
model.graph.node.insert(0, helper.make_node("Cast", ["pixels"], ["halves"], to=TensorProto.FLOAT16))
model.graph.node.append(helper.make_node("Cast", ["half_y"], ["y"], to=TensorProto.FLOAT))
onnx.save(model, "half.onnx")
PYTHON
rm -rf out
runs "$grail" inspect half.onnx
grep -q "  ffn  " stdout || fail "half.onnx has no FFN"
runs "$grail" compress half.onnx -o out --calib tokens.npy --sites ffn --align 1 --sparsity 0.5 --threads 1 --quiet
rm -f own.safetensors
runs "$grail" logits out/half.onnx --pixels tokens.safetensors -o own.safetensors --quiet
"$python" - <<'PYTHON' || fail "half.onnx computes something else"
import numpy, onnxruntime, sys
from onnx_maker import read_tensors
theirs = onnxruntime.InferenceSession("out/half.onnx", providers=["CPUExecutionProvider"]).run(None, {"pixels": numpy.load("tokens.npy")})[0]
ours = next(iter(read_tensors("own.safetensors").values())).reshape(theirs.shape)
assert abs(theirs - ours).max() < 0.01 * abs(theirs).max()
PYTHON
