#!/usr/bin/env python3
"""Expected logits of residual networks that were narrowed by the published procedure
(published_grail.py), for test_published.c.

Needs torch. The network's weights, the calibration images and the pixels of the logits are formulas of
names and indices (plain_resnet.py), which the test computes too, so only logits are stored. Prints what the
choices that the procedure leaves out would change, and how far plainly cut networks are away.

    make_published_golden.py        writes vision/published.safetensors beside this script
"""

import copy
import os
import pathlib

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy
import torch

from golden_file import write_safetensors
from plain_resnet import CifarNet, ProjectedBlock, fill, pixels, uniform
from published_grail import narrow

OUTPUT = pathlib.Path(__file__).resolve().parent / "vision" / "published.safetensors"
IMAGES, SIDE, COARSE = 48, 32, 4
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)

CASES = {  # name: (ratio, rule)
    "l1_50": (0.5, 1),
    "l2_30": (0.3, 2),
    "l1_80": (0.8, 1),
    "wanda_50": (0.5, "wanda"),
}


def network():
    return fill(CifarNet(ProjectedBlock, 16, [2, 1, 2], "fc")).eval()


def calibration_bytes():
    """[IMAGES, 3, SIDE, SIDE]: coarse squares with noise, as CIFAR records hold them."""
    coarse = uniform("coarse", IMAGES * 3 * COARSE * COARSE).reshape(IMAGES, 3, COARSE, COARSE)
    noise = uniform("noise", IMAGES * 3 * SIDE * SIDE).reshape(IMAGES, 3, SIDE, SIDE)
    step = SIDE // COARSE
    coarse = coarse.repeat(step, 2).repeat(step, 3)
    return numpy.floor(128.0 + 80.0 * coarse + 40.0 * noise).astype(numpy.uint8)


def normalised(images):
    x = torch.from_numpy(images.astype(numpy.float64)) / 255.0
    return (x - torch.tensor(MEAN).double().view(3, 1, 1)) / \
        torch.tensor(DEVIATION).double().view(3, 1, 1)


def logits(model):
    with torch.no_grad():
        return copy.deepcopy(model).double()(pixels(4, SIDE).double()).numpy()


def rounded(model):
    """As a checkpoint stores the weights."""
    return model.float()


def main():
    torch.set_num_threads(2)
    dense = network()
    images = normalised(calibration_bytes())
    tensors = {}
    for name, (ratio, rule) in CASES.items():
        exact = copy.deepcopy(dense).double()
        expected = logits(rounded(narrow(exact, ratio, rule, images)))
        plain = logits(rounded(narrow(exact, ratio, rule, images, compensate=False)))
        stem = logits(rounded(narrow(exact, ratio, rule, images, with_stem=True)))
        tensors[name] = expected.astype(numpy.float32)
        print(f"{name}: largest logit {numpy.abs(expected).max():.3f}, dense network "
              f"{numpy.abs(expected - logits(dense)).max():.3f} away, plain cut "
              f"{numpy.abs(expected - plain).max():.3f}, stem shrunk too "
              f"{numpy.abs(expected - stem).max():.4f}")
    write_safetensors(OUTPUT, tensors, {"torch": torch.__version__})


if __name__ == "__main__":
    main()
