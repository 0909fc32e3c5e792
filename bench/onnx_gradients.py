#!/usr/bin/env python3
"""Compares gradients through the ONNX project's tests of operators with those of torch, and prints a table.

Taken are the tests that grail reads by rows of its own (onnx_nodes.py), each in a network that begins with a trained
layer: a convolution of 5 x 5, or a matrix where input 0 is [N, C], so that what flows back into the operator is seen in
that layer's weights. bench_gradients gives the outputs and the gradients of a weighted sum of them in f32; here the same
nodes are computed by torch in f64. Both must agree to 1e-4 of the largest value of a tensor, which for a gradient counts
as a hundredth of the network's largest at least. Exits with 1 where one differs. Tests with operators that are not in
OPERATORS are not tried. Then come networks of this script, of operators whose tests grail does not read by rows.

needs: onnx, onnxruntime, safetensors, torch
usage: onnx_gradients.py GRAIL BENCH_GRADIENTS [--only TEXT] [--list]
"""

import argparse
import collections
import json
import math
import pathlib
import sys
import tempfile

import numpy as np
import onnx.parser
import torch
from onnx import helper, numpy_helper
from onnx_nodes import TOLERANCE, Frame, cases, converted, gives_outputs, is_taken, most_parts, operator_of, run
from torch.nn import functional

AGREES, DIFFERS, MISSING = "agree", "differ", "not compared"
FIRST, MOST_CHANNELS = "frame_first", 1000
NETWORKS = {
    "Mul and Add by channel": """(float[2,6,5,5] x, float[6,1,1] w, float[1,6,1,1] b) => (float[2,6,5,5] y)
        { m = Mul (x, w) y = Add (m, b) }""",
    "Conv in groups": """(float[2,6,5,5] x, float[9,2,3,3] w, float[9] b) => (float[2,9,5,5] y)
        { y = Conv <group = 3, pads = [1, 1, 1, 1]> (x, w, b) }""",
    "Conv, depthwise": """(float[2,6,7,7] x, float[6,1,3,2] w, float[6] b) => (float[2,6,3,3] y)
        { y = Conv <group = 6, pads = [1, 1, 2, 0], strides = [2, 2], dilations = [2, 1]> (x, w, b) }""",
    "Pad": """(float[2,4,5,5] x, float[3,4,3,3] w) => (float[2,3,5,6] y)
        { n = Constant <value = int64[8] {0, 0, 0, 1, 0, 0, 2, 2}> ()
          p = Pad (x, n) y = Conv (p, w) }""",
    "squeeze and excitation": """(float[2,8,5,5] x, float[3,8,1,1] v, float[3] c, float[8,3,1,1] w, float[8] b)
        => (float[2,8,5,5] y)
        { m = GlobalAveragePool (x) n = Conv (m, v, c) r = Relu (n) s = Conv (r, w, b) g = HardSigmoid (s)
          y = Mul (x, g) }""",
    "SiLU": "(float[2,6,5,5] x) => (float[2,6,5,5] y) { s = Sigmoid (x) y = Mul (x, s) }",
    "Concat of branches": """(float[2,4,5,5] x, float[3,4,1,1] w) => (float[2,7,5,5] y)
        { c = Conv (x, w) y = Concat <axis = 1> (x, c) }""",
    "Slice": """(float[2,6,5,5] x) => (float[2,3,5,5] y)
        { b = Constant <value = int64[1] {2}> () e = Constant <value = int64[1] {5}> ()
          a = Constant <value = int64[1] {1}> () y = Slice (x, b, e, a) }""",
    "channel shuffle": """(float[2,6,5,5] x) => (float[2,6,5,5] y)
        { a = Constant <value = int64[5] {0, 2, 3, 5, 5}> () b = Constant <value = int64[4] {0, 6, 5, 5}> ()
          r = Reshape (x, a) t = Transpose <perm = [0, 2, 1, 3, 4]> (r) y = Reshape (t, b) }""",
    "LayerNormalization": """(float[2,9,6] x, float[6] w, float[6] b) => (float[2,9,6] y)
        { y = LayerNormalization <axis = -1> (x, w, b) }""",
    "attention (MatMul, Softmax)": """(float[2,9,8] x, float[8,8] q, float[8,8] k, float[8,8] v, float[8,8] o, float[8] b)
        => (float[2,9,8] y)
        { n = Constant <value = int64[4] {0, 0, 2, 4}> () e = Constant <value = int64[3] {0, 0, 8}> ()
          c = Constant <value = float {0.5}> ()
          q0 = MatMul (x, q) q1 = Reshape (q0, n) q2 = Transpose <perm = [0, 2, 1, 3]> (q1)
          k0 = MatMul (x, k) k1 = Reshape (k0, n) k2 = Transpose <perm = [0, 2, 3, 1]> (k1)
          v0 = MatMul (x, v) v1 = Reshape (v0, n) v2 = Transpose <perm = [0, 2, 1, 3]> (v1)
          s = MatMul (q2, k2) d = Mul (s, c) p = Softmax <axis = -1> (d) r = MatMul (p, v2)
          t = Transpose <perm = [0, 2, 1, 3]> (r) f = Reshape (t, e) g = MatMul (f, o) y = Add (g, b) }""",
}


class TrainedFrame(Frame):
    def first(self):
        random, width = np.random.default_rng(1), self.pixels.shape[1]
        side = 5 if self.pixels.ndim == 4 else 1
        weight = random.standard_normal((width, width, side, side)) / (2 * side * math.sqrt(width))
        weight[range(width), range(width), side // 2, side // 2] += 1
        bias = self.constant(random.standard_normal(width).astype(np.float32) / 4, f"{FIRST}.bias")
        if side == 1:
            matrix = self.constant(weight[:, :, 0, 0].astype(np.float32), f"{FIRST}.weight")
            return self.add("Gemm", ["frame_pixels", matrix, bias], transB=1)
        return self.add("Conv", ["frame_pixels", self.constant(weight.astype(np.float32), f"{FIRST}.weight"), bias],
                        pads=[2, 2, 2, 2])


# ---- operators in torch: inputs, attributes, number of outputs; maps are [N, C, H, W]


def padding(a, x, kernel):
    """((above, below), (left, right)) of a window."""
    strides, dilations = a.get("strides", [1, 1]), a.get("dilations", [1, 1])
    auto = a.get("auto_pad", b"NOTSET").decode()
    if not auto.startswith("SAME"):
        pads = a.get("pads", [0, 0, 0, 0]) if auto == "NOTSET" else [0, 0, 0, 0]
        return [(pads[i], pads[i + 2]) for i in range(2)]
    totals = [max((math.ceil(x.shape[2 + i] / strides[i]) - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1
                  - x.shape[2 + i], 0) for i in range(2)]
    return [(t // 2, t - t // 2) if auto == "SAME_UPPER" else (t - t // 2, t // 2) for t in totals]


def padded(x, pads, value=0.0):
    (above, below), (left, right) = pads
    return functional.pad(x, (left, right, above, below), value=value)


def convolve(inputs, a, _):
    x, weight, bias = (*inputs, None)[:3]
    return [functional.conv2d(padded(x, padding(a, x, weight.shape[2:])), weight, bias, a.get("strides", 1), 0,
                              a.get("dilations", 1), a.get("group", 1))]


def convolve_back(inputs, a, _):
    x, weight, bias = (*inputs, None)[:3]
    strides, dilations = a.get("strides", [1, 1]), a.get("dilations", [1, 1])
    more = a.get("output_padding", [0, 0])
    auto = a.get("auto_pad", b"NOTSET").decode()
    pads = a.get("pads", [0, 0, 0, 0])
    pads = [(pads[i], pads[i + 2]) for i in range(2)]
    if auto.startswith("SAME"):
        totals = [(weight.shape[2 + i] - 1) * dilations[i] + 1 + more[i] - strides[i] for i in range(2)]
        pads = [(t // 2, t - t // 2) if auto == "SAME_UPPER" else (t - t // 2, t // 2) for t in totals]
    y = functional.conv_transpose2d(x, weight, None, strides, 0, 0, a.get("group", 1), dilations)
    y = padded(y, [(-before, m - after) for (before, after), m in zip(pads, more)])
    return [y if bias is None else y + bias[:, None, None]]


def windows(x, a, value):
    """[N, C, elements of a window, positions], and the extent of the positions."""
    kernel = a["kernel_shape"]
    strides, dilations = a.get("strides", [1, 1]), a.get("dilations", [1, 1])
    pads, extent = padding(a, x, kernel), []
    for i, (before, after) in enumerate(pads):
        rest = x.shape[2 + i] + before + after - (kernel[i] - 1) * dilations[i] - 1
        places = rest // strides[i] + 1
        if a.get("ceil_mode", 0) and rest % strides[i] and places * strides[i] < x.shape[2 + i] + before:
            places += 1
        extent.append(places)
    reach = [max(0, (extent[i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - x.shape[2 + i] - sum(pads[i]))
             for i in range(2)]
    parts = padded(padded(x, pads, value), [(0, r) for r in reach], value)
    whole = padded(padded(torch.ones_like(x), pads, float(a.get("count_include_pad", 0))), [(0, r) for r in reach])
    unfolded = [functional.unfold(p, kernel, dilations, 0, strides).reshape(*x.shape[:2], math.prod(kernel), -1)
                for p in (parts, whole)]
    places = math.prod(extent)
    return *(u[..., :places] for u in unfolded), (*x.shape[:2], *extent)


def average(inputs, a, _):
    parts, whole, shape = windows(inputs[0], a, 0.0)
    return [(parts.sum(2) / whole.sum(2)).reshape(shape)]


def maximum(inputs, a, _):
    parts, _, shape = windows(inputs[0], a, -1e30)
    return [parts.max(2).values.reshape(shape)]


def places(a, n, scale, made):
    """The coordinate in an axis of n that each of `made` outputs has."""
    i, mode = np.arange(made), a.get("coordinate_transformation_mode", b"half_pixel").decode()
    if mode == "align_corners":
        return i * (n - 1) / (made - 1) if made > 1 else 0.0 * i
    if mode == "asymmetric":
        return i / scale
    if mode == "pytorch_half_pixel" and made == 1:
        return 0.0 * i
    if mode == "half_pixel_symmetric":
        return n / 2 * (1 - made / (n * scale)) + (i + 0.5) / scale - 0.5
    return (i + 0.5) / scale - 0.5


def axis_matrix(a, n, scale, made):
    """[made, n]: what each output takes of the inputs along an axis."""
    at, matrix = places(a, n, scale, made), np.zeros((made, n))
    for row, x in enumerate(at):
        if a.get("mode", b"nearest") == b"nearest":
            rounding = a.get("nearest_mode", b"round_prefer_floor").decode()
            near = {"floor": math.floor(x), "ceil": math.ceil(x), "round_prefer_floor": math.ceil(x - 0.5),
                    "round_prefer_ceil": math.floor(x + 0.5)}[rounding]
            matrix[row, min(max(near, 0), n - 1)] = 1
        else:
            below = math.floor(x)
            for column, share in ((below, 1 - (x - below)), (below + 1, x - below)):
                matrix[row, min(max(column, 0), n - 1)] += share
    return torch.from_numpy(matrix)


def resize(inputs, a, _):
    x = inputs[0]
    if len(inputs) > 3:
        made = [int(s) for s in inputs[3]]
        scales = [m / n for m, n in zip(made, x.shape)]
        if a.get("keep_aspect_ratio_policy", b"stretch") != b"stretch":
            raise NotImplementedError("keep_aspect_ratio_policy")
    else:
        scales = inputs[-1].tolist()
        made = [math.floor(s * n) for s, n in zip(scales, x.shape)]
    if a.get("mode", b"nearest") not in (b"nearest", b"linear") or len(made) != 4:
        raise NotImplementedError("this mode of Resize")
    high, wide = (axis_matrix(a, x.shape[i], scales[i], made[i]) for i in (2, 3))
    return [torch.einsum("ph,nchw,qw->ncpq", high, x, wide)]


def upsample(inputs, a, _):
    return resize([inputs[0], torch.tensor(a["scales"]) if "scales" in a else inputs[1]],
                  {"mode": a.get("mode", b"nearest"), "coordinate_transformation_mode": b"asymmetric",
                   "nearest_mode": b"floor"}, 1)


def multiply(inputs, a, _):
    x, weight, bias = (*inputs, None)[:3]
    x, weight = x.T if a.get("transA", 0) else x, weight.T if a.get("transB", 0) else weight
    y = a.get("alpha", 1.0) * x @ weight
    return [y if bias is None else y + a.get("beta", 1.0) * bias]


def split(inputs, a, count):
    x, axis = inputs[0], a.get("axis", 0)
    if len(inputs) > 1 or "split" in a:
        sizes = [int(s) for s in inputs[1]] if len(inputs) > 1 else a["split"]
    else:
        each = -(-x.shape[axis] // count)
        sizes = [min(each, x.shape[axis] - i * each) for i in range(count)]
    return x.split(list(sizes), axis)


def group_norm(inputs, a, _):
    x, scale, bias = inputs
    y = functional.group_norm(x, a["num_groups"], None, None, a.get("epsilon", 1e-5))
    each = x.shape[1] // len(scale)  # sets before 21 have a scale for each group
    return [y * scale.repeat_interleave(each)[:, None, None] + bias.repeat_interleave(each)[:, None, None]]


def instance_norm(inputs, a, _):
    """Spelled out: torch's function has other gradients where maps are one row high and read with channels last."""
    x, scale, bias = inputs
    deviation = (x.var((2, 3), correction=0, keepdim=True) + a.get("epsilon", 1e-5)).sqrt()
    return [(x - x.mean((2, 3), keepdim=True)) / deviation * scale[:, None, None] + bias[:, None, None]]


def rms_norm(inputs, a, _):
    axes = tuple(range(a.get("axis", -1) % inputs[0].ndim, inputs[0].ndim))
    return [inputs[0] / ((inputs[0] ** 2).mean(axes, keepdim=True) + a.get("epsilon", 1e-5)).sqrt() * inputs[1]]


def layer_norm(inputs, a, _):
    x, scale, bias = (*inputs, None)[:3]
    return [functional.layer_norm(x, x.shape[a.get("axis", -1) % x.ndim:], scale, bias, a.get("epsilon", 1e-5))]


def clip(inputs, a, _):
    low, high = (*(None if v is None else v.item() for v in inputs[1:]), None, None)[:2]
    return [inputs[0].clamp(a.get("min", low), a.get("max", high))]


def reshape(inputs, _, __):
    return [inputs[0].reshape([inputs[0].shape[i] if s == 0 else int(s) for i, s in enumerate(inputs[1].tolist())])]


def axes_of(inputs, a):
    return a["axes"] if "axes" in a else [int(i) for i in inputs[1]]


def unsqueeze(inputs, a, _):
    axes = axes_of(inputs, a)
    sizes, rank = iter(inputs[0].shape), inputs[0].ndim + len(axes)
    axes = {i % rank for i in axes}
    return [inputs[0].reshape([1 if i in axes else next(sizes) for i in range(rank)])]


def squeeze(inputs, a, _):
    return [inputs[0].squeeze(tuple(axes_of(inputs, a)))]


def take(inputs, _, __):
    x, (begin,), (end,), (axis,) = inputs[0], *(i.tolist() for i in inputs[1:4])
    return [x.narrow(axis, begin, end - begin)]


def pad(inputs, a, _):
    sizes = a["pads"] if "pads" in a else [int(p) for p in inputs[1]]
    return [padded(inputs[0], [(sizes[i], sizes[i + 4]) for i in (2, 3)])]


OPERATORS = {
    "Add": lambda x, a, _: [x[0] + x[1]], "Sub": lambda x, a, _: [x[0] - x[1]],
    "Mul": lambda x, a, _: [x[0] * x[1]], "Div": lambda x, a, _: [x[0] / x[1]],
    "Conv": convolve, "ConvTranspose": convolve_back, "AveragePool": average, "MaxPool": maximum,
    "GlobalAveragePool": lambda x, a, _: [x[0].mean((2, 3), keepdim=True)],
    "GlobalMaxPool": lambda x, a, _: [x[0].amax((2, 3), keepdim=True)],
    "Concat": lambda x, a, _: [torch.cat(x, a["axis"])], "Split": split, "Gemm": multiply, "MatMul": multiply,
    "BatchNormalization": lambda x, a, _: [functional.batch_norm(x[0], x[3].detach(), x[4].detach(), x[1], x[2],
                                                                 False, 0.0, a.get("epsilon", 1e-5))],
    "InstanceNormalization": instance_norm, "GroupNormalization": group_norm, "RMSNormalization": rms_norm,
    "LayerNormalization": layer_norm,
    "Relu": lambda x, a, _: [functional.relu(x[0])], "Sigmoid": lambda x, a, _: [x[0].sigmoid()],
    "Tanh": lambda x, a, _: [x[0].tanh()], "Erf": lambda x, a, _: [x[0].erf()],
    "Softplus": lambda x, a, _: [functional.softplus(x[0])],
    "Elu": lambda x, a, _: [functional.elu(x[0], a.get("alpha", 1.0))],
    "Gelu": lambda x, a, _: [functional.gelu(x[0], approximate=a.get("approximate", b"none").decode())],
    "LeakyRelu": lambda x, a, _: [functional.leaky_relu(x[0], a.get("alpha", 0.01))],
    "PRelu": lambda x, a, _: [torch.where(x[0] > 0, x[0], x[0] * x[1])],
    "HardSigmoid": lambda x, a, _: [(a.get("alpha", 0.2) * x[0] + a.get("beta", 0.5)).clamp(0, 1)],
    "HardSwish": lambda x, a, _: [functional.hardswish(x[0])], "Clip": clip,
    "Softmax": lambda x, a, _: [x[0].softmax(a.get("axis", -1))], "Slice": take,
    "Resize": resize, "Upsample": upsample, "Pad": pad, "Reshape": reshape, "Unsqueeze": unsqueeze, "Squeeze": squeeze,
    "Transpose": lambda x, a, _: [x[0].permute(a.get("perm", list(range(x[0].ndim))[::-1]))],
    "Identity": lambda x, a, _: [x[0]], "Dropout": lambda x, a, _: [x[0]],
}


# ---- comparison


def in_torch(frame):
    """Values by name, in f64; floats of the file take gradients."""
    values = {"": None, "frame_pixels": torch.from_numpy(frame.pixels).double()}
    for tensor in frame.model.graph.initializer:
        value = torch.from_numpy(numpy_helper.to_array(tensor).copy())
        values[tensor.name] = value.double().requires_grad_() if value.is_floating_point() else value
    for node in frame.model.graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Constant":
            value = torch.from_numpy(numpy_helper.to_array(attributes["value"]).copy())
            values[node.output[0]] = value.double() if value.is_floating_point() else value
            continue
        made = OPERATORS[node.op_type]([values[i] for i in node.input], attributes, len(node.output))
        values |= zip(node.output, made)
    return values


def distance(mine, expected, least=1e-3):
    """The largest difference as a share of the largest value, or of `least` where that is more."""
    scale = max(float(np.abs(expected).max(initial=0)), least)
    return float(np.abs(mine - expected).max(initial=0)) / scale if mine.shape == expected.shape else math.inf


def compare(frame, answer):
    """(kind, sentence, largest difference of a gradient); the sentence of those that agree names constants without."""
    lines = [line.split(" ") for line in answer.splitlines()]
    read = {(kind, name): np.array(values, float) for kind, name, _, *values in lines}
    outputs = [values for (kind, _), values in read.items() if kind == "output"]
    values, loss = in_torch(frame), 0
    names = [o.name for o in frame.model.graph.output]
    for i, name in enumerate(names):
        mine = read.get(("output", name), outputs[i] if len(names) == len(outputs) == 1 else np.zeros(0))
        y = values[name]
        orders = [y.permute(0, 2, 3, 1), y] if y.ndim == 4 else [y]  # the other is that of what makes channels the last
        found = [(distance(mine, o.detach().flatten().numpy()), o) for o in orders]
        error, y = min(found, key=lambda pair: pair[0])
        if not error <= TOLERANCE:
            return DIFFERS, f"output '{name}' by {error:.1e}", error
        loss = loss + (y.flatten() * torch.cos(0.9 * torch.arange(y.numel(), dtype=torch.float64) + 0.1)).sum()
    loss.backward()
    largest, without = 0.0, []
    leaves = {name: v for name, v in values.items() if v is not None and v.is_leaf and v.grad is not None}
    least = 0.01 * max(float(leaf.grad.abs().max()) for leaf in leaves.values())  # sums of a bias may cancel
    for name, leaf in leaves.items():
        mine = read.get(("gradient", name))
        if mine is None:
            without.append(f"'{name}'")
            continue
        error = distance(mine, leaf.grad.flatten().numpy(), least)
        if not error <= TOLERANCE:
            return DIFFERS, f"gradient of '{name}' by {error:.1e}", error
        largest = max(largest, error)
    if ("gradient", f"{FIRST}.weight") not in read:
        return DIFFERS, "no gradient comes back to the first layer", math.inf
    return AGREES, ", ".join(without), largest


def is_known(model):
    """A last Softmax stands behind what grail gives."""
    kinds = [n.op_type for n in model.graph.node]
    return all(kind in OPERATORS or kind == "Constant" for kind in kinds) and kinds[-1] != "Softmax"


def own_cases():
    """(name, model, inputs) of NETWORKS."""
    random = np.random.default_rng(2)
    for name, text in NETWORKS.items():
        model = helper.make_model(onnx.parser.parse_graph(f"g {text}"), opset_imports=[helper.make_opsetid("", 18)])
        shapes = [[d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input]
        yield name, model, [random.standard_normal(s).astype(np.float32) / math.sqrt(s[1] if len(s) > 1 else 1) for s in shapes]


def try_case(given, model, inputs, folder):
    """None where grail does not read it by rows alone."""
    for parts in sorted({1, most_parts(inputs)}):
        frame = TrainedFrame(model, inputs, parts)
        frame.write(folder)
        code, answer, _ = run([given.grail, "inspect", folder / "test.onnx", "--json"])
        if code == 0 and not json.loads(answer)["regions"] and gives_outputs(frame, answer):
            break
    else:
        return None
    code, answer, said = run([given.gradients, folder / "test.onnx", folder / "pixels.safetensors"])
    if code != 0:
        return MISSING, said, 0.0
    try:
        return compare(frame, answer)
    except NotImplementedError as error:
        return MISSING, f"this script has no {error} in torch", 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("grail", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("gradients", metavar="bench_gradients", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--only", default="", help="tests whose name holds this text")
    parser.add_argument("--list", action="store_true", help="what became of each test")
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as work:
        for name, model, inputs, outputs in cases():
            if given.only not in name or not is_taken(model, inputs, outputs) or not is_known(model):
                continue
            if max(inputs[0].shape) > MOST_CHANNELS:
                continue  # one of MaxPool, of 220,000 in a row
            line = try_case(given, converted(model), inputs, pathlib.Path(work))
            if line is not None:
                found[operator_of(name, model)].append((name, *line))
                if given.list:
                    print(f"{name}: {operator_of(name, model)}: {line}", flush=True)
        for name, model, inputs in own_cases():
            if given.only in name:
                line = try_case(given, model, inputs, pathlib.Path(work))
                found[f"{name}, of this script"].append((name, *(line or (MISSING, "not read by rows", math.inf))))
    print_table(found)
    return 1 if any(test[1] == DIFFERS for tests in found.values() for test in tests) else 0


def print_table(found):
    total = collections.Counter()
    print("| operator | agree | differ | not compared | largest difference | |\n|---|---|---|---|---|---|")
    for operator, tests in sorted(found.items()):
        count = collections.Counter(kind for _, kind, _, _ in tests)
        total += count
        largest = max((error for _, kind, _, error in tests if kind == AGREES), default=math.nan)
        said = [f"{name}: {why}" for name, kind, why, _ in tests if kind != AGREES and why]
        without = sum(1 for _, kind, why, _ in tests if kind == AGREES and why)
        said += [f"constants without a gradient in {without}"] if without else []
        print(f"| {operator} | " + " | ".join(str(count[k] or "") for k in (AGREES, DIFFERS, MISSING)) +
              f" | {largest:.0e} | {'; '.join(said)} |")
    print("| all | " + " | ".join(str(total[k] or "") for k in (AGREES, DIFFERS, MISSING)) + " | | |")


if __name__ == "__main__":
    sys.exit(main())
