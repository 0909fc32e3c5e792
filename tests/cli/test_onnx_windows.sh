#!/usr/bin/env bash
# Attention within windows of images, as Swin and MaxViT have it: rolled images whose windows have masks of their own, biases that are cut
# with the heads, places of all windows, and squares that become one position. What only looks like it is left to ONNX Runtime.
#
# usage: test_onnx_windows.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

python=${GRAIL_PYTHON:-python3}
needs_onnx

"$python" - <<'PYTHON' || fail "cannot make the networks"
import numpy
from onnx import numpy_helper
from onnx_maker import Network, write_pixels

net = Network()
add, constant, conv, linear, weight = net.add, net.constant, net.conv, net.linear, net.weight
SIDE, WIDE, FAR = 8, 12, 2**62  # rows and columns of the images


def save(name, outputs):
    net.save(name, {"pixels": ["N", 3, SIDE, WIDE]}, {o: ["N", *s] for o, s in outputs.items()})
    net.nodes, net.constants = [], []
    samples = net.random.standard_normal((16, 3, SIDE, WIDE)).astype(numpy.float32)
    numpy.save(f"{name}.npy", samples)
    write_pixels(f"{name}.safetensors", samples.transpose(0, 2, 3, 1))


def begin():
    for i in range(5):
        constant(f"i{i}", [i])
    constant("far", [FAR]), constant("minus", [-1])
    x = add("Transpose", [conv("pixels", "stem", 3, 16, (1, 1))], "image", perm=[0, 2, 3, 1])
    return add("Pad", [x, constant("nothing", [0] * 8)], "unpadded")


def norm(x, name, width):
    return add("LayerNormalization", [x, weight(f"{name}.w", width), weight(f"{name}.b", width)], name)


def roll(x, name, rows, columns):
    """Moves the image up and left, or down and right by less than 0."""
    for axis, by in ((1, rows), (2, columns)):
        at = constant(f"{name}.{axis}", [by])
        parts = [add("Slice", [x, at, "far", f"i{axis}"], f"{name}.{axis}a"), add("Slice", [x, "i0", at, f"i{axis}"], f"{name}.{axis}b")]
        x = add("Concat", parts, f"{name}.{axis}c", axis=axis)
    return x


def turn(x, name, first, order, last):
    x = add("Transpose", [add("Reshape", [x, constant(f"{name}.s", first)], f"{name}.p")], f"{name}.t", perm=order)
    return add("Reshape", [x, constant(f"{name}.e", last)], name)


def attend(x, name, width, rows, columns, masks=(), grid=False, idle=False):
    """Windows of 4 x 4 of so many rows and columns, or what is at one place in each of 4 x 4 windows; two heads."""
    half, sides = width // 2, [-1, rows // 4, 4, columns // 4, 4, width]
    sides = [-1, 4, rows // 4, 4, columns // 4, width] if grid else sides
    order = [0, 2, 4, 1, 3, 5] if grid else [0, 1, 3, 2, 4, 5]
    x = turn(x, f"{name}.in", sides, order, [-1, 16, width])
    split = constant(f"{name}.qkv", [-1, 16, 3, 2, half])
    qkv = add("Transpose", [add("Reshape", [linear(x, f"{name}.l", width, 3 * width), split], f"{name}.r")], f"{name}.h", perm=[2, 0, 3, 1, 4])
    q, k, v = (add("Gather", [qkv, constant(f"{name}.{i}", i)], f"{name}.{i}g", axis=0) for i in range(3))
    q = add("Mul", [q, constant(f"{name}.scale", numpy.float32(0.4))], f"{name}.q")
    scores = add("MatMul", [q, add("Transpose", [k], f"{name}.k", perm=[0, 1, 3, 2])], f"{name}.qk")
    index = constant(f"{name}.index", net.random.integers(0, 49, 256))
    table = add("Reshape", [add("Gather", [weight(f"{name}.table", 49, 2, scale=1), index], f"{name}.g"), constant(f"{name}.sq", [16, 16, 2])], f"{name}.st")
    scores = add("Add", [scores, add("Unsqueeze", [add("Transpose", [table], f"{name}.bt", perm=[2, 0, 1]), "i0"], f"{name}.b")], f"{name}.biased")
    for i, one in enumerate(masks):
        whole, each = constant(f"{name}.6{i}", [-1, len(one), 2, 16, 16]), constant(f"{name}.4{i}", [-1, 2, 16, 16])
        scores = add("Add", [add("Reshape", [scores, whole], f"{name}.w{i}"), constant(f"{name}.mask{i}", one[None, :, None])], f"{name}.masked{i}")
        scores = add("Reshape", [scores, each], f"{name}.each{i}")
    mixed = add("MatMul", [add("Softmax", [scores], f"{name}.shares", axis=-1), v], f"{name}.mixed")
    mixed = add("Reshape", [add("Transpose", [mixed], f"{name}.m", perm=[0, 2, 1, 3]), constant(f"{name}.o", [-1, 16, width])], f"{name}.all")
    y = linear(mixed, f"{name}.out", width, width)
    if idle:  # the first head's values do nothing
        old = next(t for t in net.constants if t.name == f"{name}.out.w")
        values = numpy.where(numpy.arange(width)[:, None] < half, 0, numpy_helper.to_array(old))
        net.constants[net.constants.index(old)] = numpy_helper.from_array(values, old.name)
    back = [0, 3, 1, 4, 2, 5] if grid else [0, 1, 3, 2, 4, 5]
    return turn(y, name, [-1, rows // 4, columns // 4, 4, 4, width], back, [-1, rows, columns, width])


def ffn(x, name, width):
    y = add("Relu", [linear(norm(x, f"{name}.n", width), f"{name}.u", width, 2 * width)], f"{name}.r")
    return add("Add", [x, linear(y, f"{name}.d", 2 * width, width)], name)


def mask_of(rows, columns, shift):
    """Positions that come in again on the other side see each other alone."""
    parts = numpy.zeros((rows, columns))
    for i, y in enumerate((slice(0, -4), slice(-4, -shift), slice(-shift, None))):
        for j, x in enumerate((slice(0, -4), slice(-4, -shift), slice(-shift, None))):
            parts[y, x] = 3 * i + j
    parts = parts.reshape(rows // 4, 4, columns // 4, 4).transpose(0, 2, 1, 3).reshape(-1, 16)
    return numpy.where(parts[:, None] == parts[:, :, None], 0, -100).astype(numpy.float32)


def merge(x, name):
    """Every second row and column side by side."""
    parts = []
    for column in (0, 1):
        for row in (0, 1):
            y = add("Slice", [x, f"i{row}", "far", "i1", "i2"], f"{name}.{row}{column}r")
            parts.append(add("Slice", [y, f"i{column}", "far", "i2", "i2"], f"{name}.{row}{column}"))
    return add("Concat", parts, name, axis=-1)


def end(x, width, outputs):
    mean = add("ReduceMean", [norm(x, "last", width)], "pooled", axes=[1, 2], keepdims=0)
    add("Gemm", [mean, weight("head.w", outputs, width), weight("head.b", outputs)], "classes", transB=1)


x = begin()
x = ffn(add("Add", [x, attend(norm(x, "n0", 16), "a0", 16, SIDE, WIDE)], "x0"), "f0", 16)
y = attend(roll(norm(x, "n1", 16), "up", 2, 2), "a1", 16, SIDE, WIDE, [mask_of(SIDE, WIDE, 2)])
x = ffn(add("Add", [x, roll(y, "down", -2, -2)], "x1"), "f1", 16)
x = norm(merge(x, "merged"), "n2", 64)
x = add("MatMul", [x, weight("wider", 64, 24)], "wide")
end(ffn(x, "f2", 24), 24, 5)
save("swin", {"classes": [5]})

x = begin()
x = add("Add", [x, attend(norm(x, "n0", 16), "a0", 16, SIDE, WIDE)], "x0")
x = ffn(add("Add", [x, attend(norm(x, "n1", 16), "a1", 16, SIDE, WIDE, grid=True)], "x1"), "f1", 16)
# Squares by a Transpose, rows first.
x = turn(x, "merged", [-1, SIDE // 2, 2, WIDE // 2, 2, 16], [0, 1, 3, 2, 4, 5], [-1, SIDE // 2, WIDE // 2, 64])
end(ffn(add("MatMul", [norm(x, "n2", 64), weight("wider", 64, 24)], "wide"), "f2", 24), 24, 5)
save("grid", {"classes": [5]})

x = begin()
x = add("Add", [x, attend(norm(x, "n0", 16), "a0", 16, SIDE, WIDE, idle=True)], "x0")
end(ffn(x, "f0", 16), 16, 5)
save("idle", {"classes": [5]})

# What is none: a roll that a convolution reads, parts in another order, squares whose parts are not all there, two masks of windows, and
# rows that are attended to each by itself.
x = norm(begin(), "n0", 16)
x = add("Add", [x, attend(x, "a0", 16, SIDE, WIDE, [mask_of(SIDE, WIDE, 2), mask_of(SIDE, WIDE, 1)])], "x0")
end(ffn(x, "f0", 16), 16, 5)
save("twice", {"classes": [5]})

x = norm(begin(), "n0", 16)
each = add("Reshape", [x, constant("line", [-1, WIDE, 16])], "lines")
qkv = [add("Transpose", [add("Reshape", [linear(each, n, 16, 16), constant(f"{n}s", [-1, WIDE, 2, 8])], f"{n}r")], f"{n}h", perm=order)
       for n, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3]))]
mixed = add("MatMul", [add("Softmax", [add("MatMul", qkv[:2], "qk")], "shares", axis=-1), qkv[2]], "mixed")
mixed = add("Reshape", [add("Transpose", [mixed], "m", perm=[0, 2, 1, 3]), constant("rows", [-1, SIDE, WIDE, 16])], "together")
end(ffn(add("Add", [x, linear(mixed, "o", 16, 16)], "x0"), "f0", 16), 16, 5)
save("axial", {"classes": [5]})

x = begin()
x = add("Transpose", [roll(norm(x, "n0", 16), "up", 2, 2)], "planes", perm=[0, 3, 1, 2])
x = add("Transpose", [conv(x, "c", 16, 16, pads=[1, 1, 1, 1])], "c1", perm=[0, 2, 3, 1])
end(ffn(x, "f0", 16), 16, 5)
save("read", {"classes": [5]})

x = norm(begin(), "n0", 16)
parts = [add("Slice", [x, "i0", "i3", "i1"], "a"), add("Slice", [x, "i3", "far", "i1"], "b")]
x = add("Add", [x, add("Concat", parts, "same", axis=1)], "sum")
end(ffn(x, "f0", 16), 16, 5)
save("order", {"classes": [5]})

x = norm(begin(), "n0", 16)
rows = [add("Slice", [x, f"i{i}", "far", "i1", "i2"], f"s{i}") for i in (1, 0)]
x = add("MatMul", [norm(add("Concat", rows, "sides", axis=-1), "n1", 32), weight("wider", 32, 16)], "wide")
end(ffn(x, "f0", 16), 16, 5)
save("swapped", {"classes": [5]})
PYTHON

for network in swin:2:3 grid:2:2; do
    IFS=: read -r name heads ffns <<<"$network"
    runs "$grail" inspect "$name.onnx"
    grep -q "^region of " stdout && fail "a region is left in $name.onnx"
    [[ $(grep -c "  heads  * [^ ]*  * 2 " stdout) == "$heads" && $(grep -c "  ffn  " stdout) == "$ffns" ]] || fail "$name.onnx: other sites"
    check "$name"
    same_outputs "$name.onnx" "$name.safetensors"
    for how in "--compensate full" "--compensate none" "--heal model --heal-steps 4 --heal-batch 4"; do
        rm -rf out
        # shellcheck disable=SC2086
        runs "$grail" compress "$name.onnx" -o out --calib "$name.npy" --sites heads,ffn --align 1 --sparsity 0.5 --threads 1 --quiet $how
        same_outputs "out/$name.onnx" "$name.safetensors"
    done
    "$python" -c "import onnx; onnx.checker.check_model('out/$name.onnx', full_check=True)" || fail "out/$name.onnx is no valid model"
done

check "the head that stays has its own biases"
rm -rf out
runs "$grail" compress idle.onnx -o out --calib idle.npy --sites heads --align 1 --sparsity 0.5 --compensate none --threads 1 --quiet
"$python" - <<'PYTHON' || fail "another head, or its biases are not its own"
import numpy, onnxruntime
made = [onnxruntime.InferenceSession(f, providers=["CPUExecutionProvider"]).run(None, {"pixels": numpy.load("idle.npy")})[0]
        for f in ("idle.onnx", "out/idle.onnx")]
assert numpy.abs(made[0] - made[1]).max() < 1e-5 * numpy.abs(made[0]).max()
PYTHON

check "nodes that make nothing"
"$python" - <<'PYTHON'
import onnx
model = onnx.load("swin.onnx")
for operator in ("Add", "Reshape", "Slice", "Concat", "Softmax"):
    node = onnx.NodeProto()
    node.CopyFrom(next(n for n in model.graph.node if n.op_type == operator))
    node.ClearField("output")
    node.name = f"bare_{operator}"
    model.graph.node.append(node)
open("bare.onnx", "wb").write(model.SerializeToString())
PYTHON
runs "$grail" inspect bare.onnx
says "5 nodes of the file make nothing that an output needs" stderr

check "what is moved otherwise"
for name in read order swapped twice axial; do
    runs "$grail" inspect "$name.onnx"
    grep -q "^region of " stdout || fail "$name.onnx has no region"
    same_outputs "$name.onnx" "$name.safetensors"
    rm -rf out
    runs "$grail" compress "$name.onnx" -o out --calib "$name.npy" --sites ffn --align 1 --sparsity 0.5 --threads 1 --quiet
    same_outputs "out/$name.onnx" "$name.safetensors"
done
