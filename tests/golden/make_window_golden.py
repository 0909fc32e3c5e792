#!/usr/bin/env python3
"""Windows that move over images, and their gradients, by torch in f64, for test_windows.c: writes
windows.txt beside this script. A case is its kind and numbers, then x, y, dy and dx, channel last,
and where it has a weight that, the bias and dweight. Inputs are multiples of 1/8, which values of
16 bits hold.

usage: make_window_golden.py
"""

import pathlib

import torch
import torch.nn.functional as F

OUT = pathlib.Path(__file__).resolve().parent / "windows.txt"

# kind, samples, (height, width), channels in, channels out, groups, and along both axes (kernel,
# stride, dilation, before, behind)
CASES = [
    ("CONVOLUTION", 2, (6, 7), 3, 4, 1, (3, 2, 1, 1, 1), (3, 1, 1, 1, 1)),
    ("CONVOLUTION", 1, (4, 9), 4, 3, 1, (1, 1, 1, 0, 0), (3, 1, 1, 1, 1)),
    ("CONVOLUTION", 2, (6, 8), 2, 5, 1, (3, 2, 1, 0, 1), (3, 2, 1, 0, 1)),
    ("CONVOLUTION", 1, (7, 6), 2, 3, 1, (2, 1, 3, 2, 1), (3, 2, 2, 1, 3)),
    ("CONVOLUTION", 2, (5, 6), 6, 4, 2, (3, 1, 1, 1, 1), (2, 2, 1, 0, 1)),
    ("CONVOLUTION", 1, (5, 6), 6, 9, 3, (1, 2, 1, 0, 0), (1, 1, 1, 0, 0)),
    ("DEPTHWISE", 2, (6, 7), 3, 3, 3, (5, 2, 1, 1, 2), (3, 1, 2, 2, 1)),
    ("MAXIMUM", 2, (6, 7), 3, 3, 1, (3, 2, 1, 0, 1), (2, 1, 1, 1, 0)),
    ("MAXIMUM_UP", 2, (6, 8), 3, 3, 1, (3, 2, 1, 0, 0), (3, 2, 1, 1, 1)),
    ("MAXIMUM_UP", 1, (5, 5), 2, 2, 1, (2, 2, 1, 1, 1), (2, 3, 1, 0, 0)),
    ("AVERAGE", 2, (6, 7), 3, 3, 1, (3, 2, 1, 0, 1), (2, 1, 1, 1, 0)),
    ("AVERAGE_PADDED", 2, (6, 7), 3, 3, 1, (3, 2, 1, 0, 1), (4, 1, 1, 1, 2)),
    ("AVERAGE_UP", 2, (6, 8), 3, 3, 1, (3, 2, 1, 0, 0), (3, 2, 1, 1, 1)),
    ("AVERAGE_PADDED_UP", 2, (6, 8), 2, 2, 1, (3, 2, 1, 0, 0), (3, 2, 1, 1, 1)),
    ("AVERAGE_PADDED_UP", 1, (7, 6), 2, 2, 1, (4, 3, 1, 1, 1), (2, 3, 1, 1, 1)),
]


def eighths(generator, *shape):
    return torch.randint(-12, 13, shape, generator=generator).double() / 8


def padded(x, down, across, value):
    return F.pad(x, (across[3], across[4], down[3], down[4]), value=value)


def apply(case, x, weight, bias):
    kind, _, _, _, _, groups, down, across = case
    kernel, stride, dilation = zip(down[:3], across[:3])
    if kind in ("CONVOLUTION", "DEPTHWISE"):
        return F.conv2d(padded(x, down, across, 0.0), weight, bias, stride, 0, dilation, groups)
    if kind == "MAXIMUM":
        lowest = padded(x, down, across, -float("inf"))
        return F.max_pool2d(lowest, kernel, stride, 0, dilation)
    if kind == "MAXIMUM_UP":
        return F.max_pool2d(x, kernel, stride, (down[3], across[3]), dilation, ceil_mode=True)
    if kind.endswith("_UP"):
        pads = "PADDED" in kind
        return F.avg_pool2d(x, kernel, stride, (down[3], across[3]), True, pads)
    means = F.avg_pool2d(padded(x, down, across, 0.0), kernel, stride)
    inside = padded(torch.ones_like(x), down, across, 1.0 if kind == "AVERAGE_PADDED" else 0.0)
    return means / F.avg_pool2d(inside, kernel, stride)


def channels_last(images):
    return images.permute(0, 2, 3, 1)


def main():
    generator = torch.Generator().manual_seed(1)
    lines = [f"torch {torch.__version__.split('+')[0]}"]
    for case in CASES:
        kind, samples, size, channels_in, channels_out, groups, down, across = case
        x = eighths(generator, samples, channels_in, *size).requires_grad_()
        weight = eighths(generator, channels_out, channels_in // groups, down[0], across[0])
        weight.requires_grad_()
        bias = eighths(generator, channels_out)
        y = apply(case, x, weight, bias)
        dy = eighths(generator, *y.shape)
        (y * dy).sum().backward()
        channels_last = [images.permute(0, 2, 3, 1) for images in (x, y, dy, x.grad)]
        weights = [weight, bias, weight.grad] if weight.grad is not None else []
        head = (samples, *size, *y.shape[2:], channels_in, channels_out, groups, *down, *across)
        lines.append(f"{kind} {' '.join(map(str, head))}")
        for values in channels_last + weights:
            lines.append(" ".join(f"{v:.17g}" for v in values.reshape(-1).tolist()))
    OUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
