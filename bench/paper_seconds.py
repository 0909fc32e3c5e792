#!/usr/bin/env python3
"""Processor seconds of grail's paper's choice and repair, beside the same steps as the paper's code takes them in PyTorch.

usage: paper_seconds.py --grail PATH --images CIFAR_DIRECTORY [--resnet FILE.pth] [--only llama,vit,resnet] [--layers N] [--runs N]
                        [--precision f32|bf16|bf16-gram|bf16x3]

    llama   two layers of hidden 1024 and FFN 2816, 64 windows of 512 tokens, wanda, 30 % of heads and neurons
    vit     ViT-B/32, 128 images of 224 x 224, magnitude-l1, half of all neurons (--layers: fewer of its 12)
    resnet  ResNet-18 of CIFAR, 128 images, magnitude-l1, half of the inner channels and of the stream

Both are in f32 on one thread and take turns; with --precision grail has that one. In grail the whole process counts, with the reading of the network and of
the images and the writing; in PyTorch what the steps take, without its start, the reading and the preparation of images.
The paper's code keeps the Gram matrix of the inputs of every Linear and convolution, in f32; so does this. With llama
it then runs the narrowed layer for the next one; with images it does not. Needs torch, safetensors, numpy and, for
llama, transformers.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import gpu_torch
import make_shapes
import torch
from torch import Tensor, nn

IMAGES, RIDGE = 128, 1e-3
LLAMA = gpu_torch.Shape(1024, 2816, 16, 16, 2, 4000)
WINDOWS, TOKENS = 64, 512


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.short = nn.Sequential()
        if stride > 1:
            self.short = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return (y + self.short(x)).relu()


def resnet18() -> nn.Module:
    widths = (64, 64, 128, 256, 512)
    blocks = [Block(widths[s + h], widths[s + 1], 2 if s > 0 and h == 0 else 1) for s in range(4) for h in range(2)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)]
    return nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), *blocks, *head)


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(n, t, 3, d // 64, 64).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(y.transpose(1, 2).reshape(n, t, d))
        return x + self.fc2(nn.functional.gelu(self.fc1(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        d = make_shapes.WIDTH
        self.patches = nn.Conv2d(3, d, make_shapes.PATCH, make_shapes.PATCH)
        self.layers = nn.Sequential(*(Layer(d) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, make_shapes.CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([x.new_zeros(len(x), 1, x.shape[2]), x], 1)
        return self.head(self.norm(self.layers(x)[:, 0]))


def repair(module: Any, gram: Tensor, kept: Tensor) -> None:
    """The paper's map from kept features to all, merged into a Linear or a convolution."""
    part = gram[kept][:, kept]
    part += RIDGE * (part.diagonal().mean() + 1e-12) * torch.eye(len(kept))
    merge = torch.linalg.solve(part, gram[kept]).t()
    weight = module.weight.data
    module.weight.data = weight @ merge if weight.dim() == 2 else torch.einsum("oiyx,ik->okyx", weight, merge)


def narrow_images(network: nn.Module, images: Tensor) -> None:
    """The paper's steps for a network of images: Gram matrices of all inputs, then half of the channels."""
    grams: dict[nn.Module, Tensor] = {}

    def keep(module: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        x = arguments[0]
        x = x.permute(0, 2, 3, 1) if x.dim() == 4 else x
        x = x.reshape(-1, x.shape[-1])
        grams[module] = grams.get(module, 0) + x.t() @ x

    for module in network.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            module.register_forward_pre_hook(keep)
    network(images)
    for module in network.modules():
        pairs = []
        if isinstance(module, Layer):
            pairs = [(module.fc1, module.fc2)]
        elif isinstance(module, Block):
            first = module.short[0] if len(module.short) else module.conv1
            pairs = [(module.conv1, module.conv2), (module.conv2, first)]
        for producer, consumer in pairs:
            width = consumer.weight.shape[1]
            scores = producer.weight.abs().flatten(1).sum(1)[:width]
            kept = scores.topk(min(width, len(scores)) // 2)[1].sort()[0]
            repair(consumer, grams[consumer], kept)
            producer.weight.data = producer.weight.data[kept]


def paper(name: str, layers: int) -> float:
    """Processor seconds of the paper's steps."""
    torch.set_num_threads(1)
    if name == "llama":
        gpu_torch.time.monotonic = time.process_time  # what laps and spans are measured with
        return gpu_torch.measure_paper(LLAMA, WINDOWS, TOKENS, "cpu")["all_blocks"]["value"]
    network = (Transformer(layers) if name == "vit" else resnet18()).eval()
    images = torch.randn(IMAGES, 3, *((make_shapes.SIDE,) * 2 if name == "vit" else (32, 32)))
    with torch.no_grad():
        network(images[:2])
        start = time.process_time()
        narrow_images(network, images)
        return time.process_time() - start


def seconds_of(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def grail(program: str, network: str, calibration: str, out: str, *options: str) -> list[str]:
    return [program, "compress", network, "--calib", calibration, "-o", out, "--compensate", "grail", "--threads", "1", *options]


def prepare(name: str, folder: str, a: argparse.Namespace) -> list[str]:
    """Writes the network; the command that narrows it."""
    l1 = ("--selector", "magnitude-l1", "--sparsity", "0.5", "--samples", str(IMAGES), "--precision", a.precision)
    if name == "llama":
        gpu_torch.make_checkpoint(folder, LLAMA, LLAMA.layers, WINDOWS, TOKENS, "cpu")
        options = ("--selector", "wanda", "--sparsity", "0.3", "--samples", str(WINDOWS), "--context", str(TOKENS))
        options += ("--precision", a.precision)
        return grail(a.grail, f"{folder}/dense", f"{folder}/ids.npy", f"{folder}/out", *options)
    if name == "vit":
        make_shapes.LAYERS = a.layers
        torch.save(make_shapes.vit(), f"{folder}/vit.pth")
        return grail(a.grail, f"{folder}/vit.pth", a.images, f"{folder}/out", "--preset", "vit", "--sites", "ffn", *l1)
    return grail(a.grail, a.resnet, a.images, f"{folder}/out", "--sites", "conv,stream", *l1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grail")
    parser.add_argument("--images", help="CIFAR-10's binary batches")
    parser.add_argument("--resnet", help="a ResNet-18 of CIFAR")
    parser.add_argument("--only", default="llama,vit,resnet")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--precision", default="f32")
    parser.add_argument("--paper", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.paper:
        print(paper(a.paper, a.layers))
        return
    os.environ["OMP_NUM_THREADS"] = "1"
    print("network    paper's code, s   grail, s   paper / grail")
    for name in a.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            command = prepare(name, folder, a)
            rows = []
            for _ in range(a.runs):
                this = [sys.executable, str(Path(__file__)), "--paper", name, "--layers", str(a.layers)]
                theirs = float(subprocess.run(this, check=True, capture_output=True, text=True).stdout)
                rows.append((theirs, seconds_of(command)))
                shutil.rmtree(f"{folder}/out")
            theirs, ours = (statistics.median(column) for column in zip(*rows))
            print(f"{name:<10} {theirs:15.2f} {ours:10.2f} {theirs / ours:15.2f}", flush=True)


main()
