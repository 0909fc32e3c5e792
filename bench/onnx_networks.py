#!/usr/bin/env python3
"""Exports torchvision's classifiers (random weights, all of them different, since exporters merge equal tensors) to ONNX, and asks of each whether grail opens it; those that it
opens lose 20 % of their channels, and the narrow file must give in ONNX Runtime what `grail logits` gives. With
--efficientnet, trained weights of EfficientNet-Lite0 and a folder of images: the same for widths and repairs, judged
by how often the narrow network names the dense one's class. With --ppocr, PP-OCR's classifier of the direction of text
lines and a folder of images: the same, on lines of text that are drawn here, half of them upside down. With --groups,
networks with convolutions in groups: channels of each group or whole groups go, and one image is timed in ONNX Runtime.

needs: torch, torchvision, onnxscript, onnxruntime, safetensors; with --efficientnet timm; with --ppocr onnx and Pillow
usage: onnx_networks.py GRAIL FOLDER [--efficientnet WEIGHTS IMAGES [--heal]] [--only NAME,...]
       onnx_networks.py GRAIL FOLDER --ppocr CLASSIFIER TEXT
       onnx_networks.py GRAIL FOLDER --groups NAME,...
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import time

import numpy as np
import onnxruntime
import torch
from safetensors.numpy import load_file, save_file

USUAL = ("alexnet convnext_tiny densenet121 efficientnet_b0 efficientnet_v2_s googlenet inception_v3 maxvit_t mnasnet0_5 "
         "mobilenet_v2 mobilenet_v3_large mobilenet_v3_small regnet_x_400mf regnet_y_400mf resnet18 resnet50 "
         "resnext50_32x4d shufflenet_v2_x0_5 squeezenet1_1 swin_t vgg11 vgg11_bn vit_b_16 wide_resnet50_2").split()
SIDE, PREPARED = 224, ["--preset", "imagenet"]


def export(network, path):
    pixels = torch.zeros(2, 3, SIDE, SIDE)
    model = torch.onnx.export(network.eval(), (pixels,), dynamo=True, verbose=False, input_names=["pixels"],
                              output_names=["logits"], dynamic_shapes=({0: torch.export.Dim("N")},))
    model.save(path)


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr.strip().splitlines()


def difference(grail, directory, name, folder):
    """Between ONNX Runtime and grail, relative to the largest logit."""
    pixels = np.random.default_rng(1).normal(size=(2, SIDE, SIDE, 3)).astype(np.float32)
    save_file({"pixels": pixels}, folder / "pixels.safetensors")
    session = onnxruntime.InferenceSession(str(directory / name), providers=["CPUExecutionProvider"])
    theirs = session.run(None, {"pixels": np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))})[0]
    out = folder / "logits.safetensors"
    out.unlink(missing_ok=True)
    code, _, said = run(grail, "logits", directory, "--pixels", folder / "pixels.safetensors", "--output", out)
    if code != 0:
        raise RuntimeError(said[-1])
    ours = load_file(out)["logits"].reshape(theirs.shape)
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def try_network(grail, name, folder):
    import torchvision

    path, out = folder / f"{name}.onnx", folder / f"{name}-narrow"
    shutil.rmtree(out, ignore_errors=True)
    try:
        torch.manual_seed(1)
        extra = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
        network = torchvision.models.get_model(name, weights=None, **extra)
        with torch.no_grad():
            for values in (*network.parameters(), *network.buffers()):
                if values.is_floating_point():
                    values.add_(torch.rand_like(values) * 1e-3)
        export(network, path)
    except Exception as failure:  # the exporter's own
        return f"not exported: {str(failure).splitlines()[0][:120]}"
    code, sites, said = run(grail, "inspect", path)
    if code != 0:
        return "refused: " + said[-1].split(": ", 2)[-1]
    heads = ["--sites", "ffn,heads"] if "  heads  " in sites else []
    code, _, said = run(grail, "compress", path, "-o", out, *heads, "--sparsity", "0.2", "--selector", "magnitude-l1",
                        "--compensate", "none", "--quiet")
    if code != 0:
        return "not narrowed: " + said[-1]
    return f"narrowed{', heads and neurons' if heads else ''}; ONNX Runtime and grail differ by {difference(grail, out, path.name, folder):.1e}"


def try_groups(grail, name, folder, rounds=100):
    """Processor time on one thread, of all files in turn."""
    said = try_network(grail, name, folder)
    if not said.startswith("narrowed"):
        raise RuntimeError(said)
    path = folder / f"{name}.onnx"
    files = {("dense", "", "", ""): path}
    for sparsity in ("0.2", "0.5"):
        for kinds in ("conv", "conv,groups"):
            out = folder / f"{name}-{kinds}-{sparsity}"
            shutil.rmtree(out, ignore_errors=True)
            code, told, said = run(grail, "compress", path, "-o", out, "--sites", kinds, "--sparsity", sparsity,
                                   "--selector", "magnitude-l1", "--compensate", "none")
            if code != 0:
                raise RuntimeError(said[-1])
            left = [line.split("(")[-1].split()[0] for line in told.splitlines() if line.startswith(("  parameters", "  MACs"))]
            apart = difference(grail, out, path.name, folder)
            files[f"{kinds}, {float(sparsity):.0%}", *(f"{share} %" for share in left), f"{apart:.1e}"] = out / path.name
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    sessions = {row: onnxruntime.InferenceSession(str(file), options, ["CPUExecutionProvider"]) for row, file in files.items()}
    image = {"pixels": np.random.default_rng(1).normal(size=(1, 3, SIDE, SIDE)).astype(np.float32)}
    times = {row: [] for row in files}
    for _ in range(rounds):
        for row, session in sessions.items():
            began = time.process_time()
            session.run(None, image)
            times[row].append(1e3 * (time.process_time() - began))
    for row, own in times.items():
        low, middle, high = np.quantile(own, (0.25, 0.5, 0.75))
        print(f"| {name}, {' | '.join(row)} | {middle:.1f} ({low:.1f} to {high:.1f}) |", flush=True)


def try_efficientnet(grail, weights, images, folder, healed):
    import timm

    network = timm.create_model("tf_efficientnet_lite0")
    trained = torch.load(weights, map_location="cpu", weights_only=True)
    network.load_state_dict(dict(zip(network.state_dict(), trained.values(), strict=True)))
    path = folder / "efficientnet_lite0.onnx"
    export(network, path)
    for part in ("calibration", "held-out"):
        shutil.rmtree(folder / part, ignore_errors=True)
        (folder / part).mkdir()
    for i, image in enumerate(sorted(pathlib.Path(images).glob("*.JPEG"))):
        shutil.copy(image, folder / ("calibration" if i % 8 < 5 else "held-out"))
    prepared = [*PREPARED, "--mean", "0.5,0.5,0.5", "--std", "0.5,0.5,0.5"]
    print("| widths | repair | relative error of logits | KL | same class |\n|---|---|---|---|---|")
    for sparsity in ("0.1", "0.2", "0.3", "0.5"):
        for repair in (["none", "--selector", "wanda"], ["grail", "--selector", "wanda"], ["full"],
                       ["full", "--heal", "model", "--heal-time", "120"])[: 4 if healed else 3]:
            out = folder / "narrow"
            shutil.rmtree(out, ignore_errors=True)
            code, _, said = run(grail, "compress", path, "-o", out, "--calib", folder / "calibration", "--sites", "conv",
                                "--sparsity", sparsity, "--compensate", *repair, "--quiet", *prepared)
            if code != 0:
                raise RuntimeError(said[-1])
            _, answer, _ = run(grail, "verify", path, out, "--data", folder / "held-out", "--json", *prepared)
            a = json.loads(answer)
            print(f"| -{float(sparsity):.0%} | {' '.join(repair)} | {a['relative_error']:.3f} | {a['mean_kl']:.3f} | "
                  f"{a['top1_agreement']:.1%} of {a['images']} |", flush=True)


def draw_lines(text, folder, count, seed):
    """PNG files of 192 x 48 in the folders 0 and 180, by Pillow's own font: one line of words each."""
    from PIL import Image, ImageDraw, ImageFilter, ImageFont

    random = np.random.default_rng(seed)
    words = [word for word in text.split() if word.isalpha()]
    shutil.rmtree(folder, ignore_errors=True)
    for i in range(count):
        first = int(random.integers(len(words) - 4))
        line = " ".join(words[first:first + int(random.integers(2, 5))])
        paper, ink = random.integers(150, 256, 3), random.integers(0, 100, 3)
        picture = Image.new("RGB", (192, 48), tuple(int(c) for c in paper))
        font = ImageFont.load_default(size=int(random.integers(18, 34)))
        place = int(random.integers(0, 12)), int(random.integers(2, 14))
        ImageDraw.Draw(picture).text(place, line, font=font, fill=tuple(int(c) for c in ink))
        picture = picture.filter(ImageFilter.GaussianBlur(float(random.uniform(0, 1.2))))
        noise = random.normal(scale=random.uniform(0, 15), size=(48, 192, 3))
        picture = Image.fromarray(np.clip(np.asarray(picture) + noise, 0, 255).astype(np.uint8))
        where = folder / ("180" if i % 2 else "0")
        where.mkdir(parents=True, exist_ok=True)
        (picture.rotate(180) if i % 2 else picture).save(where / f"{i:04}.png")


def try_ppocr(grail, classifier, text, folder):
    import onnx

    model = onnx.load(classifier)
    for size, value in zip(model.graph.input[0].type.tensor_type.shape.dim[2:], (48, 192), strict=True):
        size.dim_value = value  # which PP-OCR gives it, and the file leaves open
    path, out = folder / "classifier.onnx", folder / "narrow"
    onnx.save(model, path)
    words = pathlib.Path(text).read_text(encoding="utf-8")
    half = len(words) // 2
    draw_lines(words[:half], folder / "calibration", 400, 1)
    draw_lines(words[half:], folder / "held-out", 1000, 2)
    prepared = [*PREPARED, "--mean", "0.5,0.5,0.5", "--std", "0.5,0.5,0.5"]
    measure = ["--data", folder / "held-out", "--json", *prepared]
    _, answer, _ = run(grail, "eval", path, *measure)
    print("| widths | repair | parameters | KL | same class | right class |\n|---|---|---|---|---|---|")
    print(f"| dense | | | | | {json.loads(answer)['top1']:.1%} |", flush=True)
    for sparsity in ("0.1", "0.2", "0.3"):
        for repair in (["none", "--selector", "wanda"], ["grail", "--selector", "wanda"], ["full"]):
            shutil.rmtree(out, ignore_errors=True)
            code, _, said = run(grail, "compress", path, "-o", out, "--calib", folder / "calibration", "--samples", "400",
                                "--sparsity", sparsity, "--compensate", *repair, "--quiet", *prepared)
            if code != 0:
                raise RuntimeError(said[-1])
            _, answer, _ = run(grail, "verify", path, out, *measure)
            a = json.loads(answer)
            _, answer, _ = run(grail, "eval", out, *measure)
            left = json.loads((out / "report.json").read_text())
            print(f"| -{float(sparsity):.0%} | {' '.join(repair)} | {left['narrow']['parameters']} | {a['mean_kl']:.3f} | "
                  f"{a['top1_agreement']:.1%} of {a['images']} | {json.loads(answer)['top1']:.1%} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("grail", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--efficientnet", nargs=2, metavar=("WEIGHTS", "IMAGES"))
    parser.add_argument("--ppocr", nargs=2, metavar=("CLASSIFIER", "TEXT"))
    parser.add_argument("--groups", type=lambda names: names.split(","), metavar="NAME,...")
    parser.add_argument("--heal", action="store_true", help="also with two minutes of healing each")
    parser.add_argument("--only", type=lambda names: names.split(","), default=USUAL)
    given = parser.parse_args()
    grail = given.grail.resolve()
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.efficientnet:
        try_efficientnet(grail, *given.efficientnet, given.folder, given.heal)
        return
    if given.ppocr:
        try_ppocr(grail, *given.ppocr, given.folder)
        return
    if given.groups:
        print("| network | parameters left | multiply-accumulates left | grail and ONNX Runtime differ by | ms |\n"
              "|---|---|---|---|---|")
        for name in given.groups:
            try_groups(grail, name, given.folder)
        return
    print("| network | |\n|---|---|")
    for name in given.only:
        print(f"| {name} | {try_network(grail, name, given.folder)} |", flush=True)


if __name__ == "__main__":
    main()
