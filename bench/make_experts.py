#!/usr/bin/env python3
"""Writes one layer of a mixture of experts with random weights in BF16, and token ids to calibrate on, to measure
memory and time: hidden 2048, 64 experts of width 1024, 8 for each token, as OLMoE's layers.

usage: make_experts.py DIRECTORY [HIDDEN EXPERTS WIDTH]

DIRECTORY becomes a model that grail and transformers open; DIRECTORY/ids.npy has 16 windows of 256 ids. Needs torch and
transformers. docs/results/experts.md has the figures and the commands.
"""

import sys

import numpy
import torch
import transformers

VOCABULARY, HEADS, WINDOWS, CONTEXT = 512, 16, 16, 256


def main():
    if len(sys.argv) not in (2, 5):
        sys.exit(__doc__.split("\n\n")[1])
    directory = sys.argv[1]
    hidden, experts, width = map(int, sys.argv[2:]) if len(sys.argv) == 5 else (2048, 64, 1024)
    torch.manual_seed(0)
    config = transformers.Qwen3MoeConfig(
        vocab_size=VOCABULARY, hidden_size=hidden, moe_intermediate_size=width, num_hidden_layers=1,
        num_attention_heads=HEADS, num_key_value_heads=HEADS, head_dim=hidden // HEADS, num_experts=experts,
        num_experts_per_tok=8, norm_topk_prob=True, max_position_embeddings=CONTEXT, tie_word_embeddings=True,
        initializer_range=hidden ** -0.5)
    transformers.Qwen3MoeForCausalLM(config).to(torch.bfloat16).save_pretrained(directory)
    ids = numpy.random.default_rng(0).integers(3, VOCABULARY, (WINDOWS, CONTEXT))
    numpy.save(f"{directory}/ids.npy", ids.astype(numpy.int32))


if __name__ == "__main__":
    main()
