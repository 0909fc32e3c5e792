#!/usr/bin/env python3
"""Perplexity of a Hugging Face directory on a text, by transformers in f32: an independent check.

The text is encoded once and cut into windows that do not overlap; the tail is dropped. Plain
windows hold `context` tokens, the tokenizer's BOS stands in the first one alone, and the first
token of each is not scored. With --bos each window is BOS and context - 1 tokens, all scored.

usage: transformers_perplexity.py DIRECTORY TEXT [--context 256] [--bos]
"""

import argparse
import math
import pathlib

import torch
import transformers


def windows(tokenizer, text, context, bos):
    if not bos:
        ids = torch.tensor(tokenizer(text).input_ids)
        return ids[:len(ids) // context * context].view(-1, context)
    ids = torch.tensor(tokenizer(text, add_special_tokens=False).input_ids)
    body = ids[:len(ids) // (context - 1) * (context - 1)].view(-1, context - 1)
    return torch.cat([torch.full((len(body), 1), tokenizer.bos_token_id), body], 1)


def perplexity(model, rows):
    total = 0.0
    with torch.no_grad():
        for batch in rows.split(8):
            logits = model(batch).logits[:, :-1].float().flatten(0, 1)
            labels = batch[:, 1:].flatten()
            total += torch.nn.functional.cross_entropy(logits, labels, reduction="sum").item()
    return math.exp(total / rows[:, 1:].numel())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory")
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--bos", action="store_true")
    options = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.directory)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        options.directory, torch_dtype=torch.float32).eval()
    rows = windows(tokenizer, options.text.read_text(encoding="utf-8"), options.context,
                   options.bos)
    print(f"perplexity {perplexity(model, rows):.5f}, {len(rows)} windows of {rows.shape[1]}, "
          f"transformers {transformers.__version__}")


if __name__ == "__main__":
    main()
