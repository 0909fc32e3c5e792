#!/usr/bin/env python3
"""Small networks of ONNX nodes with what grail narrows there, and their logits from ONNX Runtime:
writes net.onnx and golden.safetensors into folders beside this script, vision/onnx and vision/onnx_....

Needs onnx and onnxruntime. onnx: residual blocks with and without a projection, BatchNormalization,
depthwise convolution, windows that differ between directions, squeeze-excitation, Split and Concat of channels, weights of Gemm and MatMul
that lie transposed, a weight in a Constant and one stored as numbers. onnx_flat: tensors that several nodes read; a shuffle of channels, and halves of them; positions that
Flatten and Reshape put beside channels, before a Gemm and a MatMul. onnx_decoder: transposed convolutions, other
sizes of images, norms of channels and of groups, a Slice of channels, a maximum over all positions.

usage: make_onnx_golden.py
"""
import pathlib

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from golden_file import write_safetensors

VISION = pathlib.Path(__file__).resolve().parent / "vision"
SIDE, CLASSES = 32, 10


class Network:
    def __init__(self):
        self.random = numpy.random.default_rng(3)
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


def save(n, folder):
    out = VISION / folder
    image = helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["N", 3, SIDE, SIDE])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", CLASSES])
    graph = helper.make_graph(n.nodes, "small", [image], [logits], n.tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
                              producer_name="make_onnx_golden.py")
    model = onnx.shape_inference.infer_shapes(model)
    onnx.checker.check_model(model, full_check=True)
    out.mkdir(parents=True, exist_ok=True)
    onnx.save(model, out / "net.onnx")
    session = onnxruntime.InferenceSession(str(out / "net.onnx"), providers=["CPUExecutionProvider"])
    pixels = n.random.normal(size=(2, SIDE, SIDE, 3)).astype(numpy.float32)
    answers = session.run(None, {"pixels": numpy.ascontiguousarray(pixels.transpose(0, 3, 1, 2))})
    write_safetensors(out / "golden.safetensors", {"pixels": pixels, "logits": answers[0]},
                      {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__})


if __name__ == "__main__":
    save(build(), "onnx")
    save(build_flat(), "onnx_flat")
    save(build_decoder(), "onnx_decoder")
