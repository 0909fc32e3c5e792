#!/usr/bin/env python3
"""Narrows PP-OCR's recogniser of text lines (an ONNX file) and asks how often the narrow one reads the same string.

The lines are drawn here: words of a text in faces of DejaVu (Debian's fonts-dejavu), on paper and in ink of random
colours, with blur and noise; the first half of the text calibrates, the second half judges. ONNX Runtime computes, and
the most probable character of each position is taken, repeated ones and blanks left out (CTC, greedy), from the list
of characters in the file's metadata; spaces at the ends do not count. *Same string* and *same characters* (1 - edit distance / length) are against the
dense network, *right string* and *right characters* against what was drawn.

needs: onnx, onnxruntime, numpy, Pillow
usage: onnx_ocr.py GRAIL RECOGNISER TEXT FOLDER [--lines N] [--calibration N] [--ratios R,...]
       [--cuts SELECTOR:REPAIR[+HEAL],...] [--heal-steps N] [--heal-batch N] [--threads N]
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import time

import numpy as np
import onnx
import onnxruntime
from PIL import Image, ImageDraw, ImageFilter, ImageFont

HEIGHT, WIDTH = 48, 320  # PP-OCR's usual line; the file leaves both open
PADDING = (128, 128, 128)  # to the right of a line: nearly 0 when prepared, as PP-OCR pads
PREPARED = ["--preset", "imagenet", "--mean", "0.5,0.5,0.5", "--std", "0.5,0.5,0.5"]
FONTS = pathlib.Path("/usr/share/fonts/truetype/dejavu")
FACES = ("DejaVuSans DejaVuSans-Bold DejaVuSans-Oblique DejaVuSansCondensed DejaVuSansMono DejaVuSansMono-Bold "
         "DejaVuSerif DejaVuSerif-Bold DejaVuSerif-Italic DejaVuSerifCondensed").split()


def draw_line(words, random):
    """A picture of HEIGHT x WIDTH and the string on it."""
    paper, ink = (tuple(int(c) for c in random.integers(*range_, 3)) for range_ in ((150, 256), (0, 100)))
    face = FONTS / f"{FACES[random.integers(len(FACES))]}.ttf"
    font = ImageFont.truetype(str(face), int(random.integers(22, 33)))
    first, count = int(random.integers(len(words) - 4)), int(random.integers(1, 5))
    line = " ".join(words[first:first + count])
    while font.getlength(line) > WIDTH - 24 and " " in line:
        line = line.rpartition(" ")[0]
    while font.getlength(line) > WIDTH - 24:
        line = line[:-1]
    long = min(WIDTH, int(font.getlength(line)) + 24)
    picture = Image.new("RGB", (long, HEIGHT), paper)
    place = int(random.integers(4, 14)), HEIGHT // 2 + int(random.integers(-3, 4))
    ImageDraw.Draw(picture).text(place, line, font=font, fill=ink, anchor="lm")
    picture = picture.filter(ImageFilter.GaussianBlur(float(random.uniform(0, 1.0))))
    noise = random.normal(scale=random.uniform(0, 12), size=(HEIGHT, long, 3))
    whole = Image.new("RGB", (WIDTH, HEIGHT), PADDING)
    whole.paste(Image.fromarray(np.clip(np.asarray(picture) + noise, 0, 255).astype(np.uint8)))
    return whole, line


def draw_lines(text, count, seed):
    random = np.random.default_rng(seed)
    words = [word for word in text.split() if word.isascii() and word.isalnum()]
    return [draw_line(words, random) for _ in range(count)]


def read(path, pictures, characters):
    """The string that ONNX Runtime and the file make of each picture, and the processor seconds that it took."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name, found, began = session.get_inputs()[0].name, [], time.process_time()
    for picture in pictures:
        pixels = np.asarray(picture, dtype=np.float32).transpose(2, 0, 1)[None] / 127.5 - 1
        best = session.run(None, {name: pixels})[0][0].argmax(-1)
        kept = best[np.insert(best[1:] != best[:-1], 0, True) & (best != 0)]
        found.append("".join(characters[i - 1] for i in kept).strip())
    return found, time.process_time() - began


def distance(one, other):
    """How many characters are to be changed, put in or left out between two strings."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


def shares(found, expected):
    same = sum(a == b for a, b in zip(found, expected, strict=True)) / len(found)
    wrong = sum(map(distance, found, expected)) / sum(map(len, expected))
    return f"{same:.1%} | {max(0.0, 1 - wrong):.1%}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("grail", type=pathlib.Path)
    parser.add_argument("recogniser")
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--lines", type=int, default=400)
    parser.add_argument("--calibration", type=int, default=128)
    parser.add_argument("--ratios", type=lambda text: text.split(","), default=["0.2", "0.3"])
    parser.add_argument("--cuts", type=lambda text: text.split(","),
                        default=["wanda:none", "wanda:grail", "obs:grail", "obs:full"])
    parser.add_argument("--sites", help="as of grail compress")
    for name, usual in (("heal-steps", 160), ("heal-batch", 16), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    given = parser.parse_args()
    folder = given.folder
    shutil.rmtree(folder / "calibration", ignore_errors=True)
    (folder / "calibration").mkdir(parents=True)
    model = onnx.load(given.recogniser)
    for size, value in zip(model.graph.input[0].type.tensor_type.shape.dim[2:], (HEIGHT, WIDTH), strict=True):
        size.dim_value = value
    path, out = folder / "recogniser.onnx", folder / "narrow"
    onnx.save(model, path)
    characters = next(p.value for p in model.metadata_props if p.key == "character").split("\n") + [" "]
    words = given.text.read_text(encoding="utf-8")
    half = len(words) // 2
    for i, (picture, _) in enumerate(draw_lines(words[:half], given.calibration, 1)):
        picture.save(folder / "calibration" / f"{i:04}.png")
    pictures, drawn = zip(*draw_lines(words[half:], given.lines, 2), strict=True)
    dense, took = read(path, pictures, characters)
    print("| channels | repair | parameters | same string | same characters | right string | right characters | ms a line |")
    print("|---|---|---|---|---|---|---|---|")
    print(f"| dense | | | | | {shares(dense, drawn)} | {1e3 * took / given.lines:.1f} |", flush=True)
    options = ["--threads", str(given.threads), *(["--sites", given.sites] if given.sites else [])]
    healing = ["--heal-steps", str(given.heal_steps), "--heal-batch", str(given.heal_batch)]
    for ratio in given.ratios:
        for selector, repair in (cut.split(":") for cut in given.cuts):
            shutil.rmtree(out, ignore_errors=True)
            fit, _, heal = repair.partition("+")  # "block" or "model"
            done = subprocess.run(
                [given.grail.resolve(), "compress", path, "-o", out, "--calib", folder / "calibration", "--samples",
                 str(given.calibration), "--sparsity", ratio, "--selector", selector, "--compensate", fit, "--quiet",
                 *options, *(["--heal", heal, *healing] if heal else []), *PREPARED], capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError(done.stderr.splitlines()[-1])
            report = json.loads((out / "report.json").read_text())
            found, took = read(out / path.name, pictures, characters)
            print(f"| -{float(ratio):.0%} | {selector}, {repair} | {report['narrow']['parameters'] / 1e6:.2f} M | "
                  f"{shares(found, dense)} | {shares(found, drawn)} | {1e3 * took / given.lines:.1f} |", flush=True)


if __name__ == "__main__":
    main()
