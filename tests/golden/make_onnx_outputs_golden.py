#!/usr/bin/env python3
"""Small networks of ONNX nodes that are no classifiers, and their outputs from ONNX Runtime: writes outputs.onnx,
channels.onnx and their outputs into vision/onnx beside this script.

Needs onnx and onnxruntime. The first one has several outputs: a map in the middle that goes on, maps of heads at two
strides, features behind a ReLU and what a map makes of them. The second one reads five channels and gives a map.

usage: make_onnx_outputs_golden.py
"""
import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper

from golden_file import write_safetensors
from make_onnx_golden import CLASSES, OUT, SIDE, Network

CHANNELS = 5


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
    write(build_outputs(), "outputs.onnx", "outputs.safetensors", {
        "far": ["N", 6, 8, 8], "middle": ["N", 8, 16, 16], "scores": ["N", CLASSES],
        "near": ["N", 6, 16, 16], "embedding": ["N", 16]})
    write(build_channels(), "channels.onnx", "channels.safetensors", {"mask": ["N", 4, 16, 16]}, CHANNELS)


if __name__ == "__main__":
    main()
