#!/usr/bin/env python3
"""Narrows live modules of torch: a U-Net and a network of inverted residuals that grail does not know, trained for a
moment on shapes, and with --model a language model, whose tensors must be those that the program writes.

needs: the package grail, torch; with --model transformers
usage: torch_modules.py [--model DIRECTORY]
"""

import argparse
import copy
import pathlib
import sys
import tempfile

import grail
import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "python"))
from test_torch import MOBILE_SITES, UNET_SITES, Mobile, UNet  # noqa: E402


def shapes(count, generator):
    """Bright discs and squares on noise; where they are, and which of ten sizes each is."""
    images = 0.3 * torch.randn(count, 3, 32, 32, generator=generator)
    masks = torch.zeros(count, 1, 32, 32)
    sizes = torch.randint(0, 10, (count,), generator=generator)
    y, x = torch.meshgrid(torch.arange(32), torch.arange(32), indexing="ij")
    for i in range(count):
        cy, cx = (int(torch.randint(10, 22, (), generator=generator)) for _ in range(2))
        radius = 3 + 0.7 * float(sizes[i])
        disc = (y - cy) ** 2 + (x - cx) ** 2 < radius**2
        square = ((y - cy).abs() < radius) & ((x - cx).abs() < radius)
        masks[i, 0] = disc if i % 2 else square
        images[i] += masks[i] * torch.rand(3, 1, 1, generator=generator)
    return images, masks, sizes


def train(network, loss, steps, generator):
    optimiser = torch.optim.Adam(network.parameters(), 3e-3)
    for _ in range(steps):
        optimiser.zero_grad()
        loss(network.train(), *shapes(32, generator)).backward()
        optimiser.step()
    return network.eval()


def overlap(network, data):
    images, masks, _ = data
    with torch.no_grad():
        found = network(images) > 0
    return float((found & (masks > 0)).sum() / (found | (masks > 0)).sum())


def accuracy(network, data):
    images, _, sizes = data
    with torch.no_grad():
        return float((network(images).argmax(1) == sizes).float().mean())


def measure(name, network, sites, score, what, generator):
    test = shapes(1000, generator)
    samples = [shapes(32, generator)[0] for _ in range(4)]
    whole = sum(p.numel() for p in network.parameters())
    print(f"{name}, {what}: dense {score(network, test):.3f} ({whole:,} parameters)")
    for sparsity in (0.3, 0.5, 0.7):
        line = f"  {sparsity:.0%} of the units"
        for compensate, label in (("none", "plain"), ("grail", "grail"), ("full", "full")):
            narrow = copy.deepcopy(network)
            grail.torch.narrow(narrow, sites, samples, sparsity=sparsity, compensate=compensate)
            line += f"  {label} {score(narrow, test):.3f}"
        print(line, f" ({sum(p.numel() for p in narrow.parameters()):,} parameters)")


def compare(directory):
    import transformers

    ids = np.random.default_rng(0).integers(0, 1000, (8, 256))
    module = transformers.AutoModelForCausalLM.from_pretrained(directory)
    live = grail.torch.compress(module, ids, sparsity=0.3)
    with tempfile.TemporaryDirectory() as folder:
        module.save_pretrained(f"{folder}/dense")
        grail.compress(f"{folder}/dense", f"{folder}/narrow", calib=grail.Samples.tokens(ids), sparsity=0.3)
        written = transformers.AutoModelForCausalLM.from_pretrained(f"{folder}/narrow").state_dict()
    own = live.module.state_dict()
    same = own.keys() == written.keys() and all(torch.equal(own[key], written[key]) for key in own)
    print(
        f"{type(module).__name__}: the live module's {len(own)} tensors and the program's: {'equal' if same else 'DIFFER'}"
    )
    return same


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model")
    options = parser.parse_args()
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    unet = train(UNet(), lambda n, x, m, _: nn.functional.binary_cross_entropy_with_logits(n(x), m), 150, generator)
    measure("U-Net", unet, UNET_SITES, overlap, "overlap with the shapes", generator)
    mobile = train(Mobile(), lambda n, x, _, s: nn.functional.cross_entropy(n(x), s), 400, generator)
    measure("inverted residuals", mobile, MOBILE_SITES, accuracy, "accuracy in ten classes", generator)
    if options.model and not compare(options.model):
        sys.exit(1)


if __name__ == "__main__":
    main()
