#!/usr/bin/env python3
"""How far one step of healing may go: what a step along the sign of the gradient, as the first one of Adam is, does to the
loss of the windows that it comes from and to that of others.

usage: sign_steps.py DENSE NARROW TEXT

For the table of tokens, the norms, attention and the FFN alone it prints the mean divergence KL(dense || narrow) of 8 windows of
256 tokens behind a step on these, and of 6 others, at some rates relative to the root mean square of each matrix. Both
directories must open in transformers.
"""
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

CONTEXT, SEEN, HELD = 256, 8, 6
RATES = (0.0003, 0.0015)
PARTS = {"table": "embed_tokens", "norms": "norm", "attention": "self_attn", "FFN": "mlp"}


def windows_of(directory, text):
    with open(text, encoding="utf-8") as file:
        ids = AutoTokenizer.from_pretrained(directory)(file.read(), return_tensors="pt").input_ids[0]
    windows = ids[: len(ids) // CONTEXT * CONTEXT].reshape(-1, CONTEXT)
    order = torch.randperm(len(windows), generator=torch.Generator().manual_seed(1))
    return windows[order[:SEEN]], windows[order[SEEN : SEEN + HELD]]


def divergence(model, windows, target):
    logits = model(windows).logits
    return (target.softmax(-1) * (target.log_softmax(-1) - logits.log_softmax(-1))).sum(-1).mean()


def main(dense, narrow, text):
    seen, held = windows_of(dense, text)
    teacher = AutoModelForCausalLM.from_pretrained(dense, dtype=torch.float32).eval()
    model = AutoModelForCausalLM.from_pretrained(narrow, dtype=torch.float32).eval()
    with torch.no_grad():
        goals = [(w, teacher(w).logits) for w in (seen, held)]
    divergence(model, *goals[0]).backward()

    @torch.no_grad()
    def tell(part, rate):
        print(f"{part:10} {rate:.4f}", *(f"{divergence(model, *goal):.4f}" for goal in goals))

    print("part       rate   seen   others")
    tell("none", 0.0)
    for part, key in PARTS.items():
        chosen = [p for name, p in model.named_parameters() if key in name]
        before = [p.detach().clone() for p in chosen]
        for rate in RATES:
            with torch.no_grad():
                for p, start in zip(chosen, before):
                    p.copy_(start - rate * start.pow(2).mean().sqrt() * p.grad.sign())
            tell(part, rate)
        with torch.no_grad():
            for p, start in zip(chosen, before):
                p.copy_(start)


if len(sys.argv) != 4:
    sys.exit(__doc__)
main(*sys.argv[1:])
