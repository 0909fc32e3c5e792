#!/usr/bin/env python3
"""Small networks of ONNX nodes with what grail narrows there, and their outputs from ONNX Runtime:
writes vision/onnx/net.onnx, golden.safetensors, outputs.onnx, channels.onnx and their outputs beside this script.

Needs onnx and onnxruntime. Residual blocks with and without a projection, BatchNormalization,
depthwise convolution, windows that differ between directions, squeeze-excitation, Split and Concat of channels, weights of Gemm and MatMul
that lie transposed, a weight in a Constant and one stored as numbers. The second one has several outputs: a map in
the middle that goes on, maps of heads at two strides, features behind a ReLU and what a map makes of them. The third one reads five channels and gives a map.

usage: make_onnx_golden.py
"""
import pathlib

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from golden_file import write_safetensors

OUT = pathlib.Path(__file__).resolve().parent / "vision" / "onnx"
SIDE, CLASSES, CHANNELS = 32, 10, 5


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


def build_outputs():
    n = Network()
    x = n.node("Relu", [n.conv("pixels", "stem", (12, 3, 3, 3), bias=True, pads=[1, 1, 1, 1], strides=[2, 2])], "stem_relu")
    x = n.node("Relu", [n.conv(x, "c1", (10, 12, 3, 3), bias=True, pads=[1, 1, 1, 1])], "c1_relu")
    x = n.conv(x, "c2", (8, 10, 3, 3), bias=True, pads=[1, 1, 1, 1])
    middle = n.node("Relu", [x], "middle")
    x = n.node("Relu", [n.conv(middle, "d1", (12, 8, 3, 3), bias=True, pads=[1, 1, 1, 1], strides=[2, 2])], "d1_relu")
    deep = n.node("Relu", [n.conv(x, "d2", (14, 12, 3, 3), bias=True, pads=[1, 1, 1, 1])], "d2_relu")
    for name, feature, width in (("near", middle, 8), ("far", deep, 14)):
        x = n.node("Relu", [n.conv(feature, f"{name}1", (10, width, 3, 3), bias=True, pads=[1, 1, 1, 1])], f"{name}1_relu")
        n.conv(x, name, (6, 10, 1, 1), bias=True)
    x = n.node("Flatten", [n.node("GlobalAveragePool", [deep], "pooled")], "flat")
    x = n.node("Relu", [n.node("Gemm", [x, n.normal("f1.weight", 14, 16), n.normal("f1.bias", 16, scale=0.1)], "f1")], "embedding")
    n.node("Gemm", [x, n.normal("f2.weight", CLASSES, 16), n.normal("f2.bias", CLASSES, scale=0.1)], "scores", transB=1)
    return n


def build_channels():
    n = Network()
    x = n.node("Relu", [n.conv("pixels", "a", (12, CHANNELS, 3, 3), bias=True, pads=[1, 1, 1, 1])], "a_relu")
    x = n.node("Relu", [n.conv(x, "b", (10, 12, 3, 3), bias=True, pads=[1, 1, 1, 1], strides=[2, 2])], "b_relu")
    n.conv(x, "mask", (4, 10, 1, 1), bias=True)
    return n


def write(n, name, golden, outputs, channels=3):
    image = helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["N", channels, SIDE, SIDE])
    declared = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()]
    graph = helper.make_graph(n.nodes, "small", [image], declared, n.tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
                              producer_name="make_onnx_golden.py")
    model = onnx.shape_inference.infer_shapes(model)
    onnx.checker.check_model(model, full_check=True)
    OUT.mkdir(parents=True, exist_ok=True)
    onnx.save(model, OUT / name)
    session = onnxruntime.InferenceSession(str(OUT / name), providers=["CPUExecutionProvider"])
    pixels = n.random.normal(size=(2, SIDE, SIDE, channels)).astype(numpy.float32)
    answers = session.run(None, {"pixels": numpy.ascontiguousarray(pixels.transpose(0, 3, 1, 2))})
    tensors = {"pixels": pixels}
    for name, values in zip(outputs, answers):  # channels last, as the pixels
        tensors[name] = values if values.ndim == 2 else numpy.ascontiguousarray(values.transpose(0, 2, 3, 1))
    write_safetensors(OUT / golden, tensors,
                      {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__})


def main():
    write(build(), "net.onnx", "golden.safetensors", {"logits": ["N", CLASSES]})
    write(build_outputs(), "outputs.onnx", "outputs.safetensors", {
        "far": ["N", 6, 8, 8], "middle": ["N", 8, 16, 16], "scores": ["N", CLASSES],
        "near": ["N", 6, 16, 16], "embedding": ["N", 16]})
    write(build_channels(), "channels.onnx", "channels.safetensors", {"mask": ["N", 4, 16, 16]}, CHANNELS)


if __name__ == "__main__":
    main()
