"""Compares what ONNX Runtime makes of an ONNX file with several inputs with what grail logits does, to 1e-5 of the
largest value, or of 1 where all are smaller: all outputs of networks whose inputs lie side by side, but those that
others stand for; of encoders the first one, at the positions that the mask leaves, one length after the other.

usage: compare_onnx_inputs.py GRAIL MODEL NAME=FILE,NAME=FILE [OPTION...]
"""
import json
import os
import subprocess
import sys

import numpy
import onnxruntime

from onnx_maker import read_tensors, write_pixels

grail, path, given, *options = sys.argv[1:]
arrays = {name: numpy.load(file) for name, file in (one.split("=") for one in given.split(","))}
session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def run(option, file):
    if os.path.exists("compared.safetensors"):
        os.remove("compared.safetensors")
    subprocess.run([grail, "logits", path, option, file, "-o", "compared.safetensors", "--quiet", *options], check=True)
    return read_tensors("compared.safetensors")


def check(name, theirs, ours):
    difference = abs(theirs.ravel() - ours.ravel()).max() / max(1, abs(theirs).max())
    if theirs.size != ours.size or not difference < 1e-5:
        sys.exit(f"{path}: {name} differs by {difference}")


if "attention_mask" in arrays and "pixel_values" not in arrays:
    lengths = arrays["attention_mask"].sum(1)
    made = session.run(None, arrays)[0]
    for length in numpy.unique(lengths):
        chosen = lengths == length
        for name, array in arrays.items():
            numpy.save(f"compared.{name}.npy", array[chosen, :length].astype(numpy.int32))
        ours = run("--ids", ",".join(f"{name}=compared.{name}.npy" for name in arrays))
        check(session.get_outputs()[0].name, made[chosen, :length] if made.ndim == 3 else made[chosen], ours["logits"])
else:
    told = subprocess.run([grail, "inspect", path, "--json", *options], check=True, capture_output=True, text=True)
    channels = {one["name"]: one["channels"] for one in json.loads(told.stdout)["inputs"]}
    rows = [(one.name, arrays[one.name].astype(numpy.float32)) for one in session.get_inputs()]
    rows = [numpy.moveaxis(row, 1, -1) if row.ndim == 4 or (row.ndim == 3 and row.shape[1] == channels[name]) else row
            for name, row in rows]
    pixels = numpy.concatenate([row.reshape(len(row), 1, 1, -1) for row in rows], 3)
    write_pixels("compared.pixels.safetensors", pixels)
    ours = run("--pixels", "compared.pixels.safetensors")
    for output, theirs in zip(session.get_outputs(), session.run(None, arrays)):
        one = next(iter(ours.values())) if len(ours) == 1 else ours.get(output.name)
        if one is None and output.name.startswith("logits_per_"):
            continue
        check(output.name, theirs, one.transpose(0, 3, 1, 2) if theirs.ndim == 4 else one)
