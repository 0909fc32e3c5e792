#!/usr/bin/env python3
"""Compares outputs of vision networks with the logits that grail wrote.

usage: check_vision.py onnx FILE.onnx PIXELS LOGITS
       check_vision.py lines|torchvision-call|timm-call|timm|timm-directory|torchvision|vit-pytorch|open-clip|hf DIRECTORY PIXELS
                       LOGITS

PIXELS holds "pixels" F32 [n, height, width, 3], LOGITS "logits" F32 [n, outputs] (safetensors). The
second form builds the stock class with the arguments that DIRECTORY/report.json names and loads
the directory's weights strictly; timm-directory opens the directory itself. Exits with 1 when an output differs by more than 1e-4.
"""

import json
import pathlib
import re
import sys

import numpy
import safetensors.numpy

TOLERANCE = 1e-4
OUTPUTS = {}


def kind(function):
    OUTPUTS[function.__name__.replace("_", "-")] = function
    return function


@kind
def onnx(path, pixels):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    whole = session.run(["logits"], {"pixels": pixels})[0]
    first = session.run(["logits"], {"pixels": pixels[:1]})[0]  # the batch may have any size
    assert numpy.abs(whole[:1] - first).max() < TOLERANCE
    return whole


def weights(directory):
    import torch

    file, = directory.glob("*.safetensors")
    state = safetensors.numpy.load_file(str(file))
    return {name: torch.from_numpy(value) for name, value in state.items()}


def reason(directory):
    """What report.json says of the class, which must load."""
    verdict = json.loads((directory / "report.json").read_text())["loaders"][0]
    assert verdict["loads"], verdict
    return verdict["reason"]


def number(text, name):
    return float(re.search(rf"\b{name}\"?[=:]\s*([0-9.]+)", text).group(1))


def run(model, state, pixels):
    import torch

    model.load_state_dict(state)
    with torch.no_grad():
        return model.eval()(torch.from_numpy(pixels)).numpy()


@kind
def timm(directory, pixels):
    import timm.models

    state = weights(directory)
    width = state["norm.weight"].shape[0]
    model = timm.models.VisionTransformer(
        img_size=pixels.shape[2], patch_size=state["patch_embed.proj.weight"].shape[2],
        num_classes=state["head.weight"].shape[0], embed_dim=width,
        depth=sum(name.endswith("mlp.fc1.weight") for name in state), num_heads=width // 16,
        mlp_ratio=number(reason(directory), "mlp_ratio"))
    return run(model, state, pixels)


@kind
def timm_directory(directory, pixels):
    import timm
    import torch

    if (directory / "report.json").exists():
        assert "local-dir:" in reason(directory)
    model = timm.create_model(f"local-dir:{directory}", pretrained=True).eval()
    with torch.no_grad():
        return model(torch.from_numpy(pixels)).numpy()


@kind
def torchvision(directory, pixels):
    import torchvision.models

    state = weights(directory)
    width = state["encoder.ln.weight"].shape[0]
    model = torchvision.models.VisionTransformer(
        image_size=pixels.shape[2], patch_size=state["conv_proj.weight"].shape[2],
        num_layers=sum(name.endswith("ln_1.weight") for name in state), num_heads=width // 16,
        hidden_dim=width, mlp_dim=int(number(reason(directory), "mlp_dim")),
        num_classes=state["heads.head.weight"].shape[0])
    return run(model, state, pixels)


def called(library, directory, pixels):
    """The network that the call in report.json builds."""
    call = re.search(rf"\b{library.__name__}\.\S+\([^()]*\)", reason(directory)).group()
    return run(eval(call, {library.__name__: library}), weights(directory), pixels)


@kind
def lines(directory, pixels):
    """The lines that the card prints, run as they are but for DIR."""
    import torch

    text = (directory / "README.md").read_text().split("where DIR is this directory:\n\n")[1].split("\n\n")[0]
    names = {}
    exec("\n".join(line[4:] for line in text.split("\n")).replace("DIR", str(directory)), names)
    model = names["model"].eval()
    with torch.no_grad():
        y = getattr(model, "visual", model)(torch.from_numpy(pixels))
    return getattr(y, "logits", y).numpy()


@kind
def torchvision_call(directory, pixels):
    import torchvision

    return called(torchvision, directory, pixels)


@kind
def timm_call(directory, pixels):
    import timm

    return called(timm, directory, pixels)


@kind
def vit_pytorch(directory, pixels):
    from vit_pytorch.simple_vit import SimpleViT

    state = weights(directory)
    text = reason(directory)
    classes, width = state["linear_head.1.weight"].shape
    model = SimpleViT(
        image_size=pixels.shape[2], patch_size=8, num_classes=classes, dim=width,
        depth=sum(name.endswith("to_qkv.weight") for name in state),
        heads=int(number(text, "heads")), mlp_dim=int(number(text, "mlp_dim")),
        dim_head=int(number(text, "dim_head")))
    return run(model, state, pixels)


@kind
def open_clip(directory, pixels):
    import open_clip as library

    state = weights(directory)
    width = state["visual.ln_post.weight"].shape[0]
    vision = {"image_size": pixels.shape[2], "patch_size": 8, "width": width, "head_width": 16,
              "layers": sum(bool(re.match(r"visual\..*ln_1.weight", name)) for name in state),
              "mlp_ratio": number(reason(directory), "mlp_ratio")}
    text = {"context_length": 6, "vocab_size": 20, "width": 16, "heads": 1, "layers": 1}
    model = library.CLIP(state["visual.proj"].shape[1], vision, text)
    model.load_state_dict(state)
    return run(model.visual, model.visual.state_dict(), pixels)


@kind
def hf(directory, pixels):
    import torch
    import transformers

    reason(directory)
    family = json.loads((directory / "config.json").read_text())["model_type"]
    name = {"vit": "ViTForImageClassification", "resnet": "ResNetForImageClassification", "clip": "CLIPModel",
            "clip_vision_model": "CLIPVisionModelWithProjection"}[family]
    model, info = getattr(transformers, name).from_pretrained(directory, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    with torch.no_grad():
        x = torch.from_numpy(pixels)
        if family in ("vit", "resnet"):
            y = model.eval()(x).logits
        elif family == "clip":
            y = model.eval().get_image_features(pixel_values=x)
            y = getattr(y, "pooler_output", y)  # of transformers 5
        else:
            y = model.eval()(pixel_values=x).image_embeds
    return y.numpy()


def main():
    if len(sys.argv) != 5 or sys.argv[1] not in OUTPUTS:
        sys.exit(__doc__)
    chosen, path, pixels, logits = sys.argv[1:]
    x = safetensors.numpy.load_file(pixels)["pixels"].transpose(0, 3, 1, 2).copy()
    expected = safetensors.numpy.load_file(logits)["logits"]
    found = OUTPUTS[chosen](pathlib.Path(path), x)
    worst = float(numpy.abs(found - expected).max()) if found.shape == expected.shape else 1e9
    ok = worst <= TOLERANCE
    print(f"{'ok' if ok else 'FAIL'} {chosen} {path}: {worst:.2g}")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
