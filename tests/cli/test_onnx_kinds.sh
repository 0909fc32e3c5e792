#!/usr/bin/env bash
# Kinds of networks that come as ONNX files beside classifiers of images: of [N, C, T], detectors, with channels in the
# last dimension, with Linears that are read whole and in parts, with sizes that are computed. Each is narrowed.
#
# usage: test_onnx_kinds.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

python=${GRAIL_PYTHON:-python3}
needs_onnx

"$python" - <<'PYTHON' || fail "cannot make the networks"
import numpy
from onnx import numpy_helper
from onnx_maker import Network, write_pixels

net = Network()
add, constant, conv, linear, weight = net.add, net.constant, net.conv, net.linear, net.weight


def save(name, shape, outputs):
    net.save(name, {"pixels": ["N", *shape]}, {o: ["N", *s] for o, s in outputs.items()})
    net.nodes, net.constants = [], []
    samples = net.random.standard_normal((8, *shape)).astype(numpy.float32)
    numpy.save(f"{name}.npy", samples)
    if len(shape) == 2:
        samples = samples[..., None]
    write_pixels(f"{name}.safetensors", samples.transpose(0, 2, 3, 1))


# Signals: strides, dilation, depthwise, squeeze and excitation, pooling, and back by transposed convolutions.
x = add("Relu", [conv("pixels", "a", 6, 16, (7,), strides=[2], pads=[3, 3])], "ar")
skipped = add("MaxPool", [x], "pool", kernel_shape=[3], strides=[2], pads=[1, 1])
x = add("Conv", [skipped, weight("d.w", 16, 1, 3), weight("d.b", 16)], "d", group=16, dilations=[2], pads=[2, 2])
x = add("Relu", [conv(x, "e", 16, 24, (1,))], "er")
gate = add("Relu", [conv(add("GlobalAveragePool", [x], "mean"), "g", 24, 8, (1,))], "gr")
x = add("Mul", [x, add("Sigmoid", [conv(gate, "h", 8, 24, (1,))], "gate")], "gated")
x = add("Concat", [x, skipped], "joined", axis=1)
x = add("Relu", [add("ConvTranspose", [x, weight("t.w", 40, 12, 4), weight("t.b", 12)], "t", strides=[2], pads=[1, 1])], "tr")
add("ConvTranspose", [x, weight("u.w", 12, 6, 4), weight("u.b", 6)], "y", strides=[2], pads=[1, 1])
save("signals", (6, 64), {"y": (6, 64)})

# A Whisper-like encoder: two convolutions, positions, a block with attention and an FFN, hidden states.
x = add("Sigmoid", [conv("pixels", "a", 10, 16, (3,), pads=[1, 1])], "ar")
x = add("Sigmoid", [conv(x, "b", 16, 16, (3,), strides=[2], pads=[1, 1])], "br")
x = add("Add", [add("Transpose", [x], "tokens", perm=[0, 2, 1]), weight("positions", 12, 16)], "placed")
n = add("LayerNormalization", [x, weight("n.w", 16), weight("n.b", 16)], "n")
heads = constant("heads", [0, 0, 2, 8])
q, k, v = (add("Transpose", [add("Reshape", [linear(n, p, 16, 16), heads], f"{p}h")], f"{p}t", perm=order)
           for p, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])))
q = add("Add", [add("Mul", [q, constant("scale", numpy.float32(0.5))], "qs"), constant("offset", numpy.zeros(1, numpy.float32))], "q0")
shares = add("Softmax", [add("MatMul", [q, k], "qk")], "shares", axis=-1)
mixed = add("Transpose", [add("MatMul", [shares, v], "mixed")], "mixedt", perm=[0, 2, 1, 3])
mixed = add("Reshape", [mixed, constant("all", [0, 0, -1])], "together")
x = add("Add", [x, linear(mixed, "o", 16, 16)], "x1")
n = add("LayerNormalization", [x, weight("m.w", 16), weight("m.b", 16)], "m")
x = add("Add", [x, linear(add("Relu", [linear(n, "f", 16, 48)], "fr"), "p", 48, 16)], "x2")
add("LayerNormalization", [x, weight("l.w", 16), weight("l.b", 16)], "y")
save("encoder", (10, 24), {"y": (12, 16)})

# A detector: five levels in one list, and anchors, of which there are as many as the images that shapes are asked with.
levels, x = [], "pixels"
for i in range(5):
    x = add("Relu", [conv(x, f"l{i}", 3 if i == 0 else 16, 16, strides=[2, 2], pads=[1] * 4)], f"l{i}r")
    found = conv(add("Relu", [conv(x, f"i{i}", 16, 12, pads=[1] * 4)], f"i{i}r"), f"o{i}", 12, 6, (1, 1))
    rows = add("Transpose", [add("Reshape", [found, constant(f"s{i}", [0, 6, -1])], f"r{i}")], f"t{i}", perm=[0, 2, 1])
    levels.append(rows)
boxes = add("Concat", levels, "boxes", axis=1)
size = add("Slice", [add("Shape", [boxes], "shape"), *(constant(n, [i]) for n, i in (("b", 1), ("e", 2)))], "count")
ones = add("ConstantOfShape", [add("Concat", [constant("two", [2]), size, constant("six", [6])], "grid", axis=0)],
           "anchors", value=numpy_helper.from_array(numpy.array([0.5], numpy.float32)))
shift = add("ReduceSum", [ones, constant("first", [0])], "shift", keepdims=1)
add("Add", [add("Sin", [boxes], "moved"), shift], "y")
save("detector", (3, 64, 64), {"y": ("A", 6)})

# Channels last, behind an operator without a row; a block adds a branch that mixes positions.
x = add("Transpose", [conv("pixels", "a", 3, 16, strides=[4, 4])], "rows", perm=[0, 2, 3, 1])
for i in range(2):
    n = add("LayerNormalization", [add("Sin", [x], f"s{i}"), weight(f"n{i}.w", 16), weight(f"n{i}.b", 16)], f"n{i}")
    x = add("Add", [x, linear(add("Relu", [linear(n, f"f{i}", 16, 40)], f"r{i}"), f"p{i}", 40, 16)], f"x{i}")
add("Gemm", [add("ReduceMean", [x], "means", axes=[1, 2], keepdims=0), weight("h.w", 5, 16), weight("h.b", 5)], "y", transB=1)
save("last", (3, 32, 32), {"y": (5,)})

# One matrix makes three values, of which a region reads the whole; halves of others gate each other, stated by slices or
# by an even Split behind an RMS norm spelled out.
x = add("Reshape", [conv("pixels", "a", 3, 16, (4, 4), strides=[4, 4]), constant("row", [0, 16, -1])], "flat")
x = add("Transpose", [x], "tokens", perm=[0, 2, 1])
qkv = linear(x, "qkv", 16, 48)
parts = add("Split", [qkv, constant("sizes", [16, 16, 16])], "part0", "part1", "part2", axis=-1)
mixed = add("Mul", [add("ReduceL2", [qkv], "length", axes=[1]), add("Sin", [qkv], "wave")], "mixture")
x = add("Add", [add("Mul", [parts[0], parts[1]], "product"), linear(mixed, "o", 48, 16)], "x1")
both = linear(x, "both", 16, 48)
one = constant("one", [1])
halves = [add("Slice", [both, *(constant(f"{n}{i}", [v]) for n, v in (("begin", b), ("end", e))), constant(f"last{i}", [-1]), one], f"half{i}")
          for i, (b, e) in enumerate(((0, 24), (24, 2**63 - 1)))]
gated = add("Mul", [halves[0], add("Sigmoid", [halves[1]], "gate")], "gated")
x = add("Sub", [x, linear(gated, "down", 24, 16)], "x2")
mean = add("ReduceMean", [add("Mul", [x, x], "squares")], "mean", axes=[2])
root = add("Sqrt", [add("Add", [mean, constant("epsilon", numpy.float32(1e-5))], "summed")], "root")
n = add("Mul", [add("Mul", [x, add("Reciprocal", [root], "inverse")], "scaled"), weight("n.w", 16)], "n")
halves = add("Split", [linear(n, "pair", 16, 40)], "pair_0", "pair_1", axis=2)
gated = add("Mul", [add("Mul", [halves[0], add("Sigmoid", [halves[0]], "gate2")], "silu"), halves[1]], "gated2")
x = add("Add", [x, linear(gated, "down2", 20, 16)], "x3")
add("Gemm", [add("ReduceMean", [x], "means", axes=[1], keepdims=0), weight("h.w", 5, 16), weight("h.b", 5)], "y", transB=1)
save("parted", (3, 32, 32), {"y": (5,)})

# Norms of responses, as ConvNeXt V2 has them: of maps and of positions in front of channels, with and without a product
# with 1. Half of the channels that are normed are always 0.
def response(x, name, width, positions, channels, axis):
    shape = [1] * 4
    shape[channels] = width
    length = add("ReduceL2", [x], f"{name}.length", axes=positions, keepdims=1)
    mean = add("ReduceMean", [length], f"{name}.mean", axes=[axis], keepdims=1)
    mean = add("Add", [mean, constant(f"{name}.epsilon", numpy.float32(1e-6))], f"{name}.sum")
    n = add("Mul", [x, add("Div", [length, mean], f"{name}.share")], f"{name}.normed")
    n = add("Mul", [weight(f"{name}.gamma", *shape, scale=1), n], f"{name}.scaled")
    if axis > 0:
        n = add("Mul", [n, constant(f"{name}.one", numpy.ones(1, numpy.float32))], f"{name}.same")
    return add("Add", [x, add("Add", [weight(f"{name}.beta", *shape, scale=0.1), n], f"{name}.shifted")], name)


x = conv("pixels", "a", 3, 16, strides=[4, 4])
n = add("Relu", [conv(x, "b", 16, 24, (1, 1))], "br")
x = add("Add", [x, conv(response(n, "r", 24, [2, 3], 1, 1), "c", 24, 16, (1, 1))], "x1")
t = add("Transpose", [x], "last", perm=[0, 2, 3, 1])
n = add("Relu", [linear(t, "f", 16, 24)], "fr")
t = add("Add", [t, linear(response(n, "s", 24, [1, 2], 3, -1), "p", 24, 16)], "x2")
add("Gemm", [add("ReduceMean", [t], "means", axes=[1, 2], keepdims=0), weight("h.w", 5, 16), weight("h.b", 5)], "y", transB=1)
zeros = {"b.w": 0, "b.b": 0, "r.beta": 1, "f.w": 1, "f.b": 0, "s.beta": 3}
for i, c in enumerate(net.constants):
    values = numpy_helper.to_array(c).copy()
    if c.name in zeros:
        numpy.moveaxis(values, zeros[c.name], 0)[8:20] = 0
    net.constants[i] = numpy_helper.from_array(values, c.name)
save("responses", (3, 32, 32), {"y": (5,)})

# Attention on maps: queries, keys and values are one convolution, side by side, or inside each head, where values are wider,
# multiply the shares the other way round, and are seen as a map, too.
x = conv("pixels", "a", 3, 16, (4, 4), strides=[4, 4])
t = add("Reshape", [conv(x, "qkv", 16, 48, (1, 1)), constant("parted", [0, 3, 2, 8, -1])], "three")
t = add("Transpose", [t], "outermost", perm=[1, 0, 2, 4, 3])
q, k, v = (add("Gather", [t, constant(f"at{i}", i)], f"part{i}", axis=0) for i in range(3))
shares = add("Softmax", [add("Mul", [add("MatMul", [q, add("Transpose", [k], "kt", perm=[0, 1, 3, 2])], "qk"),
                                     constant("scale", numpy.float32(8 ** -0.5))], "scores")], "shares", axis=-1)
t = add("Transpose", [add("MatMul", [shares, v], "mixed")], "mixedt", perm=[0, 1, 3, 2])
t = add("Reshape", [t, constant("map", [0, -1, 8, 8])], "back")
x = add("Add", [x, conv(t, "o", 16, 16, (1, 1))], "x1")
t = add("Reshape", [conv(x, "each", 16, 64, (1, 1)), constant("heads", [0, 4, 16, 64])], "four")
q, k, v = add("Split", [t, constant("sizes", [4, 4, 8])], "q", "k", "v", axis=2)
scores = add("MatMul", [add("Transpose", [q], "qt", perm=[0, 1, 3, 2]), k], "qk2")
shares = add("Softmax", [add("Mul", [scores, constant("half", numpy.float32(0.5))], "scores2")], "shares2", axis=-1)
t = add("MatMul", [v, add("Transpose", [shares], "turned", perm=[0, 1, 3, 2])], "mixed2")
maps = [add("Reshape", [value, constant(f"map{i}", [0, 32, 8, 8])], f"seen{i}") for i, value in enumerate((t, v))]
near = add("Conv", [maps[1], weight("near.w", 32, 1, 3, 3), weight("near.b", 32)], "near", group=32, pads=[1] * 4)
x = add("Add", [x, conv(add("Add", [maps[0], near], "both"), "p", 32, 16, (1, 1))], "x2")
add("Gemm", [add("ReduceMean", [x], "means", axes=[2, 3], keepdims=0), weight("h.w", 5, 16), weight("h.b", 5)], "y", transB=1)
save("attended", (3, 32, 32), {"y": (5,)})

# A mixer of positions: a gated FFN of them, its halves parted by a Split or by Slices, and one of channels; nothing norms
# the residual stream, which is cut, too.
x = add("Reshape", [conv("pixels", "a", 3, 16, (4, 4), strides=[4, 4]), constant("row", [0, 16, -1])], "flat")
x = add("Transpose", [x], "tokens", perm=[0, 2, 1])
for i in range(2):
    t = add("Add", [add("Mul", [x, weight(f"n{i}.w", 1, 1, 16, scale=1)], f"n{i}.scaled"), weight(f"n{i}.b", 1, 1, 16)], f"n{i}")
    t = linear(add("Transpose", [t], f"turned{i}", perm=[0, 2, 1]), f"m{i}", 64, 24)
    if i == 0:
        halves = add("Split", [t, constant("twelve", [12, 12])], "half0", "half1", axis=2)
    else:
        halves = [add("Slice", [t, *(constant(f"{n}{k}", [v]) for n, v in (("begin", 12 * k), ("end", 12 * k + 12), ("last", -1)))],
                      f"half{2 + k}") for k in range(2)]
    t = add("Mul", [halves[0], add("Sigmoid", [halves[1]], f"gate{i}")], f"gated{i}")
    t = add("Transpose", [linear(t, f"o{i}", 12, 64)], f"back{i}", perm=[0, 2, 1])
    x = add("Add", [x, t], f"x{i}")
    x = add("Add", [x, linear(add("Relu", [linear(x, f"f{i}", 16, 40)], f"r{i}"), f"p{i}", 40, 16)], f"y{i}")
add("Gemm", [add("ReduceMean", [x], "means", axes=[1], keepdims=0), weight("h.w", 5, 16), weight("h.b", 5)], "y", transB=1)
save("mixer", (3, 32, 32), {"y": (5,)})

# The channels of one value are stated by the sizes of another, which narrows otherwise.
x = add("Relu", [conv("pixels", "a", 3, 16, strides=[4, 4])], "ar")
width = add("Gather", [add("Shape", [x], "shape"), constant("second", [1])], "width")
y = add("Relu", [conv(x, "b", 16, 16, pads=[1] * 4)], "br")
target = add("Concat", [constant("all", [0]), width, constant("rest", [-1])], "target", axis=0)
y = add("ReduceMean", [add("Reshape", [y, target], "reshaped")], "means", axes=[2], keepdims=0)
y = add("Relu", [add("Gemm", [y, weight("c.w", 20, 16), weight("c.b", 20)], "c", transB=1)], "cr")
add("Gemm", [y, weight("h.w", 5, 20), weight("h.b", 5)], "y", transB=1)
save("computed", (3, 32, 32), {"y": (5,)})

# Pads that follow from the size of images, as of TensorFlow; minus infinity around what a maximum is taken of.
x = conv("pixels", "a", 3, 16, strides=[2, 2], auto_pad="SAME_UPPER")
x = add("Pad", [x, constant("around", [0, 0, 0, 1, 0, 0, 1, 1]), constant("lowest", numpy.float32(-numpy.inf))], "low")
x = add("MaxPool", [x], "highest", kernel_shape=[3, 3], strides=[2, 2])
x = add("Relu", [conv(x, "b", 16, 24, strides=[2, 3], auto_pad="SAME_LOWER")], "br")
x = add("AveragePool", [x], "near", kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
x = add("Relu", [conv(x, "c", 24, 16, auto_pad="SAME_UPPER")], "cr")
add("Gemm", [add("Flatten", [add("GlobalAveragePool", [x], "means")], "flat"), weight("h.w", 5, 16), weight("h.b", 5)], "y", transB=1)
save("padded", (3, 39, 46), {"y": (5,)})

# A recogniser of lines: a map of one row becomes tokens and an image again, a Softmax over the channels of each position ends it.
x = add("Relu", [conv("pixels", "a", 3, 16, (4, 4), strides=[4, 4])], "ar")
x = add("AveragePool", [x], "row", kernel_shape=[4, 1])
t = add("Transpose", [add("Squeeze", [x, constant("height", [2])], "line")], "tokens", perm=[0, 2, 1])
t = add("Add", [t, linear(add("Relu", [linear(t, "f", 16, 32)], "fr"), "p", 32, 16)], "t1")
x = add("Transpose", [add("Reshape", [t, constant("image", [0, 1, 8, 16])], "back")], "map", perm=[0, 3, 1, 2])
x = add("Relu", [conv(x, "b", 16, 24, (1, 3), pads=[0, 1, 0, 1])], "br")
t = add("Transpose", [add("Squeeze", [x, constant("height2", [2])], "line2")], "tokens2", perm=[0, 2, 1])
t = add("Unsqueeze", [add("Transpose", [t], "again", perm=[0, 2, 1]), constant("behind", [3])], "column")
t = add("Squeeze", [add("Relu", [conv(t, "c", 24, 16, (3, 1), pads=[1, 0, 1, 0])], "cr"), constant("width", [3])], "line3")
add("Softmax", [linear(add("Transpose", [t], "tokens3", perm=[0, 2, 1]), "h", 16, 10)], "probabilities",
    axis=-1)
save("lines", (3, 16, 32), {"probabilities": (8, 10)})

# Channels that no cut may take: they are shuffled, or joined in front of groups that they do not fill.
x = add("Relu", [conv("pixels", "a", 3, 16, strides=[4, 4])], "ar")
x = add("Transpose", [add("Reshape", [x, constant("parted", [0, 2, 8, 8, 8])], "rows")], "columns", perm=[0, 2, 1, 3, 4])
x = add("Reshape", [x, constant("joined", [0, 16, 8, 8])], "shuffled")
both = [add("Relu", [conv(x, name, 16, width, pads=[1] * 4)], f"{name}r") for name, width in (("b", 12), ("c", 20))]
x = add("Conv", [add("Concat", both, "both", axis=1), weight("d.w", 16, 8, 3, 3), weight("d.b", 16)], "d", group=4)
x = add("Relu", [conv(add("Relu", [x], "dr"), "e", 16, 24)], "er")
add("Gemm", [add("Flatten", [add("GlobalAveragePool", [x], "means")], "flat"), weight("h.w", 5, 24), weight("h.b", 5)], "y", transB=1)
save("held", (3, 32, 32), {"y": (5,)})

# The largest of all positions, as a gate and, of channels in the last dimension, in front of the head.
x = add("Relu", [conv("pixels", "a", 3, 16, strides=[4, 4])], "ar")
gate = add("Sigmoid", [conv(add("ReduceMax", [x], "largest", axes=[2, 3], keepdims=1), "g", 16, 16, (1, 1))], "gate")
x = add("Relu", [conv(add("Mul", [x, gate], "gated"), "b", 16, 24)], "br")
x = add("ReduceMax", [add("Transpose", [x], "behind", perm=[0, 2, 3, 1])], "last", axes=[1, -2], keepdims=0)
add("Gemm", [x, weight("h.w", 5, 24), weight("h.b", 5)], "y", transB=1)
save("largest", (3, 32, 32), {"y": (5,)})

# Values of 16 bits between Casts, as converters make them, around a Resize of 32 bits whose scales are put together; and a network
# whose input and output are of 16 bits, too.
usual = constant
for name in ("half", "half_io"):
    def constant(name, values):
        values = numpy.asarray(values)
        return usual(name, values.astype(numpy.float16) if values.dtype == numpy.float32 else values)

    net.constant = constant
    x = "pixels" if name == "half_io" else add("Cast", ["pixels"], "in16", to=10)
    x = add("Relu", [conv(x, "a", 3, 16, strides=[2, 2], pads=[1] * 4)], "ar")
    scales = [constant(n, numpy.full(2, v, numpy.float32)) for n, v in (("one", 1), ("two", 2))]
    scales = add("Cast", [add("Concat", scales, "scales16", axis=0)], "scales", to=1)
    x = add("Cast", [add("Resize", [add("Cast", [x], "up", to=1), "", scales], "large", mode="nearest")], "down", to=10)
    x = conv(add("Relu", [conv(x, "b", 16, 24, pads=[1] * 4)], "br"), "y" if name == "half_io" else "y16", 24, 3, pads=[1] * 4)
    kind = 10 if name == "half_io" else 1
    if kind == 1:
        add("Cast", [x], "y", to=1)
    net.save(name, {"pixels": (kind, ["N", 3, 32, 32])}, {"y": (kind, ["N", 3, 32, 32])})
    net.nodes, net.constants = [], []
    del net.constant
samples = net.random.standard_normal((8, 3, 32, 32)).astype(numpy.float32)
numpy.save("half.npy", samples)
write_pixels("half.safetensors", samples.transpose(0, 2, 3, 1))
constant = usual

# As Keras has images, channels last: scaled in front of the first Transpose, and flattened behind the last one in the order (row,
# column, channel); once with sizes that the file leaves open.
for name, sizes in (("keras", (24, 20)), ("keras_open", ("height", "width"))):
    x = add("Sub", [add("Mul", ["pixels", constant("scale", numpy.float32(0.5))], "scaled"), weight("means", 3)], "centred")
    x = conv(add("Transpose", [x], "front", perm=[0, 3, 1, 2]), "a", 3, 16, strides=[2, 2], auto_pad="SAME_UPPER")
    x = add("PRelu", [x, weight("slopes", 16, 1, 1)], "ar")
    x = add("MaxPool", [x], "pool", kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
    x = add("Relu", [conv(x, "b", 16, 24)], "br")
    x = add("Flatten", [add("Transpose", [x], "behind", perm=[0, 2, 3, 1])], "flat")
    x = add("Relu", [linear(x, "c", 288, 20)], "cr")
    linear(x, "y", 20, 5)
    net.save(name, {"pixels": ["N", *sizes, 3]}, {"y": ["N", 5]})
    net.nodes, net.constants = [], []
samples = net.random.standard_normal((8, 24, 20, 3)).astype(numpy.float32)
numpy.save("keras.npy", samples)
numpy.save("keras_planes.npy", samples.transpose(0, 3, 1, 2))
write_pixels("keras.safetensors", samples)

# A plane, whose Transposes are written as Reshapes, between bounds, slopes and sums of one to three values; its end is a single
# position, whose channels go behind it.
x = add("Reshape", ["pixels", constant("front", [-1, 1, 24, 20])], "front_pixels")
x = add("LeakyRelu", [conv(x, "a", 1, 16, strides=[2, 2])], "al", alpha=0.2)
x = add("Max", [x, constant("least", numpy.full((1, 1, 1, 1), -0.4, numpy.float32))], "am")
x = add("Min", [constant("most", numpy.float32(1.5)), x], "an")
x = conv(x, "b", 16, 24)
x = add("Max", [add("Mul", [x, constant("slope", numpy.float32(0.25))], "bs"), x], "bm")
branches = [add("Sum", [add("Max", [conv(x, n, 24, 12, (1, 1)), constant(f"{n}0", numpy.float32(0))], f"{n}m")], f"{n}s") for n in "cde"]
x = add("Relu", [conv(add("Sum", branches, "three"), "f", 12, 20, (9, 7))], "fr")
x = conv(add("Sum", [x, conv(x, "g", 20, 20, (1, 1))], "two"), "h", 20, 5, (1, 1))
add("Reshape", [x, constant("behind", [-1, 1, 1, 5])], "y")
net.save("plane", {"pixels": ["N", 24, 20, 1]}, {"y": ["N", 1, 1, 5]})
net.nodes, net.constants = [], []
samples = net.random.standard_normal((8, 24, 20, 1)).astype(numpy.float32)
numpy.save("plane.npy", samples)
write_pixels("plane.safetensors", samples)

# Zeros around what is not below 0, before a maximum (as Keras pads); a residual stream that zeros make wider, before and behind its channels, where every second row and column goes on; two Pads share
# their constant, of which one would keep other numbers than the other.
x = add("Relu", [conv("pixels", "a", 3, 16, pads=[1] * 4)], "ar")
x = add("MaxPool", [add("Pad", [x, constant("around", [0, 0, 1, 1, 0, 0, 1, 1])], "placed")], "largest", kernel_shape=[3, 3])
wide = constant("wide", [0, 4, 0, 0, 0, 4, 0, 0])
for name, width, skipped in (("b", 24, "b.row"), ("c", 32, None)):
    step = 2 if skipped else 1
    branch = add("Relu", [conv(x, f"{name}1", width - 8, 12, strides=[step] * 2, pads=[1] * 4)], f"{name}1r")
    branch = conv(branch, f"{name}2", 12, width, pads=[1] * 4)
    for k, axis in ((1, 2), (2, 3)) if skipped else ():
        bounds = [constant(f"{name}.{n}{k}", [v]) for n, v in (("start", 0), ("end", 2**31), ("axis", axis), ("step", 2))]
        x = add("Slice", [x, *bounds], f"{name}.every{k}")
    x = add("Relu", [add("Add", [add("Pad", [x, wide], f"{name}w"), branch], f"{name}s")], f"{name}r")
linear(add("Flatten", [add("GlobalAveragePool", [x], "means")], "flat"), "y", 32, 5)
save("widened", (3, 16, 16), {"y": (5,)})

# Gates whose halves lie where numbers say that are computed from the channels, or that are equal, or that constants say; norms over
# the channels of an image, spelled out; parts of other lengths that go their own ways; and channels that become positions.
def norm_channels(x, name, channels):
    centred = add("Sub", [x, add("ReduceMean", [x], f"{name}.mean", axes=[1])], f"{name}.centred")
    square = add("Pow", [centred, constant(f"{name}.2", numpy.float32(2))], f"{name}.square")
    spread = add("Add", [add("ReduceMean", [square], f"{name}.variance", axes=[1]), constant(f"{name}.epsilon", numpy.float32(1e-6))], f"{name}.sum")
    x = add("Div", [centred, add("Sqrt", [spread], f"{name}.deviation")], f"{name}.unit")
    scale = constant(f"{name}.w", net.random.uniform(0.5, 1.5, (channels, 1, 1)).astype(numpy.float32))
    return add("Add", [add("Mul", [scale, x], f"{name}.scaled"), weight(f"{name}.b", channels, 1, 1)], name)


def run_of(x, name, first, last):
    bounds = [v if isinstance(v, str) else constant(f"{name}.{k}", [v]) for k, v in (("first", first), ("last", last))]
    return add("Slice", [x, *bounds, constant(f"{name}.axis", [1])], name)


x = conv("pixels", "a", 3, 16, strides=[2, 2], pads=[1] * 4)
y = conv(norm_channels(x, "n", 16), "b", 16, 40, (1, 1))
y = add("Conv", [y, weight("dw.w", 40, 1, 3, 3), weight("dw.b", 40)], "dw", group=40, pads=[1] * 4)
count = add("Gather", [add("Shape", [y], "shape"), constant("second", [1])], "count", axis=0)
half = add("Div", [add("Add", [count, constant("up", [1])], "count1"), constant("two", [2])], "half")
whole = add("Mul", [half, constant("two2", [2])], "whole")
y = add("Mul", [run_of(y, "left", 0, half), run_of(y, "right", half, whole)], "gated")
x = add("Add", [x, conv(y, "c", 20, 16, (1, 1))], "x1")
y = add("Sigmoid", [conv(norm_channels(x, "m", 16), "d", 16, 48, pads=[1] * 4)], "ds")
thirds = add("Split", [y], "s1", "s2", "s3", axis=1)
y = add("Mul", [add("Mul", thirds[:2], "s12"), thirds[2]], "s123")
x = add("Add", [x, conv(y, "e", 16, 16, (1, 1))], "x2")
y = add("Relu", [conv(x, "f", 16, 30, pads=[1] * 4)], "fr")
y = add("Add", [conv(run_of(y, "few", 0, 12), "g", 12, 16, (1, 1)), conv(run_of(y, "more", 12, 2**62), "h", 18, 16, (1, 1))], "gh")
y = add("Relu", [conv(add("Add", [x, y], "x3"), "i", 16, 48, pads=[1] * 4)], "ir")
conv(add("DepthToSpace", [y], "large", blocksize=2, mode="CRD"), "y", 12, 4, (1, 1))
save("gated", (3, 16, 16), {"y": (4, 16, 16)})

# GELU by a tanh in the forms that exporters write: each in an FFN of its own, the last with another cube, which is none. The mean
# in front of them is that of a window larger than the image.
x = add("Relu", [conv("pixels", "a", 3, 16, pads=[1] * 4)], "ar")
x = add("AveragePool", [x], "mean", kernel_shape=[64, 64], strides=[64, 64], ceil_mode=1, count_include_pad=1)
x = add("Flatten", [x], "flat")
number = {n: constant(f"k{n}", numpy.float32(v)) for n, v in
          (("half", 0.5), ("one", 1), ("three", 3), ("scale", (2 / numpy.pi) ** 0.5), ("cube", 0.044715), ("other", 0.05))}


def times(a, b, name):
    return add("Mul", [number.get(a, a), number.get(b, b)], name)


for form in ("torch", "power", "keras", "fast", "none"):
    h = linear(x, f"{form}1", 16, 24)
    name = f"{form}.".__add__
    square = times(h, h, name("square"))
    if form == "fast":
        one = add("Add", [times(times("cube", h, name("c1")), h, name("c2")), number["one"]], name("c3"))
        inner = times(times(h, "scale", name("s")), one, name("inner"))
    else:
        third = add("Pow", [h, number["three"]], name("third")) if form in ("power", "keras") else times(h, square, name("third"))
        scaled = times("other" if form == "none" else "cube", third, name("scaled"))
        inner = times("scale", add("Add", [h, scaled], name("sum")), name("inner"))
    gate = add("Add", [number["one"], add("Tanh", [inner], name("tanh"))], name("gate"))
    if form == "power":
        y = times(times(h, "half", name("half")), gate, name("y"))
    elif form == "keras":
        y = times(h, times("half", gate, name("half")), name("y"))
    else:
        y = times("half", times(h, gate, name("whole")), name("y"))
    x = add("Add", [x, linear(y, f"{form}2", 24, 16)], name("x"))
linear(x, "y", 16, 5)
save("gelus", (3, 12, 12), {"y": (5,)})

# Shares of the classes at each position of a map, and at a single one.
for name in ("shares", "single"):
    x = conv(add("Relu", [conv("pixels", "a", 3, 16, pads=[1] * 4)], "ar"), "b", 16, 6, pads=[1] * 4)
    x = add("GlobalAveragePool", [x], "means") if name == "single" else x
    add("Softmax", [x], "probabilities", axis=1)
    save(name, (3, 12, 12), {"probabilities": (6, 1, 1) if name == "single" else (6, 12, 12)})
PYTHON

narrow_by_half signals conv 1232
narrow_by_half encoder conv,ffn,heads 2296
narrow_by_half detector conv 4960
narrow_by_half last ffn 1949
narrow_by_half parted ffn 2841
narrow_by_half computed conv,ffn 2993
narrow_by_half padded conv,ffn 2017
runs "$grail" inspect padded.onnx
grep -q region stdout && fail "a region is left"

check "norms of responses"
same_outputs responses.onnx responses.safetensors
mv own.safetensors dense.safetensors
for repair in "full --alpha 1e-9" none; do
    rm -rf out
    runs "$grail" compress responses.onnx -o out --calib responses.npy --sites conv,ffn --align 1 --sparsity 0.5 --selector magnitude-l1 \
        --compensate $repair --quiet
    same_outputs out/responses.onnx responses.safetensors
    "$python" "$source_dir/tests/cli/compare_onnx.py" out/responses.onnx responses.safetensors dense.safetensors ||
        fail "channels of zeros do not go without loss ($repair)"
done
runs "$grail" verify responses.onnx out/responses.onnx
says "a norm runs over a width that was cut" stdout
runs "$grail" compress responses.onnx -o out3 --calib responses.npy --sites conv,ffn --align 1 --sparsity 0.7 --heal model --heal-steps 4 --quiet
same_outputs out3/responses.onnx responses.safetensors

narrow_by_half attended heads 2397
runs "$grail" inspect attended.onnx
grep -q region stdout && fail "a region is left"

narrow_by_half mixer stream,ffn 5949
runs "$grail" inspect mixer.onnx
grep -q region stdout && fail "a region is left"
runs "$grail" compress mixer.onnx -o healed_mixer --calib mixer.npy --sites ffn --sparsity 0.5 --heal model --heal-steps 4 --quiet
same_outputs healed_mixer/mixer.onnx mixer.safetensors

narrow_by_half lines conv,ffn 2302
runs "$grail" inspect lines.onnx
grep -q region stdout && fail "a region is left"
runs "$grail" compress lines.onnx -o healed --calib lines.npy --sites conv,ffn --sparsity 0.5 --heal model --heal-steps 4 --eval lines.npy
says "same class" stdout
grep -q "relative squared error" stdout && fail "logits of positions are compared as features"

narrow_by_half held conv,ffn 6613
runs "$grail" inspect held.onnx
says "channels that 3 of 6 maps make stay in every cut: 1 change places with others (a channel shuffle) ('a.w' first); 2 are parted by groups or heads that do not go together ('b.w' first, at d.w)" stderr

narrow_by_half half conv 1427
runs "$grail" inspect half.onnx
says "onnx, F16" stdout
grep -q region stdout && fail "a region is left"
runs "$grail" compress half_io.onnx -o out_io --calib half.npy --sparsity 0.5 --compensate none --quiet
"$python" - <<'PYTHON' || fail "a network of 16 bits"
import onnxruntime
import numpy
for path in ("half_io.onnx", "out_io/half_io.onnx"):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    made = session.run(None, {"pixels": numpy.load("half.npy").astype(numpy.float16)})[0]
    assert made.dtype == numpy.float16 and made.shape == (8, 3, 32, 32), made
PYTHON
narrow_by_half largest conv,ffn 1237
narrow_by_half keras conv,ffn 2616
narrow_by_half plane conv 17089
narrow_by_half widened conv,stream 2941
narrow_by_half gated conv 10807
narrow_by_half shares conv 662
narrow_by_half single conv 662
narrow_by_half gelus conv,ffn 2989
runs "$grail" inspect gelus.onnx
[[ $(grep -c "  ffn  " stdout) == 4 ]] || fail "FFNs with GELU are not found"
for model in largest keras plane widened gated shares single gelus; do
    runs "$grail" inspect $model.onnx
    grep -q region stdout && fail "a region of $model is left"
done
for model in "keras.onnx" "keras_open.onnx --set height=24 --set width=20"; do
    for arrays in keras keras_planes; do
        runs "$grail" compress $model -o $arrays.out --calib $arrays.npy --sparsity 0.5 --quiet
    done
    cmp keras.out/${model%% *} keras_planes.out/${model%% *} || fail "arrays with the channels in front are others"
    rm -r keras.out keras_planes.out
done
runs "$grail" compress keras.onnx -o healed_keras --calib keras.npy --sparsity 0.5 --heal model --heal-steps 4 --quiet
same_outputs healed_keras/keras.onnx keras.safetensors
for model in widened gated plane single; do
    runs "$grail" compress $model.onnx -o healed_$model --calib $model.npy --sparsity 0.5 --heal model --heal-steps 4 --eval $model.npy
    same_outputs healed_$model/$model.onnx $model.safetensors
done
says "same class" stdout
run "$grail" inspect keras_open.onnx --set width=20
says "leaves the height of the images open, but not the other size; the setting height=N says it" stderr

check "arrays of other channels than the network reads"
run "$grail" compress signals.onnx -o out2 --calib encoder.npy --sparsity 0.5 --quiet
says "the images have 10 channels, but the network reads 6" stderr

check "nodes in any order, as converters to 16 bits write them and ONNX Runtime takes them"
"$python" - <<'PYTHON' || fail "cannot change the order"
import onnx
model = onnx.load("gated.onnx")
nodes = list(model.graph.node)
del model.graph.node[:]
model.graph.node.extend(nodes[::-1])
onnx.save(model, "turned.onnx")
PYTHON
same_outputs turned.onnx gated.safetensors
rm -rf out out_turned out_whole
runs "$grail" compress gated.onnx -o out --calib gated.npy --sites conv --align 1 --sparsity 0.5 --threads 1 --quiet
runs "$grail" compress turned.onnx -o out_turned --calib gated.npy --sites conv --align 1 --sparsity 0.5 --threads 1 --quiet
same_outputs out_turned/turned.onnx gated.safetensors
runs "$grail" compress turned.onnx -o out_whole --calib gated.npy --sites conv --sparsity 0 --quiet
cmp turned.onnx out_whole/turned.onnx || fail "a file without a cut has other bytes"
"$python" - <<'PYTHON' || fail "the order of nodes is another one, or the weights are"
import onnx
usual, turned = onnx.load("out/gated.onnx").graph, onnx.load("out_turned/turned.onnx").graph
assert [n.output[0] for n in turned.node] == [n.output[0] for n in usual.node][::-1]
weights = [{t.name: onnx.numpy_helper.to_array(t) for t in g.initializer} for g in (usual, turned)]
assert weights[0].keys() == weights[1].keys() and all((weights[0][n] == weights[1][n]).all() for n in weights[0])
PYTHON

check "the loss of a map of few channels is relative to the whole of each image"
"$python" -c "import numpy; one = numpy.load('signals.npy')[:1]; one[:, :, 20:] *= 0.01; numpy.save('same.npy', one.repeat(16, 0))"
rm -rf out out_healed
runs "$grail" compress signals.onnx -o out --calib same.npy --sites conv --align 1 --sparsity 0.3 --selector magnitude-l1 --compensate none --quiet
runs "$grail" compress signals.onnx -o out_healed --calib same.npy --sites conv --align 1 --sparsity 0.3 --selector magnitude-l1 --compensate none \
    --heal model --heal-steps 2 --quiet
"$python" - <<'PYTHON' || fail "the loss is another one"
import json, numpy, onnxruntime
given = {"pixels": numpy.load("same.npy")}
dense, narrow = (onnxruntime.InferenceSession(f, providers=["CPUExecutionProvider"]).run(None, given)[0] for f in ("signals.onnx", "out/signals.onnx"))
expected = ((narrow - dense) ** 2).sum() / (dense ** 2).sum()
found = json.load(open("out_healed/report.json"))["healed"][0]["held_loss_before"]
assert abs(found - expected) < 1e-4 * expected, (found, expected)
PYTHON
