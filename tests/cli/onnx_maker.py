"""Networks of ONNX that the tests test_onnx*.sh make node by node, and files of their values."""

import json
import struct

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper


class Network:
    """Nodes and constants. A node has its name from what it makes."""

    def __init__(self, seed=0):
        self.random = numpy.random.default_rng(seed)
        self.nodes, self.constants = [], []

    def constant(self, name, values):
        self.constants.append(numpy_helper.from_array(numpy.asarray(values), name))
        return name

    def weight(self, name, *shape, scale=None):
        """Random values, by themselves of a scale that leaves the size of activations."""
        usual = numpy.sqrt(2 / numpy.prod(shape[1:])) if len(shape) > 1 else 0.1
        values = self.random.standard_normal(shape) * (usual if scale is None else scale)
        return self.constant(name, values.astype(numpy.float32))

    def weights(self, scale=1, **shapes):
        for name, shape in shapes.items():
            self.weight(name, *shape, scale=scale)

    def add(self, operator, inputs, *outputs, **attributes):
        """Returns the output, or a list of several."""
        name = f"make_{outputs[0]}"
        self.nodes.append(helper.make_node(operator, inputs, outputs, name=name, **attributes))
        return outputs[0] if len(outputs) == 1 else list(outputs)

    def conv(self, x, y, inputs, outputs, kernel=(3, 3), **attributes):
        tensors = [self.weight(f"{y}.w", outputs, inputs, *kernel), self.weight(f"{y}.b", outputs)]
        return self.add("Conv", [x, *tensors], y, **attributes)

    def linear(self, x, y, inputs, outputs):
        product = self.add("MatMul", [x, self.weight(f"{y}.w", inputs, outputs)], f"{y}.product")
        return self.add("Add", [product, self.weight(f"{y}.b", outputs)], y)

    def save(self, name, inputs, outputs, declared=(), ir_version=8):
        """Writes NAME.onnx. Values are told by their names: shapes of floats, or pairs of a type
        and a shape."""
        tensors = [list_values(values) for values in (inputs, outputs, declared)]
        graph = helper.make_graph(
            self.nodes, name, *tensors[:2], self.constants, value_info=tensors[2]
        )
        opsets = [helper.make_opsetid("", 17)]
        opsets += [helper.make_opsetid(d, 1) for d in sorted({n.domain for n in self.nodes} - {""})]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
        onnx.save(model, f"{name}.onnx")


def list_values(values):
    pairs = {
        name: value if isinstance(value, tuple) else (TensorProto.FLOAT, value)
        for name, value in dict(values).items()
    }
    return [helper.make_tensor_value_info(name, *pair) for name, pair in pairs.items()]


def write_pixels(path, pixels):
    """Writes [samples, height, width, channels] as safetensors."""
    entry = {"dtype": "F32", "shape": pixels.shape, "data_offsets": [0, pixels.nbytes]}
    header = json.dumps({"pixels": entry}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + pixels.tobytes())


def read_tensors(path):
    """The arrays of a safetensors file by their names."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    header.pop("__metadata__", None)
    return {
        name: numpy.frombuffer(data[slice(*of["data_offsets"])], numpy.float32).reshape(of["shape"])
        for name, of in header.items()
    }
