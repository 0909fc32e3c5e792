#!/usr/bin/env python3
"""What people do in PyTorch without a repair: keep the neurons of the largest activations, the same
number in each layer, and train the narrow network towards the dense one's logits (the recipe of
Minitron, arXiv 2407.14679: importance by activations, distillation by KL), for so many processor
seconds of one thread. The directory it writes is what `grail eval` measures.

    importance_then_distillation.py MODEL TEXT OUTPUT --share 0.3 --seconds 600
"""

import argparse
import math
import time

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

CONTEXT = 512


def windows(path, tokenizer):
    with open(path, encoding="utf-8") as text:
        ids = tokenizer(text.read(), return_tensors="pt", add_special_tokens=False).input_ids[0]
    return ids[: len(ids) // CONTEXT * CONTEXT].view(-1, CONTEXT)


def importances(model, samples):
    """For each layer the mean over windows of the root of the mean square over a window."""
    layers = model.model.layers
    sums = [torch.zeros(layer.mlp.down_proj.in_features) for layer in layers]

    def note(total):
        return lambda _layer, given: total.add_(given[0].square().mean(1).sqrt().sum(0))

    hooks = [
        layer.mlp.down_proj.register_forward_pre_hook(note(total))
        for layer, total in zip(layers, sums)
    ]
    with torch.no_grad():
        for window in samples:
            model.model(window[None])
    for hook in hooks:
        hook.remove()
    return sums


def cut(model, scores, width):
    for layer, score in zip(model.model.layers, scores):
        kept = score.topk(width).indices.sort().values
        mlp = layer.mlp
        for name, dimension in (("gate_proj", 0), ("up_proj", 0), ("down_proj", 1)):
            old = getattr(mlp, name)
            weight = old.weight.detach().index_select(dimension, kept)
            made = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
            made.weight = torch.nn.Parameter(weight)
            setattr(mlp, name, made)
    model.config.intermediate_size = width


def divergence(dense, narrow, batch):
    with torch.no_grad():
        wanted = dense(batch).logits.log_softmax(-1)
    found = narrow(batch).logits.log_softmax(-1)
    return torch.nn.functional.kl_div(found, wanted, log_target=True, reduction="sum") / batch.numel()


def train(dense, narrow, samples, options, began):
    """Rates rise over a twentieth of the time and fall to 0 by a cosine. The embedding, which is the
    head, stays."""
    narrow.get_input_embeddings().weight.requires_grad_(False)
    weights = [p for p in narrow.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(weights, lr=options.rate, betas=(0.9, 0.95), weight_decay=0.0)
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(0))
    start = time.process_time()
    step = 0
    while (done := (time.process_time() - start) / (options.seconds - (start - began))) < 1.0:
        at = [order[(step * options.batch + i) % len(samples)] for i in range(options.batch)]
        for group in optimiser.param_groups:
            fall = 0.5 * (1.0 + math.cos(math.pi * done))
            group["lr"] = options.rate * min(1.0, done / 0.05) * fall
        loss = 0.0
        for i in at:
            part = divergence(dense, narrow, samples[i][None]) / options.batch
            part.backward()
            loss += part.item()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        step += 1
        print(f"step {step} loss {loss:.4f} at {time.process_time() - began:.0f} s", flush=True)
    print(f"{step * options.batch * CONTEXT} tokens in {step} steps", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("output")
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--align", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--samples", type=int, default=64, help="windows that importances see")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rate", type=float, default=3e-4)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    samples = windows(options.text, tokenizer)
    dense = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32).eval()
    narrow = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32).eval()
    began = time.process_time()
    step = len(samples) / options.samples
    chosen = samples[[int(i * step) for i in range(options.samples)]]
    full = narrow.config.intermediate_size
    width = round(full * (1.0 - options.share) / options.align) * options.align
    cut(narrow, importances(narrow, chosen), width)
    print(f"width {full} -> {width} at {time.process_time() - began:.0f} s", flush=True)
    train(dense, narrow, samples, options, began)
    narrow.to(torch.bfloat16).save_pretrained(options.output)
    tokenizer.save_pretrained(options.output)


if __name__ == "__main__":
    main()
