#!/usr/bin/env python3
"""Narrows the classifiers of the ONNX model zoo as Caffe2 exported them: their graphs lie in the package onnx (light
models of its backend's tests), where each weight is a ConstantOfShape; here they get random values. Each loses 20 % of
its channels and neurons by wanda and the paper's repair, and what ONNX Runtime computes of the narrow file, in front of
a last Softmax, is compared with `grail logits`.

needs: numpy, onnx, onnxruntime, pillow, safetensors
usage: onnx_zoo.py GRAIL FOLDER IMAGES [--only NAME,...]
"""

import argparse
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from PIL import Image
from safetensors.numpy import load_file, save_file

SIDE, IMAGES = 224, 8


def fill(model, random):
    """Puts values in the place of each ConstantOfShape."""
    graph = model.graph
    shapes = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    readers = {name: (node, k) for node in graph.node for k, name in enumerate(node.input)}
    made = [node for node in graph.node if node.op_type == "ConstantOfShape"]
    for node in made:
        shape = tuple(int(n) for n in shapes[node.input[0]])
        reader, k = readers[node.output[0]]
        if len(shape) > 1:
            values = random.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
        elif reader.op_type in ("Unsqueeze", "Mul") or (reader.op_type == "BatchNormalization" and k in (1, 4)):
            values = random.uniform(0.7, 1.3, shape)
        else:
            values = random.standard_normal(shape) * 0.1
        graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), node.output[0]))
        graph.node.remove(node)
    gone = {node.input[0] for node in made}
    for several in (graph.initializer, graph.input):
        for one in [one for one in several if one.name in gone]:
            several.remove(one)


def compute(path, pixels):
    """What a last Softmax reads, or else the first output, of one image at a time: the files state that."""
    model = onnx.load(path)
    last = model.graph.node[-1]
    name = last.input[0] if last.op_type == "Softmax" else last.output[0]
    if name != last.output[0]:
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    entry = session.get_inputs()[0].name
    return np.stack([session.run([name], {entry: one[None]})[0].ravel() for one in pixels.transpose(0, 3, 1, 2)])


def narrow(grail, path, folder):
    """The report of a narrowed copy in folder/out, what grail computes of it, and why there is none."""
    out, logits = folder / "out", folder / "logits.safetensors"
    shutil.rmtree(out, ignore_errors=True)
    logits.unlink(missing_ok=True)
    for command in (["compress", path, "-o", out, "--calib", folder / "pixels.npy", "--sparsity", "0.2", "--selector", "wanda",
                     "--compensate", "grail", "--threads", "1", "--quiet"],
                    ["logits", out / path.name, "--pixels", folder / "pixels.safetensors", "-o", logits]):
        done = subprocess.run([grail, *map(str, command)], capture_output=True, text=True)
        if done.returncode != 0:
            return None, None, "refused: " + done.stderr.strip().splitlines()[-1].split(".onnx: ", 1)[-1]
    return json.loads((out / "report.json").read_text()), next(iter(load_file(logits).values())), None


def shares_left(report):
    return f"{report['narrow']['parameters'] / report['dense']['parameters']:.0%} | {len(report.get('regions', []))}"


def write_pixels(images, folder, is_last):
    """[images,224,224,3] as grail reads them; the array of the network's own order lies beside it."""
    files = sorted(f for f in images.iterdir() if f.suffix.lower() in (".jpg", ".jpeg", ".png"))[:IMAGES]
    pictures = [Image.open(f).convert("RGB").resize((SIDE, SIDE)) for f in files]
    pixels = np.stack([np.asarray(p, np.float32) for p in pictures]) / 127.5 - 1
    np.save(folder / "pixels.npy", pixels if is_last else np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))
    save_file({"pixels": pixels}, folder / "pixels.safetensors")
    return pixels


def try_network(grail, path, pixels, folder):
    report, ours, refused = narrow(grail, path, folder)
    if refused:
        return refused
    theirs, dense = compute(folder / "out" / path.name, pixels), compute(path, pixels)
    return (f"{shares_left(report)} | {np.linalg.norm(theirs - dense) / np.linalg.norm(dense):.2f} | "
            f"{np.abs(ours.reshape(theirs.shape) - theirs).max() / np.abs(theirs).max():.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("grail")
    parser.add_argument("folder", type=Path)
    parser.add_argument("images", type=Path)
    parser.add_argument("--only", type=lambda names: names.split(","))
    given = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    given.folder.mkdir(parents=True, exist_ok=True)
    pixels = write_pixels(given.images, given.folder, False)
    print("| network | parameters left | regions | error | ONNX Runtime and grail |\n|---|---|---|---|---|")
    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    for source in sorted(light.glob("light_*.onnx")):
        name = source.stem.removeprefix("light_")
        if given.only and name not in given.only:
            continue
        model = onnx.load(source)
        fill(model, np.random.default_rng(0))
        path = given.folder / f"{name}.onnx"
        onnx.save(model, path)
        print(f"| {name} | {try_network(given.grail, path, pixels, given.folder)} |", flush=True)


if __name__ == "__main__":
    main()
