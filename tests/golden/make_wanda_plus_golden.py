#!/usr/bin/env python3
"""Unit scores of wanda++ for tests/unit/pipeline/test_wanda_plus.c, by torch's autograd.

Writes wanda_plus/<network>.txt beside this script, a line for each site of the network: its name, the
number of units, and their scores

    s = sum over the unit's features j of mean over o of (100 G[o, j] + |X[:, j]|) |W[o, j]|,
    G = sqrt(mean over sequences of (dL/dW)^2), L = Frobenius norm of the block's output

where X is the input of o_proj or down_proj on all tokens. The network is not cut: every block has the
dense network's input. Weights are those stored, computation is in f64. The token ids are
(7 i^2 + 3 i + 5) % 96 for i = 0 .. SEQUENCES * LENGTH - 1, one sequence after the other.

Needs torch. The network is one of make_logits_golden.py.
"""

import json
import pathlib

import torch

from make_gradient_golden import leaves, read_checkpoint
from plain_decoder import attention, rms_norm
from plain_families import describe

HERE = pathlib.Path(__file__).resolve().parent
NETWORK = "llama3"
SEQUENCES, LENGTH, VOCABULARY = 16, 32, 96
ALPHA = 100


def inner_of(x, weights, layer):
    gate = x @ weights[f"{layer}.mlp.gate_proj.weight"].T
    return torch.nn.functional.silu(gate) * (x @ weights[f"{layer}.mlp.up_proj.weight"].T)


def run_block(x, weights, layer, settings):
    """The output of a block, and the inputs of o_proj and of down_proj."""
    epsilon = settings["rms_norm_eps"]
    output = f"{layer}.self_attn.o_proj.weight"
    normed = rms_norm(x, weights[f"{layer}.input_layernorm.weight"], epsilon)
    plain = weights | {output: torch.eye(weights[output].shape[1], dtype=torch.float64)}
    heads = attention(normed, plain, f"{layer}.self_attn", settings)
    x = x + heads @ weights[output].T
    normed = rms_norm(x, weights[f"{layer}.post_attention_layernorm.weight"], epsilon)
    inner = inner_of(normed, weights, layer)
    return x + inner @ weights[f"{layer}.mlp.down_proj.weight"].T, heads, inner


def scores(weight, squares, inputs, units):
    gradient = (squares / SEQUENCES).sqrt()
    norms = torch.cat(inputs).norm(dim=0)
    features = ((ALPHA * gradient + norms) * weight.detach().abs()).mean(0)
    return features.view(units, -1).sum(1)


def block_lines(streams, weights, index, settings):
    """The lines of a block's sites, and the streams behind it."""
    layer = f"model.layers.{index}"
    sites = {"self_attn.o_proj": settings["num_key_value_heads"],
             "mlp.down_proj": settings["intermediate_size"]}
    matrices = [weights[f"{layer}.{site}.weight"] for site in sites]
    squares = [torch.zeros_like(matrix) for matrix in matrices]
    inputs = [[], []]
    behind = []
    for x in streams:
        out, *seen = run_block(x, weights, layer, settings)
        for i, gradient in enumerate(torch.autograd.grad(out.norm(), matrices)):
            squares[i] += gradient**2
            inputs[i].append(seen[i].detach())
        behind.append(out.detach())
    lines = []
    for i, (site, units) in enumerate(sites.items()):
        values = scores(matrices[i], squares[i], inputs[i], units).tolist()
        lines.append(" ".join([f"{layer}.{site}", str(units)] + [f"{v:.9g}" for v in values]))
    return lines, behind


def main():
    torch.set_num_threads(1)
    folder = HERE / "models" / NETWORK
    settings = describe(json.loads((folder / "config.json").read_text()))
    weights = leaves(read_checkpoint(folder))
    i = torch.arange(SEQUENCES * LENGTH)
    ids = ((7 * i * i + 3 * i + 5) % VOCABULARY).view(SEQUENCES, LENGTH)
    streams = [weights["model.embed_tokens.weight"].detach()[row] for row in ids]
    lines = []
    for index in range(settings["num_hidden_layers"]):
        made, streams = block_lines(streams, weights, index, settings)
        lines += made
    path = HERE / "wanda_plus" / f"{NETWORK}.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
