#!/usr/bin/env python3
"""Writes checkpoints with random weights in the shapes that the overhead table is about.

usage: make_shapes.py DIRECTORY

resnet18.pth (torchvision, 224 x 224), vit_b_32.pth (timm names), clip_vit_b_32.pth (open_clip names,
visual tower with a head of 1000 classes). Needs torch; torchvision for the first.
"""

import sys

import torch
import torchvision

WIDTH, LAYERS, PATCH, SIDE, CLASSES, EMBEDDING = 768, 12, 32, 224, 1000, 512


def normal(*shape):
    scale = 0.02 if len(shape) > 1 else 0.0
    return torch.randn(*shape) * scale


def norm(tensors, name):
    tensors[name + ".weight"] = torch.ones(WIDTH)
    tensors[name + ".bias"] = torch.zeros(WIDTH)


def linear(tensors, name, rows, columns):
    tensors[name + ".weight"] = normal(rows, columns)
    tensors[name + ".bias"] = normal(rows)


def vit():
    tensors = {
        "cls_token": normal(1, 1, WIDTH),
        "pos_embed": normal(1, (SIDE // PATCH) ** 2 + 1, WIDTH),
        "patch_embed.proj.weight": normal(WIDTH, 3, PATCH, PATCH),
        "patch_embed.proj.bias": normal(WIDTH),
    }
    for i in range(LAYERS):
        block = f"blocks.{i}."
        norm(tensors, block + "norm1")
        linear(tensors, block + "attn.qkv", 3 * WIDTH, WIDTH)
        linear(tensors, block + "attn.proj", WIDTH, WIDTH)
        norm(tensors, block + "norm2")
        linear(tensors, block + "mlp.fc1", 4 * WIDTH, WIDTH)
        linear(tensors, block + "mlp.fc2", WIDTH, 4 * WIDTH)
    norm(tensors, "norm")
    linear(tensors, "head", CLASSES, WIDTH)
    return tensors


def clip():
    tensors = {
        "model.visual.class_embedding": normal(1, WIDTH)[0],
        "model.visual.positional_embedding": normal((SIDE // PATCH) ** 2 + 1, WIDTH),
        "model.visual.proj": normal(WIDTH, EMBEDDING),
        "model.visual.conv1.weight": normal(WIDTH, 3, PATCH, PATCH),
    }
    norm(tensors, "model.visual.ln_pre")
    for i in range(LAYERS):
        block = f"model.visual.transformer.resblocks.{i}."
        norm(tensors, block + "ln_1")
        tensors[block + "attn.in_proj_weight"] = normal(3 * WIDTH, WIDTH)
        tensors[block + "attn.in_proj_bias"] = normal(3 * WIDTH)
        linear(tensors, block + "attn.out_proj", WIDTH, WIDTH)
        norm(tensors, block + "ln_2")
        linear(tensors, block + "mlp.c_fc", 4 * WIDTH, WIDTH)
        linear(tensors, block + "mlp.c_proj", WIDTH, 4 * WIDTH)
    norm(tensors, "model.visual.ln_post")
    linear(tensors, "classification_head", CLASSES, EMBEDDING)
    return tensors


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: make_shapes.py DIRECTORY")
    torch.manual_seed(0)
    directory = sys.argv[1]
    torch.save(torchvision.models.resnet18(weights=None).state_dict(), f"{directory}/resnet18.pth")
    torch.save(vit(), f"{directory}/vit_b_32.pth")
    torch.save(clip(), f"{directory}/clip_vit_b_32.pth")


if __name__ == "__main__":
    main()
