#!/usr/bin/env python3
"""Small networks of ONNX nodes with what grail narrows there, and their logits from ONNX Runtime: writes a .onnx file and
golden.safetensors into vision/onnx and other folders beside this script.

Needs onnx and onnxruntime (1.32); for all but onnx and onnx_attention torch 2.12.1 with onnxscript, torchvision, timm and transformers. onnx_vit: torchvision's
ViT by PyTorch's dynamo exporter, whose attention goes through [positions, samples x heads, features]. onnx_deit: timm's by the
older exporter, opset 14: LayerNorm and GELU in single nodes, a fused matrix of queries, keys and values, layer scale, sizes that are computed. onnx_dinov2:
that of transformers by the older exporter, whose table of positions is resized from 3 x 3. onnx_convnext: torchvision's by the dynamo exporter: channels behind the positions and before them by turns, and a view as a Gather of all values.

vision/onnx: residual blocks with and without a projection, BatchNormalization,
depthwise convolution, windows that differ between directions, squeeze-excitation, Split and Concat of channels, weights of Gemm and MatMul
that lie transposed, a weight in a Constant and one stored as numbers.

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

OUT = pathlib.Path(__file__).resolve().parent / "vision" / "onnx"
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


def write(folder, model, random):
    """The model and its logits of two images."""
    out = OUT.parent / folder
    out.mkdir(parents=True, exist_ok=True)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, out / "net.onnx")
    session = onnxruntime.InferenceSession(str(out / "net.onnx"), providers=["CPUExecutionProvider"])
    pixels = random.normal(size=(2, SIDE, SIDE, 3)).astype(numpy.float32)
    answers = session.run(None, {"pixels": numpy.ascontiguousarray(pixels.transpose(0, 3, 1, 2))})
    write_safetensors(out / "golden.safetensors", {"pixels": pixels, "logits": answers[0]},
                      {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__})


def make_nodes():
    n = build()
    image = helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["N", 3, SIDE, SIDE])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", CLASSES])
    graph = helper.make_graph(n.nodes, "small", [image], [logits], n.tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
                              producer_name="make_onnx_golden.py")
    write("onnx", onnx.shape_inference.infer_shapes(model), n.random)


def make_attention():
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
    image = helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["N", 3, SIDE, SIDE])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", CLASSES])
    graph = helper.make_graph(n.nodes, "attention", [image], [logits], n.tensors)
    write("onnx_attention", helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11,
                                              producer_name="make_onnx_golden.py"), n.random)


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


def main():
    folders = sys.argv[1:] or ["onnx", "onnx_attention", "onnx_vit", "onnx_deit", "onnx_dinov2", "onnx_convnext"]
    if "onnx" in folders:
        make_nodes()
    if "onnx_attention" in folders:
        make_attention()
    if not set(folders) <= {"onnx", "onnx_attention"}:
        make_transformers(folders)


if __name__ == "__main__":
    main()
