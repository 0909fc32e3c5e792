#!/usr/bin/env python3
"""Small networks of ONNX nodes with what grail narrows there, and their logits from ONNX Runtime: writes a .onnx file and
golden.safetensors into vision/onnx and other folders beside this script.

Needs onnx and onnxruntime (1.32); for those of networks of torch torch 2.12.1 with onnxscript, torchvision, timm and transformers. onnx_vit: torchvision's
ViT by PyTorch's dynamo exporter, whose attention goes through [positions, samples x heads, features]. onnx_deit: timm's by the
older exporter, opset 14: LayerNorm and GELU in single nodes, a fused matrix of queries, keys and values, layer scale, sizes that are computed. onnx_dinov2:
that of transformers by the older exporter, whose table of positions is resized from 3 x 3. onnx_convnext: torchvision's by the dynamo exporter: channels behind the positions and before them by turns, and a view as a Gather of all values.

onnx: residual blocks with and without a projection, BatchNormalization,
depthwise convolution, windows that differ between directions, squeeze-excitation, Split and Concat of channels, weights of Gemm and MatMul
that lie transposed, a weight in a Constant and one stored as numbers. onnx-elements: constants that are added,
multiplied or divided by, reshaped or not; activations, some written as several nodes; a Reshape whose target is
computed, and a Softmax behind the logits. onnx_flat: tensors that several nodes read; a shuffle of channels, and halves of them; positions that
Flatten and Reshape put beside channels, before a Gemm and a MatMul. onnx_decoder: transposed convolutions, other
sizes of images, norms of channels and of groups, a Slice of channels, a maximum over all positions. onnx_backbone: a class token,
layer scales, and a decoder behind the other tokens alone. onnx_groups:
convolutions in groups, of which one reads what others make in fewer, a residual stream, and a value that stands beside another.

usage: make_onnx_golden.py [FOLDER ...]
"""
import io
import pathlib
import sys

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from golden_file import write_safetensors

OUT = pathlib.Path(__file__).resolve().parent / "vision"
SIDE, CLASSES = 32, 10


class Network:
    def __init__(self, seed=3):
        self.random = numpy.random.default_rng(seed)
        self.nodes, self.tensors = [], []

    def node(self, operator, inputs, name, **attributes):
        self.nodes.append(helper.make_node(operator, inputs, [name], name=f"n/{name}", **attributes))
        return name

    def tensor(self, name, values):
        self.tensors.append(numpy_helper.from_array(values, name))
        return name

    def normal(self, name, *shape, scale=None, shift=0.0):
        scale = numpy.prod(shape[1:]) ** -0.5 * 1.4 if scale is None else scale
        values = self.random.normal(size=shape) * scale + shift
        return self.tensor(name, values.astype(numpy.float32))

    def conv(self, x, name, shape, bias=False, **attributes):
        inputs = [x, self.normal(f"{name}.weight", *shape)]
        if bias:
            inputs.append(self.normal(f"{name}.bias", shape[0], scale=0.1))
        return self.node("Conv", inputs, name, **attributes)

    def norm(self, x, name, width):
        parts = [self.normal(f"{name}.{part}", width, scale=0.1, shift=shift)
                 for part, shift in (("weight", 1), ("bias", 0), ("mean", 0))]
        variance = self.random.uniform(0.5, 1.5, width).astype(numpy.float32)
        return self.node("BatchNormalization", [x, *parts, self.tensor(f"{name}.variance", variance)],
                         name, epsilon=1e-3)


def build():
    n = Network()
    x = n.conv("pixels", "stem", (8, 3, 3, 3), pads=[1, 1, 1, 1])
    x = n.node("Relu", [n.norm(x, "stem_norm", 8)], "stem_relu")
    h = n.node("MaxPool", [x], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 0], ceil_mode=1)
    # a block whose channels are weighted by their means
    x = n.conv(h, "a1", (16, 8, 1, 1), bias=True)
    x = n.node("Clip", [x, n.tensor("zero", numpy.float32(0)), n.tensor("six", numpy.float32(6))], "a1_clip")
    x = n.conv(x, "a2", (16, 1, 3, 3), pads=[1, 1, 1, 1], group=16)
    x = n.node("HardSwish", [n.norm(x, "a2_norm", 16)], "a2_act")
    s = n.node("GlobalAveragePool", [x], "means")
    s = n.node("Relu", [n.conv(s, "squeeze", (6, 16, 1, 1), bias=True)], "squeeze_relu")
    s = n.node("HardSigmoid", [n.conv(s, "excite", (16, 6, 1, 1), bias=True)], "excite_act", alpha=1 / 6, beta=0.5)
    x = n.conv(n.node("Mul", [s, x], "weighted"), "a3", (8, 16, 1, 1))
    h = n.node("Add", [n.norm(x, "a3_norm", 8), h], "a_sum")
    # a block with a projection, written behind the branch
    x = n.conv(h, "b1", (16, 8, 1, 3), pads=[0, 0, 0, 2], strides=[2, 1])
    x = n.node("Relu", [n.norm(x, "b1_norm", 16)], "b1_relu")
    x = n.node("Pad", [x, n.tensor("zeros", numpy.array([0, 0, 1, 0, 0, 0, 0, 1], numpy.int64))], "padded")
    x = n.conv(x, "b2", (12, 16, 3, 3), pads=[1, 0, 0, 1])
    h = n.node("Add", [x, n.conv(h, "b_short", (12, 8, 1, 1), bias=True, strides=[2, 1])], "b_sum")
    h = n.node("Relu", [h], "b_relu")
    h = n.node("AveragePool", [h], "means_of_windows", kernel_shape=[1, 3], strides=[1, 2], pads=[0, 1, 0, 1])
    # half of the channels go through a convolution
    sizes = n.tensor("sizes", numpy.array([5, 7], numpy.int64))
    n.nodes.append(helper.make_node("Split", [h, sizes], ["left", "right"], name="n/split", axis=1))
    x = n.node("Sigmoid", [n.conv("left", "c1", (9, 5, 1, 1), bias=True)], "c1_act")
    x = n.node("Concat", [x, "right"], "beside", axis=1)
    x = n.node("Relu", [n.conv(x, "c2", (14, 16, 1, 1), bias=True)], "c2_relu")
    # a head of two layers
    x = n.node("ReduceMean", [x], "pooled", axes=[2, 3], keepdims=1)
    x = n.node("Reshape", [x, n.tensor("flat", numpy.array([-1, 14], numpy.int64))], "features")
    x = n.node("Gemm", [x, n.normal("d1.weight", 14, 10, scale=0.4), n.normal("d1.bias", 10, scale=0.1)], "d1")
    x = n.node("Relu", [n.node("Dropout", [x], "dropped")], "d1_relu")
    weight = numpy_helper.from_array((n.random.normal(size=(10, CLASSES)) * 0.5).astype(numpy.float32))
    n.nodes.append(helper.make_node("Constant", [], ["d2.weight"], name="n/constant", value=weight))
    bias = (n.random.normal(size=CLASSES) * 0.1).astype(numpy.float32)
    n.tensors.append(helper.make_tensor("d2.bias", TensorProto.FLOAT, [CLASSES], bias))  # float_data
    n.node("Add", [n.node("MatMul", [x, "d2.weight"], "d2"), "d2.bias"], "logits")
    return n


def build_flat():
    n = Network()
    x = n.norm(n.conv("pixels", "stem", (8, 3, 3, 3), bias=True, pads=[1, 1, 1, 1]), "stem_norm", 8)
    x = n.node("MaxPool", [n.node("Relu", [x], "stem_relu")], "pool", kernel_shape=[2, 2], strides=[2, 2])
    norm = [f"stem_norm.{part}" for part in ("weight", "bias", "mean", "variance")]
    x = n.node("Relu", [n.conv(x, "twice", (8, 8, 1, 1))], "first_relu")
    x = n.node("BatchNormalization", [x, *norm], "first_norm", epsilon=1e-5)
    x = n.node("Conv", [x, "twice.weight"], "second")
    x = n.node("Relu", [n.node("BatchNormalization", [x, *norm], "second_norm", epsilon=1e-5)], "second_relu")
    x = n.node("Relu", [n.conv(x, "a", (12, 8, 3, 3), bias=True, strides=[2, 2], pads=[1, 1, 1, 1])], "a_relu")
    x = n.node("AveragePool", [x], "means_of_windows", kernel_shape=[2, 3], strides=[2, 2])
    # three runs of channels, one after the other, and halves that are not stated
    sizes = n.tensor("runs", numpy.array([-1, 3, 4, 4, 3], numpy.int64))
    x = n.node("Transpose", [n.node("Reshape", [x, sizes], "in_runs")], "turns", perm=[0, 2, 1, 3, 4])
    x = n.node("Reshape", [x, n.tensor("image", numpy.array([0, -1, 4, 3], numpy.int64))], "shuffled")
    n.nodes.append(helper.make_node("Split", [x], ["half", "other"], name="n/split", axis=1))
    x = n.node("Relu", [n.conv("half", "h1", (10, 6, 1, 1), bias=True)], "h1_relu")
    x = n.node("Concat", [n.conv(x, "h2", (6, 10, 1, 1)), "other"], "halves", axis=1)
    left = n.node("Flatten", [x], "flat")
    left = n.node("Gemm", [left, n.normal("d1.weight", 20, 144), n.normal("d1.bias", 20, scale=0.1)], "d1", transB=1)
    right = n.node("Reshape", [x, n.tensor("sizes", numpy.array([-1, 144], numpy.int64))], "flat_too")
    right = n.node("MatMul", [n.node("Relu", [right], "d2_relu"), n.normal("d2.weight", 144, 20, scale=0.1)], "d2")
    x = n.node("Add", [right, n.normal("d2.bias", 20, scale=0.1)], "d2_biased")
    x = n.node("Relu", [n.node("Add", [left, x], "sum")], "sum_relu")
    n.node("Gemm", [x, n.normal("d3.weight", CLASSES, 20), n.normal("d3.bias", CLASSES, scale=0.1)], "logits", transB=1)
    return n


def build_groups():
    n = Network()
    x = n.node("Relu", [n.norm(n.conv("pixels", "stem", (8, 3, 3, 3), pads=[1, 1, 1, 1]), "stem_norm", 8)], "stem_relu")
    h = n.node("MaxPool", [x], "pool", kernel_shape=[2, 2], strides=[2, 2])
    # between layers of one position, weighted by means
    x = n.node("Relu", [n.norm(n.conv(h, "a1", (16, 8, 1, 1)), "a1_norm", 16)], "a1_relu")
    x = n.conv(x, "a2", (24, 4, 3, 3), pads=[1, 1, 1, 1], strides=[2, 2], group=4)
    x = n.node("Relu", [n.norm(x, "a2_norm", 24)], "a2_relu")
    s = n.node("GlobalAveragePool", [x], "means")
    s = n.node("Relu", [n.conv(s, "squeeze", (6, 24, 1, 1), bias=True)], "squeeze_relu")
    s = n.node("Sigmoid", [n.conv(s, "excite", (24, 6, 1, 1), bias=True)], "excite_act")
    x = n.norm(n.conv(n.node("Mul", [s, x], "weighted"), "a3", (16, 24, 1, 1)), "a3_norm", 16)
    h = n.node("Add", [x, n.conv(h, "a_short", (16, 8, 1, 1), strides=[2, 2])], "a_sum")
    # a residual stream that groups read and add to
    x = n.node("Relu", [n.conv(h, "b1", (16, 8, 3, 3), bias=True, pads=[1, 1, 1, 1], group=2)], "b1_relu")
    h = n.node("Add", [n.conv(x, "b2", (16, 4, 1, 1), bias=True, group=4), h], "b_sum")
    # made in twos and read in fours, beside channels that are read without groups
    x = n.node("Relu", [n.conv(h, "c1", (16, 8, 1, 1), group=2)], "c1_relu")
    y = n.node("Relu", [n.conv(x, "c2", (8, 4, 3, 3), bias=True, pads=[1, 1, 1, 1], group=4)], "c2_relu")
    x = n.node("Concat", [x, y], "beside", axis=1)
    x = n.node("Relu", [n.conv(x, "d1", (12, 24, 1, 1), bias=True)], "d1_relu")
    x = n.node("Flatten", [n.node("GlobalAveragePool", [x], "pooled")], "features")
    n.node("Gemm", [x, n.normal("d2.weight", CLASSES, 12), n.normal("d2.bias", CLASSES, scale=0.1)], "logits", transB=1)
    return n


def build_decoder():
    n = Network()
    x = n.node("Relu", [n.norm(n.conv("pixels", "stem", (8, 3, 3, 3), pads=[1, 1, 1, 1]), "stem_norm", 8)], "skip")
    x = n.conv(x, "down", (12, 8, 3, 3), bias=True, strides=[2, 2], pads=[1, 1, 1, 1])
    affine = [n.normal("instance.weight", 12, scale=0.2, shift=1), n.normal("instance.bias", 12, scale=0.2)]
    x = n.node("Relu", [n.node("InstanceNormalization", [x, *affine], "instance", epsilon=1e-3)], "down_relu")
    x = n.node("Reshape", [x, n.tensor("groups", numpy.array([0, 3, -1], numpy.int64))], "in_groups")
    plain = [n.tensor("ones", numpy.ones(3, numpy.float32)), n.tensor("zeros", numpy.zeros(3, numpy.float32))]
    x = n.node("InstanceNormalization", [x, *plain], "group_norm")
    x = n.node("Reshape", [x, n.tensor("whole", numpy.array([-1, 12, 16, 16], numpy.int64))], "out_of_groups")
    x = n.node("Relu", [n.conv(x, "deep", (12, 12, 3, 3), bias=True, pads=[1, 1, 1, 1])], "deep_relu")
    up = [x, n.normal("up.weight", 12, 10, 2, 2, scale=0.2), n.normal("up.bias", 10, scale=0.1)]
    x = n.node("Relu", [n.node("ConvTranspose", up, "up", strides=[2, 2])], "up_relu")
    x = n.node("Concat", [x, "skip"], "beside", axis=1)
    x = n.node("Relu", [n.conv(x, "mix", (9, 18, 3, 3), bias=True, strides=[2, 2], pads=[1, 1, 1, 1])], "mix_relu")
    odd = [x, n.normal("odd.weight", 9, 7, 3, 4, scale=0.2)]
    x = n.node("ConvTranspose", odd, "odd", strides=[2, 3], pads=[1, 0, 0, 2], dilations=[2, 1], output_padding=[1, 0])
    x = n.node("Relu", [n.norm(x, "odd_norm", 7)], "odd_relu")
    twice = n.tensor("twice", numpy.array([1, 1, 2, 1.5], numpy.float32))
    x = n.node("Resize", [x, "", twice], "nearest", mode="nearest", coordinate_transformation_mode="asymmetric",
               nearest_mode="floor")
    x = n.node("Resize", [x, "", "", n.tensor("sizes", numpy.array([2, 7, 13, 30], numpy.int64))], "linear", mode="linear")
    x = n.node("Resize", [x, "", twice], "corners", mode="linear", coordinate_transformation_mode="align_corners")
    x = n.node("Resize", [x, "", "", n.tensor("fewer", numpy.array([2, 7, 8, 9], numpy.int64))], "near", mode="nearest",
               coordinate_transformation_mode="pytorch_half_pixel", nearest_mode="round_prefer_ceil")
    x = n.node("Relu", [n.conv(x, "between", (7, 7, 3, 3), pads=[1, 1, 1, 1])], "between_relu")
    x = n.node("Relu", [n.conv(x, "last", (11, 7, 1, 1))], "last_relu")
    means = n.node("Flatten", [n.node("GlobalAveragePool", [x], "means")], "flat_means")
    ends = [n.tensor(name, numpy.array([at], numpy.int64)) for name, at in (("start", 2), ("end", -1), ("axis", 1))]
    most = n.node("GlobalMaxPool", [n.node("Slice", [n.conv(x, "side", (14, 11, 1, 1)), *ends], "part")], "largest")
    x = n.node("Add", [means, n.node("Flatten", [most], "flat_largest")], "features")
    n.node("Gemm", [x, n.normal("head.weight", CLASSES, 11), n.normal("head.bias", CLASSES, scale=0.1)], "logits", transB=1)
    return n


def build_elements():
    n = Network(7)
    for name, value in (("half", 0.5), ("one", 1), ("three", 3), ("six", 6), ("zero", 0), ("cube", 0.044715),
                        ("slope", (2 / numpy.pi) ** 0.5), ("root", 2 ** 0.5)):
        n.tensor(name, numpy.float32(value))

    def positive(name, *shape):
        return n.tensor(name, n.random.uniform(0.5, 2, shape).astype(numpy.float32))

    def convolve(x, name, out, width):
        return n.conv(x, name, (out, width, 3, 3), pads=[1, 1, 1, 1])

    x = n.node("Sub", ["pixels", n.normal("mean", 1, 3, 1, 1, scale=0.3)], "centred")
    x = n.node("Div", [x, positive("deviation", 3, 1, 1)], "scaled")
    # hard-swish, behind a bias as Paddle writes it
    x = convolve(x, "a", 12, 3)
    n.node("Reshape", [n.normal("a.bias", 12, scale=0.1), n.tensor("a.shape", numpy.array([1, 12, 1, 1]))], "a_bias")
    x = n.node("Add", ["a_bias", x], "a_sum")
    gate = n.node("Clip", [n.node("Add", [x, "three"], "a_shifted"), "zero", "six"], "a_gate")
    h = n.node("Div", [n.node("Mul", [x, gate], "a_product"), "six"], "a_swish")
    # constants of channels on either side, and a layer scale before the sum
    x = n.node("Sub", [convolve(h, "b", 10, 12), n.normal("b.bias", 10, 1, 1, scale=0.1)], "b_biased")
    x = n.node("Mul", [n.normal("b.factor", 1, 10, 1, 1, scale=0.3, shift=1), x], "b_scaled")
    x = n.node("LeakyRelu", [x], "b_act", alpha=0.2)
    x = n.node("Sub", [n.normal("b.shift", 10, 1, 1, scale=0.3), n.node("Div", [x, positive("b.divisor", 10, 1, 1)], "b_divided")],
               "b_turned")
    x = n.node("PRelu", [convolve(x, "c", 9, 10), positive("c.slopes", 9, 1, 1)], "c_act")
    x = n.node("Elu", [convolve(x, "d", 8, 9)], "d_act", alpha=0.7)
    x = n.node("HardSigmoid", [convolve(x, "e", 7, 8)], "e_act")
    x = n.node("Mish", [convolve(x, "f", 8, 7)], "f_act")
    x = convolve(x, "g", 12, 8)
    n.node("Unsqueeze", [n.normal("g.scale", 12, scale=0.3), n.tensor("g.axes", numpy.array([1, 2]))], "g_scale")
    h = n.node("Add", [h, n.node("Mul", [x, "g_scale"], "g_scaled")], "g_sum")
    # GELU with erf and with tanh, and SiLU, node by node
    x = convolve(h, "i", 11, 12)
    y = n.node("Erf", [n.node("Div", [x, "root"], "i_divided")], "i_erf")
    y = n.node("Mul", [x, n.node("Add", [y, "one"], "i_gate")], "i_product")
    x = convolve(n.node("Mul", [y, "half"], "i_gelu"), "j", 10, 11)
    y = n.node("Mul", ["cube", n.node("Mul", [n.node("Mul", [x, x], "j_square"), x], "j_cube")], "j_term")
    y = n.node("Tanh", [n.node("Mul", [n.node("Add", [x, y], "j_inner"), "slope"], "j_scaled")], "j_tanh")
    y = n.node("Mul", [n.node("Mul", ["half", x], "j_half"), n.node("Add", ["one", y], "j_gate")], "j_gelu")
    x = convolve(y, "k", 12, 10)
    x = n.node("Mul", [x, n.node("Sigmoid", [n.node("Softplus", [x], "k_plus")], "k_gate")], "k_silu")
    x = n.node("Clip", [x, n.tensor("low", numpy.float32(-0.2))], "k_clipped")
    # logits and probabilities
    x = n.node("GlobalAveragePool", [x], "pooled")
    size = n.node("Cast", [n.node("Shape", [x], "shape")], "sizes", to=TensorProto.INT32)
    first = [n.tensor(f"at_{i}", numpy.array([i])) for i in (0, 1)]
    size = n.node("Slice", [size, *first], "samples")
    n.tensors.append(helper.make_tensor("width", TensorProto.INT32, [1], [12]))
    target = n.node("Concat", [n.node("Cast", [size], "samples_long", to=TensorProto.INT64),
                               n.node("Cast", ["width"], "width_long", to=TensorProto.INT64)], "target", axis=-1)
    x = n.node("Reshape", [x, target], "features")
    x = n.node("MatMul", [x, n.normal("l.weight", 12, CLASSES, scale=1.5)], "l")
    x = n.node("Add", [x, n.normal("l.bias", CLASSES, scale=0.1)], "logits")
    n.node("Identity", [n.node("Softmax", [x], "shares", axis=1)], "probabilities")
    return n


def write(folder, model, random):
    """The model and its logits of two images."""
    out = OUT / folder
    out.mkdir(parents=True, exist_ok=True)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, out / "net.onnx")
    if model.graph.output[0].name != "logits":
        model.graph.output.append(helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", CLASSES]))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    pixels = random.normal(size=(2, SIDE, SIDE, 3)).astype(numpy.float32)
    answers = session.run(["logits"], {"pixels": numpy.ascontiguousarray(pixels.transpose(0, 3, 1, 2))})
    write_safetensors(out / "golden.safetensors", {"pixels": pixels, "logits": answers[0]},
                      {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__})


def make_nodes(folder, n, output="logits", opset=17, name="small", has_shapes=True):
    image = helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["N", 3, SIDE, SIDE])
    rows = helper.make_tensor_value_info(output, TensorProto.FLOAT, ["N", CLASSES])
    graph = helper.make_graph(n.nodes, name, [image], [rows], n.tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8 if opset < 23 else 11,
                              producer_name="make_onnx_golden.py")
    write(folder, onnx.shape_inference.infer_shapes(model) if has_shapes else model, n.random)


def build_attention():
    """Attention and RMSNormalization as single operators (opset 23)."""
    n, width = Network(), 16
    x = n.conv("pixels", "patches", (width, 3, 8, 8), bias=True, strides=[8, 8])
    x = n.node("Reshape", [x, n.tensor("row", numpy.array([0, width, -1], numpy.int64))], "row_of_patches")
    h = n.node("Transpose", [x], "tokens", perm=[0, 2, 1])
    x = n.node("RMSNormalization", [h, n.normal("norm1", width, scale=0.1, shift=1)], "normed1", epsilon=1e-4)
    q, k, v = [n.node("MatMul", [x, n.normal(f"{part}.weight", width, 24)], part) for part in "qkv"]
    x = n.node("Attention", [q, k, v], "attended", q_num_heads=3, kv_num_heads=3)
    h = n.node("Add", [h, n.node("MatMul", [x, n.normal("o.weight", 24, width)], "o")], "sum1")
    x = n.node("RMSNormalization", [h, n.normal("norm2", width, scale=0.1, shift=1)], "normed2")
    x = n.node("Gelu", [n.node("MatMul", [x, n.normal("up.weight", width, 20)], "up")], "gelu", approximate="tanh")
    h = n.node("Add", [h, n.node("MatMul", [x, n.normal("down.weight", 20, width)], "down")], "sum2")
    x = n.node("ReduceMean", [h, n.tensor("middle", numpy.array([1], numpy.int64))], "pooled", keepdims=0)
    n.node("Gemm", [x, n.normal("head.weight", width, CLASSES)], "logits")
    return n


def build_backbone():
    """A transformer with layer scales, behind whose tokens a decoder reads the patches alone."""
    n, width = Network(), 16
    x = n.conv("pixels", "patches", (width, 3, 8, 8), bias=True, strides=[8, 8])
    x = n.node("Reshape", [x, n.tensor("row", numpy.array([0, width, -1], numpy.int64))], "row_of_patches")
    x = n.node("Transpose", [x], "tokens", perm=[0, 2, 1])
    samples = n.node("Gather", [n.node("Shape", [x], "sizes"), n.tensor("first", numpy.array([0], numpy.int64))], "samples")
    ones = n.tensor("ones", numpy.array([1, 1], numpy.int64))
    token = n.node("Expand", [n.normal("token", 1, 1, width), n.node("Concat", [samples, ones], "times", axis=0)], "class")
    h = n.node("Add", [n.node("Concat", [token, x], "with_class", axis=1), n.normal("positions", 1, 17, width)], "placed")
    for layer in range(2):
        norm = [n.normal(f"norm{layer}.{part}", width, scale=0.1, shift=shift) for part, shift in (("weight", 1), ("bias", 0))]
        x = n.node("LayerNormalization", [h, *norm], f"normed{layer}")
        x = n.node("MatMul", [x, n.normal(f"up{layer}.weight", width, 20)], f"up{layer}")
        x = n.node("Gelu", [n.node("Add", [x, n.normal(f"up{layer}.bias", 20, scale=0.1)], f"raised{layer}")], f"gelu{layer}")
        x = n.node("MatMul", [x, n.normal(f"down{layer}.weight", 20, width)], f"down{layer}")
        x = n.node("Add", [x, n.normal(f"down{layer}.bias", width, scale=0.1)], f"lowered{layer}")
        x = n.node("Mul", [x, n.normal(f"scale{layer}", width, scale=0.3, shift=1)], f"scaled{layer}")
        h = n.node("Add", [x, h], f"sum{layer}")
    bounds = [n.tensor(name, numpy.array([at], numpy.int64)) for name, at in (("begin", 1), ("end", 2**63 - 1), ("axis", 1))]
    x = n.node("Transpose", [n.node("Slice", [h, *bounds], "patches_alone")], "turned", perm=[0, 2, 1])
    x = n.node("Reshape", [x, n.tensor("map", numpy.array([0, width, 4, 4], numpy.int64))], "as_map")
    x = n.node("Relu", [n.conv(x, "mix", (12, width, 3, 3), bias=True, pads=[1, 1, 1, 1])], "mixed")
    x = n.node("Relu", [n.conv(x, "last", (11, 12, 3, 3))], "last_relu")
    x = n.node("Flatten", [n.node("GlobalAveragePool", [x], "means")], "features")
    n.node("Gemm", [x, n.normal("head.weight", 11, CLASSES)], "logits")
    return n


def export(folder, network, **options):
    """A network of torch whose parameters are all different, since exporters merge equal ones."""
    import torch

    pixels = torch.zeros(2, 3, SIDE, SIDE)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    names = {"input_names": ["pixels"], "output_names": ["logits"]}
    if options.pop("dynamo"):
        model = torch.onnx.export(network.eval(), (pixels,), dynamo=True, verbose=False,
                                  dynamic_shapes=({0: torch.export.Dim("N")},), **names).model_proto
        for node in model.graph.node:  # where in Python it comes from
            del node.metadata_props[:]
    else:
        written = io.BytesIO()
        torch.onnx.export(network.eval(), (pixels,), written, dynamo=False, **names, **options,
                          dynamic_axes={"pixels": {0: "N"}, "logits": {0: "N"}})
        model = onnx.load_from_string(written.getvalue())
    write(folder, model, numpy.random.default_rng(4))


def make_transformers(folders):
    import timm.models.vision_transformer
    import torch
    import torchvision.models
    from torchvision.models.convnext import CNBlockConfig

    torch.manual_seed(5)
    if "onnx_vit" in folders:
        export("onnx_vit", torchvision.models.VisionTransformer(
            image_size=SIDE, patch_size=8, num_layers=2, num_heads=3, hidden_dim=24, mlp_dim=20,
            num_classes=CLASSES), dynamo=True)
    if "onnx_deit" in folders:
        export("onnx_deit", timm.models.vision_transformer.VisionTransformer(
            img_size=SIDE, patch_size=8, depth=2, num_heads=3, embed_dim=24, mlp_ratio=0.8, init_values=0.5,
            num_classes=CLASSES), dynamo=False, opset_version=14)
    if "onnx_dinov2" in folders:
        import transformers

        class Classifier(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.encoder = transformers.Dinov2Model(transformers.Dinov2Config(
                    image_size=24, patch_size=8, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, mlp_ratio=1))
                self.head = torch.nn.Linear(16, CLASSES)

            def forward(self, pixels):
                return self.head(self.encoder(pixels).last_hidden_state[:, 0])

        export("onnx_dinov2", Classifier(), dynamo=False, opset_version=14)
    if "onnx_convnext" in folders:
        export("onnx_convnext", torchvision.models.ConvNeXt(
            [CNBlockConfig(8, 12, 2), CNBlockConfig(12, None, 1)], stochastic_depth_prob=0.0,
            num_classes=CLASSES), dynamo=True)


NODES = {"onnx": lambda folder: make_nodes(folder, build()),
         "onnx_flat": lambda folder: make_nodes(folder, build_flat()),
         "onnx_decoder": lambda folder: make_nodes(folder, build_decoder()),
         "onnx_groups": lambda folder: make_nodes(folder, build_groups()),
         "onnx-elements": lambda folder: make_nodes(folder, build_elements(), "probabilities", 18),
         "onnx_backbone": lambda folder: make_nodes(folder, build_backbone(), opset=20),
         "onnx_attention": lambda folder: make_nodes(folder, build_attention(), opset=23, name="attention", has_shapes=False)}
TRANSFORMERS = ["onnx_vit", "onnx_deit", "onnx_dinov2", "onnx_convnext"]


def main():
    folders = sys.argv[1:] or [*NODES, *TRANSFORMERS]
    for folder in folders:
        if folder in NODES:
            NODES[folder](folder)
    if set(folders) & set(TRANSFORMERS):
        make_transformers(folders)


if __name__ == "__main__":
    main()
