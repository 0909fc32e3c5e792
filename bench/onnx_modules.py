#!/usr/bin/env python3
"""Narrows timm's networks (random weights) as live modules, by grail.torch.compress: 20 % of the channels, with the
paper's fit on eight images of noise. Prints a table: how far the narrow module is from what grail computes, or why it was refused.

needs: the package grail, torch, timm, onnx, onnxscript
usage: onnx_modules.py [--only NAME,...]
"""

import argparse
import sys
import time
import warnings

import grail
import timm
import torch

# The sides of images are those that a network has to have; 64 where it takes any.
NETWORKS = {name: 64 for name in """resnet18 resnet50 resnet50d resnext50_32x4d seresnet50 ecaresnet26t resnetv2_50
    res2net50_26w_4s wide_resnet50_2 regnetx_002 regnety_002 densenet121 vgg11_bn efficientnet_b0 tf_efficientnet_lite0
    tf_efficientnetv2_b0 mobilenetv2_100 mobilenetv3_small_100 mobilenetv3_large_100 mnasnet_100 ghostnet_100 lcnet_050
    fbnetc_100 rexnet_100 dla34 cspresnet50 repvgg_a0 hrnet_w18_small convnext_atto eca_nfnet_l0""".split()}
NETWORKS |= {"inception_v3": 128, "vit_tiny_patch16_224": 224, "mixer_s32_224": 224}

HOW = {"selector": "magnitude-l1", "compensate": "grail", "progress": False}


def try_network(name, side):
    torch.manual_seed(1)
    module = timm.create_model(name, pretrained=False)
    pixels = torch.randn(8, 3, side, side)
    try:
        made = grail.torch.compress(module, pixels, sparsity=0.2, **HOW)
    except grail.GrailError as error:
        reason = error.message.split("by way of ONNX ")[-1].split(".onnx: ")[-1]
        for end in ("; grail.torch.narrow cuts", "; where the checkpoint that"):
            reason = reason.split(end)[0]
        return f"refused: {reason}"
    left = f"{made.report.ratio:.0%} of the parameters are left"
    if made.module is None:
        return f"no module: {made.reason}; {left}"
    way = "a known family" if made.difference is None else f"module and grail differ by {made.difference:.1e}"
    return f"narrowed, {left}; {way}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=lambda names: names.split(","), default=NETWORKS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| network | pixels | |\n|---|---|---|")
    for name in given.only:
        began = time.monotonic()
        side = NETWORKS.get(name, 64)
        print(f"| {name} | {side} | {try_network(name, side)} |", flush=True)
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
