#!/usr/bin/env python3
"""Narrows classifiers of Keras as tf2onnx writes them, with channels last: random weights, 20 % of the channels and neurons
by wanda with the paper's repair, from eight images. What ONNX Runtime computes of the narrow file is compared with the
softmax of what `grail logits` writes.

needs: tensorflow 2.15, tf2onnx, numpy, onnxruntime, pillow, safetensors
usage: onnx_keras.py GRAIL FOLDER IMAGES [--networks NAME,...]
"""

import argparse
import os
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
import tensorflow as tf  # noqa: E402
import tf2onnx  # noqa: E402
from onnx_zoo import SIDE, narrow, shares_left, write_pixels  # noqa: E402


def export(name, path):
    tf.keras.backend.clear_session()
    tf.random.set_seed(1)
    network = getattr(tf.keras.applications, name)(weights=None, input_shape=(SIDE, SIDE, 3))
    for one in network.weights:
        if "moving_variance" in one.name or "gamma" in one.name:
            one.assign(tf.random.uniform(one.shape, 0.7, 1.3))
        elif any(part in one.name for part in ("beta", "moving_mean", "bias")):
            one.assign(tf.random.normal(one.shape, 0, 0.05))
    signature = (tf.TensorSpec((None, SIDE, SIDE, 3), tf.float32, name="input"),)
    tf2onnx.convert.from_keras(network, input_signature=signature, opset=15, output_path=str(path))


def try_network(grail, path, pixels, folder):
    report, ours, refused = narrow(grail, path, folder)
    if refused:
        return refused
    session = onnxruntime.InferenceSession(str(folder / "out" / path.name), providers=["CPUExecutionProvider"])
    theirs = session.run(None, {session.get_inputs()[0].name: pixels})[0]
    ours = ours.reshape(theirs.shape).astype(np.float64)
    shares = np.exp(ours - ours.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    return f"{shares_left(report)} | {np.abs(shares - theirs).max() / np.abs(theirs).max():.1e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("grail")
    parser.add_argument("folder", type=Path)
    parser.add_argument("images", type=Path)
    parser.add_argument("--networks", type=lambda names: names.split(","),
                        default=["MobileNetV2", "MobileNetV3Small", "EfficientNetB0", "ResNet50"])
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    pixels = write_pixels(given.images, given.folder, True)
    print("| network | parameters left | regions | ONNX Runtime and grail |\n|---|---|---|---|")
    for name in given.networks:
        path = given.folder / f"{name}.onnx"
        export(name, path)
        print(f"| {name} | {try_network(given.grail, path, pixels, given.folder)} |", flush=True)


if __name__ == "__main__":
    main()
