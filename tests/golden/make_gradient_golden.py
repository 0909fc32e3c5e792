#!/usr/bin/env python3
"""Gradients of the golden networks with respect to their parameters, for test_gradients.c.

Writes gradients/<network>.txt beside this script, a line for each tensor of the checkpoint:
name, Frobenius norm of its gradient G, and sum over i of G[i] * cos(0.7 i + 0.3), where i is the
row-major index in the tensor as it is stored. The gradients are those of

    loss = sum over r, c of out[r, c] * cos(0.9 (r * outputs + c) + 0.1)

where out[rows, outputs] are the logits of all positions of all sequences, or the outputs of all
images, of the network's golden input. Weights are those stored, computation is in f64; each network
must first give its golden outputs. Batch norm uses its running statistics, which have no gradient,
nor have token embeddings unless the head is tied to them: then theirs is that of both.

usage: make_gradient_golden.py [NETWORK ...]

Without names it makes all. Needs torch and torchvision. The networks are those of make_logits_golden.py,
make_vision_golden_resnet.py and make_vision_golden_vit.py.
"""

import json
import os
import pathlib
import struct
import sys

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch
from torch.nn import functional

import plain_resnet
import plain_tower
from plain_decoder import plain_logits
from plain_tower import Tower

HERE = pathlib.Path(__file__).resolve().parent
AGREEMENT = 1e-5
ROUNDING = 1e-13  # the bias of keys has no gradient: softmax ignores what all scores share
CHOICE = ".e_score_correction_bias"  # what is chosen by has the gradient 0
DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64}


# ---- files

def read_safetensors(path):
    data = bytearray(path.read_bytes())
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = torch.frombuffer(data[start + begin:start + end], dtype=DTYPES[entry["dtype"]])
        found[name] = values.reshape(entry["shape"])
    return found


def read_checkpoint(folder):
    if (folder / "model.pth").exists():
        return dict(torch.load(folder / "model.pth", map_location="cpu"))
    found = {}
    for path in sorted(folder.glob("model*.safetensors")):
        found |= read_safetensors(path)
    return found


def write(name, gradients):
    """Twelve digits, and 0 for what is only rounding error: then every machine writes the same."""
    largest = max(norm for _, norm, _ in gradients)
    lines = [f"{tensor} {norm:.12g} {projection:.12g}\n" if norm > ROUNDING * largest
             else f"{tensor} 0 0\n" for tensor, norm, projection in gradients]
    path = HERE / "gradients" / f"{name}.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(lines))


# ---- gradients

def waves(count, rate, start):
    return torch.cos(rate * torch.arange(count, dtype=torch.float64) + start)


def leaves(tensors):
    """f64 tensors that take gradients."""
    return {name: value.double().requires_grad_() for name, value in tensors.items()
            if value.is_floating_point()}


def differentiate(name, weights, out, expected):
    """Writes the gradients of the tensors that `out` [rows, outputs] depends on."""
    difference = (out.detach() - expected.double()).abs().max().item()
    if out.shape != expected.shape or not difference < AGREEMENT:
        sys.exit(f"{name}: differs by {difference} from its golden outputs")
    loss = (out * waves(out.numel(), 0.9, 0.1).view(out.shape)).sum()
    tensors = sorted(weights)
    found = torch.autograd.grad(loss, [weights[tensor] for tensor in tensors], allow_unused=True)
    found = [torch.zeros(1, dtype=torch.float64) if tensor.endswith(CHOICE) else g
             for tensor, g in zip(tensors, found)]
    gradients = [(tensor, g.norm().item(), (g.flatten() @ waves(g.numel(), 0.7, 0.3)).item())
                 for tensor, g in zip(tensors, found) if g is not None]
    write(name, gradients)
    print(f"{name:24} outputs within {difference:.1e}, {len(gradients)} tensors of {len(tensors)}, "
          f"norms {min(g[1] for g in gradients):.1e} to {max(g[1] for g in gradients):.1e}")


# ---- decoders

def do_decoder(folder):
    golden = read_safetensors(folder / "golden.safetensors")
    settings = json.loads((folder / "config.json").read_text())
    weights = leaves(read_checkpoint(folder))
    out = torch.cat([plain_logits(ids, weights, settings) for ids in golden["ids"]])
    differentiate(folder.name, weights, out, golden["logits"].flatten(0, 1))


# ---- vision transformers

TOWERS = {  # name: (names, head_dim, epsilon, activation); as test_vision_vit.c has them
    "timm-vit": (plain_tower.TIMM, 16, 1e-6, functional.gelu),
    "timm-vit-hub": (plain_tower.TIMM, 64, 1e-6, functional.gelu),
    "torchvision-vit": (plain_tower.TORCHVISION, 16, 1e-6, functional.gelu),
    "hf-vit": (plain_tower.HF_VIT, 16, 0.01, functional.gelu),
    "simple-vit": (plain_tower.SIMPLE_VIT, 64, 1e-5, functional.gelu),
    "simple-vit-pth": (plain_tower.SIMPLE_VIT, 64, 1e-5, functional.gelu),
    "open-clip": (plain_tower.OPEN_CLIP, 16, 1e-5, functional.gelu),
    "open-clip-quickgelu": (plain_tower.OPEN_CLIP, 16, 1e-5, plain_tower.quick_gelu),
    "model-soup": (plain_tower.soup(plain_tower.OPEN_CLIP), 16, 1e-5, plain_tower.quick_gelu),
    "hf-clip": (plain_tower.HF_CLIP, 16, 0.01, plain_tower.quick_gelu),
    "hf-clip-vision": (plain_tower.HF_CLIP, 16, 0.01, functional.gelu),
}


def do_tower(name, settings):
    folder = HERE / "vision" / name
    golden = read_safetensors(folder / "golden.safetensors")
    weights = leaves(read_checkpoint(folder))
    pixels = golden["pixels"].permute(0, 3, 1, 2).double()
    out = Tower(weights, *settings).forward(pixels)
    differentiate(name, weights, out, golden["logits"])


# ---- residual networks

RESNETS = {  # name: (network, images, side); as make_vision_golden_resnet.py has them
    "narrowed_resnet50": (plain_resnet.narrowed_resnet50, 3, 71),
    "akamaster_resnet14": (lambda: plain_resnet.akamaster(2), 3, 32),
    "pre_activation_resnet18": (lambda: plain_resnet.pre_activation(16), 3, 32),
}


def do_resnet(name, network, images, side):
    golden = read_safetensors(HERE / "vision" / "resnet.safetensors")
    model = plain_resnet.fill(network()).double().eval()
    out = model(plain_resnet.pixels(images, side).double())
    differentiate(name, dict(model.named_parameters()), out, golden[name])


def main():
    torch.set_num_threads(1)

    def wanted(name):
        return len(sys.argv) == 1 or name in sys.argv[1:]

    for folder in sorted(path.parent for path in (HERE / "models").glob("*/config.json")):
        quantised = "quantization_config" in json.loads((folder / "config.json").read_text())
        if wanted(folder.name) and not quantised:
            do_decoder(folder)
    for name, settings in TOWERS.items():
        if wanted(name):
            do_tower(name, settings)
    for name, entry in RESNETS.items():
        if wanted(name):
            do_resnet(name, *entry)


if __name__ == "__main__":
    main()
