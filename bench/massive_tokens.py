#!/usr/bin/env python3
"""What becomes of massive activations when a decoder is narrowed.

usage: massive_tokens.py DENSE NARROW TEXT [WINDOWS [CONTEXT]]

Some tokens of decoders, the first of a window above all, are hundreds of times as long in the residual stream as the others, in
a few fixed directions; attention is parked at them. Over WINDOWS (6) windows of CONTEXT (512) tokens of a text this prints for
each block: how many tokens are longer than 30 times the median of the dense stream behind it; how much of their length the
narrow network loses; and of the other tokens the median relative error |x - x'| / |x|, and which share of its square lies in
the direction of the massive ones. Both directories must open in transformers.
"""
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def windows_of(directory, text, count, context):
    with open(text, encoding="utf-8") as file:
        words = file.read(count * context * 8)
    ids = AutoTokenizer.from_pretrained(directory)(words, return_tensors="pt").input_ids[0]
    return ids[: count * context].reshape(-1, context)


def streams_of(directory, windows):
    """[block][windows * context, hidden] behind each block but the last, whose values are normed."""
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    runs = [model(w[None], output_hidden_states=True).hidden_states[1:-1] for w in windows]
    return [torch.cat([run[block][0] for run in runs]) for block in range(len(runs[0]))]


def show_block(number, dense, narrow):
    length = dense.norm(dim=1)
    massive = length > 30 * length.median()
    errors = ((narrow - dense) / length[:, None])[~massive]
    error = errors.norm(dim=1)
    line = f"| {number} | {int(massive.sum())} | "
    if massive.any():
        direction = dense[massive].mean(0)
        direction = direction / direction.norm()
        lost = 1 - float((narrow.norm(dim=1) / length)[massive].mean())
        share = float(((errors @ direction) ** 2).sum() / (error**2).sum())
        print(line + f"{100 * lost:.1f} % | {float(error.median()):.3f} | {share:.3f} |")
    else:
        print(line + f"| {float(error.median()):.3f} | |")


def main():
    dense, narrow, text = sys.argv[1:4]
    count, context = (int(a) for a in (sys.argv[4:] + ["6", "512"][len(sys.argv[4:]) :]))
    torch.set_grad_enabled(False)
    windows = windows_of(dense, text, count, context)
    print("| block | massive tokens | of their length lost | error of the others | its share in their direction |")
    print("|---|---|---|---|---|")
    for i, (a, b) in enumerate(zip(streams_of(dense, windows), streams_of(narrow, windows))):
        show_block(i + 1, a, b)


if __name__ == "__main__":
    main()
