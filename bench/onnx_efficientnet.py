#!/usr/bin/env python3
"""Narrows the expansions of a trained EfficientNet-Lite0 (timm's tf_efficientnet_lite0, exported to ONNX) in several
ways, beside Torch-Pruning and onnxsim at the same widths, all without labels, and asks how far the results are from the
dense network.

One of two images calibrates, as several random crops (a fifth to all of the image, half mirrored), and one judges, as
the usual centre and four crops of half its area. *Same class* is how often the narrow network names the class that the
dense one names, *error* |narrow - dense| / |dense| of all logits, both computed by ONNX Runtime; *ms* the least
processor time of one image in it, on one thread, dense and narrow in turn; *made in* processor seconds, of grail all
of its process. Torch-Pruning cuts the live module by the sums of squares of all that is coupled
(GroupMagnitudeImportance); onnxsim cuts residual streams, too, so its ridge (apply_pruning_finetune) is given grail's own
file, cut by magnitude and not repaired.

needs: torch, timm, onnx, onnxscript, onnxruntime, Pillow; torch-pruning and onnxsim for their rows
usage: onnx_efficientnet.py GRAIL WEIGHTS IMAGES FOLDER [--ratios R,...] [--ways NAME,...] [--views N]
       [--heal "OPTION VALUE ..."]
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import subprocess
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
import timm  # noqa: E402
import torch  # noqa: E402
from onnx import numpy_helper  # noqa: E402
from onnx_networks import SIDE, export  # noqa: E402
from PIL import Image  # noqa: E402
from timm.models import adapt_model_from_string  # noqa: E402

NAME = "tf_efficientnet_lite0"
CUTS = {  # of grail
    "magnitude-l2, none": ["--selector", "magnitude-l2", "--compensate", "none"],
    "wanda, none": ["--selector", "wanda", "--compensate", "none"],
    "wanda, grail": ["--selector", "wanda", "--compensate", "grail"],
    "obs, full": ["--selector", "obs", "--compensate", "full"],
    "obs, full, + heal": ["--selector", "obs", "--compensate", "full", "--heal", "model"],
    "obs, full, + heal blocks": ["--selector", "obs", "--compensate", "full", "--heal", "block,model"],
}
PEERS = ["Torch-Pruning", "onnxsim's ridge"]


def prepared(image):
    return np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BICUBIC), dtype=np.float32).transpose(2, 0, 1) / 127.5 - 1


def random_views(image, count, random):
    for _ in range(count):
        side = int(min(image.size) * random.uniform(0.2, 1.0) ** 0.5)
        left, top = (int(random.integers(long - side + 1)) for long in image.size)
        view = image.crop((left, top, left + side, top + side))
        yield prepared(view.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.random() < 0.5 else view)


def judged_views(image):
    """The usual centre (0.875 of the shorter edge), and the four corners of a centre square, sqrt(1/2) as long."""
    short = min(image.size)
    for share, places in ((0.875, [(0.5, 0.5)]), (0.5 ** 0.5, [(x, y) for x in (0, 1) for y in (0, 1)])):
        side = int(short * share)
        for x, y in places:
            rest = [(long - short) / 2 + (short - side) * at for long, at in zip(image.size, (x, y), strict=True)]
            left, top = (int(r) for r in rest)
            yield prepared(image.crop((left, top, left + side, top + side)))


def dense_network(weights):
    network = timm.create_model(NAME)
    trained = torch.load(weights, map_location="cpu", weights_only=True)
    network.load_state_dict(dict(zip(network.state_dict(), trained.values(), strict=True)))
    return network.eval()


def open_session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def logits(session, pixels):
    return np.concatenate([session.run(None, {"pixels": pixels[i:i + 8]})[0] for i in range(0, len(pixels), 8)])


def least_times(sessions, image, runs=15):
    least = [float("inf")] * len(sessions)
    for _ in range(runs):
        for i, session in enumerate(sessions):
            began = time.process_time()
            session.run(None, {"pixels": image})
            least[i] = min(least[i], time.process_time() - began)
    return [1e3 * seconds for seconds in least]


def by_grail(given, path, ratio, arguments):
    """The narrow file, and the processor seconds of the process."""
    out = given.folder / "narrow"
    shutil.rmtree(out, ignore_errors=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [given.grail.resolve(), "compress", path, "-o", out, "--calib", given.folder / "calibration.npy", "--samples",
         str(given.samples), "--sites", "conv", "--sparsity", ratio, "--threads", "1", "--quiet", *arguments],
        capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.splitlines()[-1])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return out / path.name, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def kept_steps(folder):
    """What of each training was kept: 0 is what was there before it."""
    healed = json.loads((folder / "report.json").read_text()).get("healed", [])
    blocks = [h["best_step"] for h in healed if h["block"] is not None]
    network = [f"step {h['best_step']} of {h['steps']}, loss {h['held_loss_before']:.2f} to {h['held_loss_after']:.2f}"
               for h in healed if h["block"] is None]
    return "".join(f" ({said})" for said in ([f"{sum(b > 0 for b in blocks)} of {len(blocks)} blocks"] if blocks else []) + network)


def widths_of(path):
    """What each convolution makes, in order."""
    model = onnx.load(path)
    shapes = {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}
    return [shapes[node.input[1]][0] for node in model.graph.node if node.op_type == "Conv"]


def opened_in_timm(path):
    """The network of a narrow file as timm makes it, in which a batch norm adds the bias that the export made of it."""
    model = onnx.load(path)
    stored = {tensor.name: torch.from_numpy(numpy_helper.to_array(tensor).copy()) for tensor in model.graph.initializer}
    layers = [[stored[name] for name in node.input[1:3]] for node in model.graph.node if node.op_type in ("Conv", "Gemm")]
    network = timm.create_model(NAME)
    kinds = (torch.nn.Conv2d, torch.nn.Linear), (torch.nn.BatchNorm2d,)
    convolutions, norms = ([name for name, module in network.named_modules() if isinstance(module, k)] for k in kinds)
    shapes = {f"{name}.weight": list(weight.shape) for name, (weight, _) in zip(convolutions, layers, strict=True)}
    shapes |= {f"{name}.weight": list(bias.shape) for name, (_, bias) in zip(norms, layers)}
    narrow = adapt_model_from_string(network, "***".join(f"{name}:{shape}" for name, shape in shapes.items()))
    state = narrow.state_dict()
    for name, (weight, _) in zip(convolutions, layers):
        state[f"{name}.weight"] = weight
    for name, (_, bias) in zip(norms, layers):
        ones = torch.ones_like(bias)
        state |= {f"{name}.weight": ones, f"{name}.bias": bias, f"{name}.running_mean": 0 * ones,
                  f"{name}.running_var": ones - narrow.get_submodule(name).eps}
    state[f"{convolutions[-1]}.bias"] = layers[-1][1]
    narrow.load_state_dict(state)
    return narrow.eval()


def by_torch_pruning(given, weights, widths):
    import torch_pruning

    network = dense_network(weights)
    importance = torch_pruning.importance.GroupMagnitudeImportance(p=2)
    began = time.process_time()
    graph = torch_pruning.DependencyGraph().build_dependency(network, example_inputs=torch.zeros(1, 3, SIDE, SIDE))
    convolutions = [module for module in network.modules() if isinstance(module, torch.nn.Conv2d)]
    for convolution, width in zip(convolutions, widths, strict=True):
        drop = convolution.out_channels - width  # 0 of those that a former group has cut
        if convolution.groups == 1 and drop > 0:
            whole = graph.get_pruning_group(convolution, torch_pruning.prune_conv_out_channels,
                                            idxs=list(range(convolution.out_channels)))
            least = importance(whole).argsort()[:drop].tolist()
            graph.get_pruning_group(convolution, torch_pruning.prune_conv_out_channels, idxs=least).prune()
    seconds = time.process_time() - began
    path = given.folder / "torch_pruning.onnx"
    export(network, path)
    if widths_of(path) != widths:
        raise RuntimeError("Torch-Pruning made other widths")
    return path, seconds


def by_onnxsim(given, dense, cut, pixels):
    import onnxsim

    began = time.process_time()
    batches = [{"pixels": pixels[i:i + 8]} for i in range(0, given.samples, 8)]
    model = onnxsim.apply_pruning_finetune(str(dense), str(cut), calibration_data=batches)
    path = given.folder / "onnxsim.onnx"
    onnx.save(model, path)
    return path, time.process_time() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("grail", type=pathlib.Path)
    parser.add_argument("weights")
    parser.add_argument("images", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--ratios", type=lambda text: text.split(","), default=["0.2", "0.3", "0.5"])
    parser.add_argument("--ways", type=lambda text: text.split(";"), default=[*CUTS, *PEERS])
    parser.add_argument("--views", type=int, default=6, help="random crops of each image that calibrates")
    parser.add_argument("--heal", type=str.split, default=[], help="options of grail compress for ways that heal")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    images = [Image.open(path).convert("RGB") for path in sorted(given.images.glob("*.JPEG"))]
    random = np.random.default_rng(1)
    calibration = np.stack([view for image in images[::2] for view in random_views(image, given.views, random)])
    judged = np.stack([view for image in images[1::2] for view in judged_views(image)])
    given.samples = len(calibration)
    np.save(given.folder / "calibration.npy", calibration)
    path = given.folder / f"{NAME}.onnx"
    export(dense_network(given.weights), path)
    dense_session = open_session(path)
    dense = logits(dense_session, judged)
    print(f"{len(calibration)} views of {len(images[::2])} images calibrate, {len(judged)} of {len(images[1::2])} judge\n")
    print("| expansions | way | parameters | same class | error | ms (dense) | made in |\n|---|---|---|---|---|---|---|")
    apart = []
    for ratio in given.ratios:
        cut = by_grail(given, path, ratio, CUTS["magnitude-l2, none"])[0].rename(given.folder / "cut.onnx")
        for way in given.ways:
            if way == "Torch-Pruning":
                narrow, seconds = by_torch_pruning(given, given.weights, widths_of(cut))
            elif way == "onnxsim's ridge":
                narrow, seconds = by_onnxsim(given, path, cut, calibration)
            else:
                narrow, seconds = by_grail(given, path, ratio, CUTS[way] + (given.heal if "heal" in way else []))
            session = open_session(narrow)
            found = logits(session, judged)
            if way in CUTS:
                in_timm = opened_in_timm(narrow)(torch.from_numpy(judged[:4])).detach().numpy()
                apart.append(np.abs(in_timm - found[:4]).max() / np.abs(found[:4]).max())
            same = (found.argmax(-1) == dense.argmax(-1)).mean()
            error = np.linalg.norm(found - dense) / np.linalg.norm(dense)
            usual, now = least_times([dense_session, session], judged[:1])
            count = sum(int(np.prod(tensor.dims)) for tensor in onnx.load(narrow).graph.initializer)
            way += kept_steps(narrow.parent) if way in CUTS else ""
            print(f"| -{float(ratio):.0%} | {way} | {count / 1e6:.2f} M | {same:.1%} | {error:.3f} | {now:.1f} ({usual:.1f}) | "
                  f"{seconds:.0f} s |", flush=True)
    if apart:
        print(f"\n{len(apart)} files of grail open in timm (adapt_model_from_string); its outputs and ONNX Runtime's differ by at "
              f"most {max(apart):.1e} of the largest logit.")


if __name__ == "__main__":
    main()
