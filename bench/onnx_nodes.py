#!/usr/bin/env python3
"""Asks of the ONNX project's own tests of operators what grail makes of each, and prints a table.

A test is taken where input 0 is float32 [N, C], [N, C, H, W] or [N, T, C] (T a square number: a map in front of the
test is turned into such a sequence, and back behind it). Other inputs become constants; where that is not read by rows,
float inputs of one shape are tried once more as parts of the network's input, which a Split takes apart. What `grail
logits` writes is compared with the outputs that the test expects, unless grail gives the value that the tested node
makes its output of, which is said to be behind. Exits with 1 where any differs.

needs: onnx, onnxruntime, safetensors
usage: onnx_nodes.py GRAIL [--only TEXT] [--list]
"""

import argparse
import collections
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case import model as models
from onnx.backend.test.case import node as nodes
from safetensors.numpy import load_file, save_file

TOLERANCE = 1e-4  # of the largest expected value, or of 1
NO_ROW = re.compile(r"grail has no row for this operator($|;)|^uses operator set")
SPELLED_OUT = "(functions spelled out as nodes)"
OLDEST, NEWEST = 7, 23  # sets of operators that grail reads
ROWS, LEFT, BEHIND, REFUSED, DIFFERS, OTHER = "rows", "ONNX Runtime", "behind", "refused", "differs", "other shapes"


def read_values(folder, kind, model_values):
    """Tensors of a data set on disk; None where one is no tensor."""
    values = []
    for i, value in enumerate(model_values):
        path = folder / f"{kind}_{i}.pb"
        if not value.type.HasField("tensor_type"):
            return None
        if path.exists():
            values.append(numpy_helper.to_array(onnx.load_tensor(path)))
    return values


def cases():
    """(name, model, inputs, outputs) of all tests with data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = nodes.collect_testcases() + models.collect_testcases()
    for c in found:
        if c.model is not None and c.data_sets:
            yield c.name, c.model, *c.data_sets[0]
    data = pathlib.Path(onnx.__file__).parent / "backend/test/data"
    for folder in sorted(data.glob("pytorch-*/*")):
        model = onnx.load(folder / "model.onnx")
        stored = folder / "test_data_set_0"
        yield (folder.name, model, read_values(stored, "input", model.graph.input),
               read_values(stored, "output", model.graph.output))


def operator_of(name, model):
    """What a test is of; the first of several nodes counts."""
    kinds = [n.op_type for n in model.graph.node if n.op_type not in ("Constant", "Identity")] or ["Identity"]
    return SPELLED_OUT if "_expanded" in name else kinds[0]


def fits(x):
    if not isinstance(x, np.ndarray) or x.dtype != np.float32 or x.size == 0:
        return False
    return x.ndim in (2, 4) or (x.ndim == 3 and math.isqrt(x.shape[1]) ** 2 == x.shape[1])


def as_map(x):
    """[N, T, C] as [N, C, side, side]."""
    side = math.isqrt(x.shape[1])
    return x.transpose(0, 2, 1).reshape(x.shape[0], x.shape[2], side, side)


class Frame:
    """The network that holds a test: nodes in front of it and behind it, and constants."""

    def __init__(self, model, inputs, parts):
        self.model = onnx.ModelProto()
        self.model.CopyFrom(model)
        self.front, self.count = [], 0
        graph = self.model.graph
        names = [v.name for v in graph.input]
        constants = {t.name for t in graph.initializer}
        for name, value in list(zip(names, inputs))[parts:]:
            if name not in constants:
                self.constant(value, name)
        self.samples = 1 if inputs[0].shape[0] == 1 else "N"
        maps = [as_map(x) if x.ndim == 3 else x for x in inputs[:parts]]
        self.pixels = np.concatenate(maps, 1)
        del graph.input[:]
        graph.input.append(self.declared("frame_pixels", self.pixels.shape))
        value = self.first()
        pieces = [value]
        if parts > 1:
            pieces = [f"frame_piece{i}" for i in range(parts)]
            sizes = [m.shape[1] for m in maps]
            self.front.append(helper.make_node("Split", [value, self.constant(np.array(sizes, np.int64))], pieces,
                                               "frame_split", axis=1)
                              if self.opset() >= 13 else
                              helper.make_node("Split", [value], pieces, "frame_split", axis=1, split=sizes))
        for name, piece, x in zip(names, pieces, inputs):
            if x.ndim == 3:
                piece = self.add("Reshape", [piece, self.constant(np.array([0, x.shape[2], x.shape[1]], np.int64))])
                piece = self.add("Transpose", [piece], perm=[0, 2, 1])
            self.rename(piece, name)
        self.finish(inputs[0].shape[0])

    def opset(self):
        return next(o.version for o in self.model.opset_import if o.domain in ("", "ai.onnx"))

    def constant(self, value, name=None):
        self.count += 1
        name = name or f"frame_constant{self.count}"
        value = np.asarray(value)
        self.model.graph.initializer.append(numpy_helper.from_array(value, name))
        return name

    def add(self, kind, inputs, **attributes):
        self.count += 1
        output = f"frame_value{self.count}"
        self.front.append(helper.make_node(kind, inputs, [output], f"frame_{kind}{self.count}", **attributes))
        return output

    def first(self):
        return self.add("Mul", ["frame_pixels", self.constant(np.float32(1))])

    def rename(self, old, new):
        for node in self.front:
            for names in (node.input, node.output):
                for i, name in enumerate(names):
                    names[i] = new if name == old else name

    def declared(self, name, shape):
        """Sizes of maps that are not square are left open."""
        sizes = [self.samples if i == 0 and shape[0] == self.pixels.shape[0] else d for i, d in enumerate(shape)]
        if len(sizes) == 4 and (name != "frame_pixels" or sizes[2] != sizes[3]):
            sizes[2:] = [f"{name}_height", f"{name}_width"]
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)

    def finish(self, samples):
        """Sequences that the test gives are turned into maps."""
        graph, behind = self.model.graph, []
        self.sequences = {}
        for i, output in enumerate(graph.output):
            t = output.type.tensor_type
            sizes = [d.dim_value for d in t.shape.dim]
            if t.elem_type != TensorProto.FLOAT or sizes[:1] != [samples]:
                continue
            if len(sizes) == 3:
                name, (_, positions, width) = output.name, sizes
                side = math.isqrt(positions)
                high, wide = (side, side) if side * side == positions else (positions, 1)
                turned = f"frame_turned{i}"
                behind += [helper.make_node("Transpose", [name], [turned], f"frame_turn{i}", perm=[0, 2, 1]),
                           helper.make_node("Reshape", [turned, self.constant(np.array([0, width, high, wide], np.int64))],
                                            [f"frame_output{i}"], f"frame_reshape{i}")]
                graph.output[i].CopyFrom(self.declared(f"frame_output{i}", (samples, width, high, wide)))
                self.sequences[f"frame_output{i}"] = True
            else:
                graph.output[i].CopyFrom(self.declared(output.name, sizes))
        own = list(graph.node)
        del graph.node[:]
        graph.node.extend(self.front + own + behind)

    def write(self, folder):
        (folder / "test.onnx").write_bytes(self.model.SerializeToString())
        pixels = self.pixels if self.pixels.ndim == 4 else self.pixels[:, :, None, None]
        save_file({"pixels": np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))}, folder / "pixels.safetensors")

    def ours(self, made):
        """Outputs of grail, channels last, as the test has them."""
        names = [o.name for o in self.model.graph.output]
        for name in names:
            y = made["logits" if len(names) == 1 else name]
            y = y.transpose(0, 3, 1, 2) if y.ndim == 4 else y
            if name in self.sequences:
                y = y.reshape(*y.shape[:2], -1).transpose(0, 2, 1)
            yield y


def run(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    said = done.stderr.strip().splitlines()
    if done.returncode < 0 or done.returncode > 100:
        said = [f"died of signal {-done.returncode}"]
    said = re.sub(r"^.*?\.onnx(: |' )", "", said[-1]) if said else ""
    return done.returncode, done.stdout, re.sub(r"^node (of )?'[^']*' \((\w+)\): ", r"\2: ", said)


def gives_outputs(frame, inspected):
    """Whether what grail gives are the outputs of the file, and not values that other nodes make these of."""
    given = {o["name"] for o in json.loads(inspected)["outputs"]}
    return None in given or given >= {o.name for o in frame.model.graph.output}


def outcome(grail, frame, outputs, folder):
    """(kind, sentence)"""
    path, out = folder / "test.onnx", folder / "out.safetensors"
    out.unlink(missing_ok=True)
    frame.write(folder)
    code, answer, said = run([grail, "inspect", path, "--json"])
    if code != 0:
        return REFUSED, said
    if not gives_outputs(frame, answer):
        return BEHIND, ""
    regions = json.loads(answer)["regions"]
    code, _, said = run([grail, "logits", path, "--pixels", folder / "pixels.safetensors", "-o", out])
    if code != 0:
        return REFUSED, said
    for mine, expected in zip(frame.ours(load_file(out)), outputs):
        if mine.size != expected.size:
            return DIFFERS, f"has shape {mine.shape}, expected {expected.shape}"
        scale = max(1.0, float(np.abs(expected).max()))
        orders = [mine] + ([mine.transpose(0, 2, 3, 1)] if mine.ndim == 4 else [])  # what makes channels the last
        error = min(float(np.abs(y.reshape(expected.shape) - expected).max()) for y in orders) / scale
        if not error <= TOLERANCE and frame.model.graph.node[-1].op_type == "Softmax":
            return BEHIND, ""  # its logits
        if not error <= TOLERANCE:
            return DIFFERS, f"{'with regions, ' if regions else ''}by {error:.1e}"
    if regions:
        return LEFT, regions[0]["reason"]
    return ROWS, ""


def converted(model):
    """The model with a set of operators that grail reads, if onnx can make one."""
    version = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), OLDEST)
    if OLDEST <= version <= NEWEST:
        return model
    try:
        return onnx.version_converter.convert_version(model, min(max(version, OLDEST), NEWEST))
    except Exception:  # its own kinds of errors
        return model


def is_agreed(model, inputs, outputs):
    """Whether ONNX Runtime by itself gives what the test expects; not where it does not run it."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        made = session.run(None, dict(zip([x.name for x in session.get_inputs()], inputs)))
    except Exception:  # its own kinds of errors
        return False
    return all(np.allclose(y, expected, TOLERANCE, TOLERANCE) for y, expected in zip(made, outputs))


def is_taken(model, inputs, outputs):
    return (bool(inputs) and outputs is not None and fits(inputs[0]) and len(model.graph.input) >= len(inputs)
            and all(isinstance(x, np.ndarray) for x in (*inputs, *outputs)))


def most_parts(inputs):
    """How many of the first inputs can be parts of the network's."""
    parts = 1
    while parts < len(inputs) and inputs[parts].dtype == np.float32 and inputs[parts].shape == inputs[0].shape:
        parts += 1
    return parts


def try_case(grail, model, inputs, outputs, folder):
    if not is_taken(model, inputs, outputs):
        return OTHER, ""
    model = converted(model)
    found = outcome(grail, Frame(model, inputs, 1), outputs, folder)
    parts = most_parts(inputs)
    if parts > 1 and found[0] in (LEFT, BEHIND, REFUSED):
        again = outcome(grail, Frame(model, inputs, parts), outputs, folder)
        found = again if again[0] in (ROWS, DIFFERS) or found[0] == REFUSED else found
    if found[0] == DIFFERS and found[1].startswith("with regions") and not is_agreed(model, inputs, outputs):
        return LEFT, "ONNX Runtime by itself differs from what is expected, too"
    return found


def shortened(sentence, operator):
    """The sentence up to its remedy, without names and numbers."""
    sentence = sentence.removeprefix("grail: ").removeprefix(f"{operator}: ").split("; the file does not declare")[0]
    sentence = re.sub(r"[;:] (export|convert|give|it may stand) .*", "", sentence).split("Status Message")[0].split(" Name:")[0]
    return re.sub(r"\d+", "n", re.sub(r"'[^']*'", "'...'", sentence.replace("\n", " ")))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("grail", type=pathlib.Path)
    parser.add_argument("--only", default="", help="tests whose name holds this text")
    parser.add_argument("--list", action="store_true", help="what became of each test")
    given = parser.parse_args()
    os.environ.setdefault("GRAIL_ONNXRUNTIME", str(pathlib.Path(onnxruntime.__file__).parent))
    found = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as work:
        for name, model, inputs, outputs in cases():
            operator = operator_of(name, model)
            if given.only in name:
                kind, why = try_case(given.grail.resolve(), model, inputs, outputs, pathlib.Path(work))
                found[operator].append((kind, shortened(why, operator) if kind != DIFFERS else f"{name} {why}"))
                if given.list:
                    print(f"{name}: {operator}: {kind}: {why}", flush=True)
    print_table(found)
    return 1 if any(kind == DIFFERS for tests in found.values() for kind, _ in tests) else 0


def print_table(found):
    """An operator has a line where grail knows it: where anything but the lack of a row is said of a test."""
    rest, total = [], collections.Counter()
    print("| operator | by rows | left to ONNX Runtime | behind what grail gives | refused | differ | other shapes | "
          "why left or refused |\n|---|---|---|---|---|---|---|---|")
    for operator, tests in sorted(found.items()):
        count = collections.Counter(kind for kind, _ in tests)
        total += count
        why = collections.Counter(said for _, said in tests if said)
        if all(kind == OTHER or NO_ROW.search(said) for kind, said in tests):
            rest.append((operator, count))
            continue
        print(f"| {operator} | " + " | ".join(str(count[k] or "") for k in (ROWS, LEFT, BEHIND, REFUSED, DIFFERS, OTHER)) +
              " | " + "; ".join(f"{said} ({n})" for said, n in why.most_common(3)) + " |")
    print("| all | " + " | ".join(str(total[k]) for k in (ROWS, LEFT, BEHIND, REFUSED, DIFFERS, OTHER)) + " | |")
    left = [name for name, count in rest if count[LEFT]]
    refused = [name for name, count in rest if count[REFUSED] and not count[LEFT]]
    print(f"\nWithout a row, left to ONNX Runtime: {', '.join(left)}.\n\nWithout a row, and refused: "
          f"{', '.join(refused)}.\n\nOnly tests of other shapes: {len(rest) - len(left) - len(refused)} operators.")


if __name__ == "__main__":
    sys.exit(main())
