#!/usr/bin/env python3
"""Processor seconds of depthwise networks, grail against ONNX Runtime on the same file and images, in turn, on one
thread each: a forward pass, a pass node by node as statistics are taken, and the whole of `grail gram`.

The weights are random. A pass is bench_forward's, the least of several runs; the outputs must agree. For statistics
`grail gram` runs on few and on more images, and the difference counts, per image: reading them and the sums of all sites
included. ONNX Runtime has its usual optimisations.

needs: torch, torchvision, timm, onnxscript, onnxruntime
usage: onnx_times.py BENCH_FORWARD GRAIL FOLDER [--networks NAME,...] [--batch N] [--runs N]
"""

import argparse
import os
import pathlib
import resource
import subprocess
import time

os.environ |= {"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "1"}

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
import torch  # noqa: E402
from onnx_networks import SIDE, export  # noqa: E402

USUAL = "mobilenet_v2 mobilenet_v3_large mnasnet1_0 efficientnet_b0 tf_efficientnet_lite0 convnext_tiny".split()
FEW, MORE = 4, 20  # images of `grail gram`


def make(name, path):
    if name.startswith("tf_"):
        import timm

        network = timm.create_model(name)
    else:
        import torchvision

        network = torchvision.models.get_model(name, weights=None)
    torch.manual_seed(1)
    with torch.no_grad():  # exporters merge equal tensors
        for values in (*network.parameters(), *network.buffers()):
            if values.is_floating_point():
                values.add_(torch.rand_like(values) * 1e-3)
    export(network, path)


class Grail:
    """bench_forward as a server: one pass per line, which answers with seconds by the clock and of the processor."""

    def __init__(self, program, path, pixels, outputs, batch, fused):
        self.process = subprocess.Popen(
            [program, path, pixels, outputs, "--side", str(SIDE), "--batch", str(batch), "--threads", "1", "--fused",
             str(fused)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.run()
        self.outputs = np.fromfile(outputs, dtype=np.float32)

    def run(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline().split()[1])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def statistics_seconds(grail, path, folder, count):
    (folder / "statistics").unlink(missing_ok=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([grail, "gram", path, "--calib", folder / "images.npy", "--samples", str(count), "-o",
                    folder / "statistics", "--full", "--threads", "1", "--quiet"], check=True,
                   stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(name, given):
    folder = given.folder
    path, pixels = folder / f"{name}.onnx", np.random.default_rng(1).normal(size=(given.batch, SIDE, SIDE, 3))
    make(name, path)
    pixels = pixels.astype(np.float32)
    pixels.tofile(folder / "pixels")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    images = {"pixels": np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))}
    theirs = session.run(None, images)[0]
    ours = [Grail(given.bench_forward, path, folder / "pixels", folder / "outputs", given.batch, fused)
            for fused in (1, 0)]
    least = [float("inf")] * 3
    for _ in range(given.runs):
        began = time.process_time()
        session.run(None, images)
        for i, seconds in enumerate((time.process_time() - began, *(each.run() for each in ours))):
            least[i] = min(least[i], seconds)
    for each in ours:
        each.close()
    differ = np.abs(ours[0].outputs.reshape(theirs.shape) - theirs).max() / np.abs(theirs).max()
    gram = min(statistics_seconds(given.grail, path, folder, MORE) - statistics_seconds(given.grail, path, folder, FEW)
               for _ in range(2)) / (MORE - FEW)
    runtime, forward, nodes = (1e3 * seconds / given.batch for seconds in least)
    gram *= 1e3
    print(f"| {name} | {runtime:.1f} | {forward:.1f} ({forward / runtime:.2f}) | {nodes:.1f} ({nodes / runtime:.2f}) | "
          f"{gram:.1f} ({gram / runtime:.2f}) | {differ:.1e} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench_forward", type=pathlib.Path)
    parser.add_argument("grail", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--networks", type=lambda names: names.split(","), default=USUAL)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--runs", type=int, default=7)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    images = np.random.default_rng(2).normal(size=(MORE, 3, SIDE, SIDE))
    np.save(given.folder / "images.npy", images.astype(np.float32))
    print("| network | ONNX Runtime | forward | node by node | `grail gram` | outputs differ by |\n|---|---|---|---|---|---|")
    for name in given.networks:
        measure(name, given)


if __name__ == "__main__":
    main()
