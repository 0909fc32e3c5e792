"""GRAIL for residual networks of BasicBlocks as its authors' vision code does it, in plain torch: the
same choices in the same order, written from a description of that code and not from grail.

Every channel group loses the same share r of its n channels and keeps max(1, floor(n (1 - r))):

* inner channels of a block: scored by the rows of conv1;
* the residual stream of a stage: scored by the rows of the stem in stage 1, by those of conv2 of the
  stage's first block in the others; the other producers follow.

A row's score is its L1 or L2 norm over input channels and taps, or with the rule "wanda" the sum over the
input channels that are kept of the row's L1 norm there times the root of the sum of the channel's squares in
the dense network; biases and BatchNorm do not count. Producers
and their BatchNorms, running statistics too, are sliced. Then every consumer's dense weight W becomes
W B, with one B for all taps of a kernel,

    B = G[:, P] (G[P, P] + lambda I)^-1,   lambda = 1e-3 (mean diag G[P, P] + 1e-12),

where G = X^T X is the uncentred Gram matrix of the dense network's activations at the consumer's input
(open loop): one row for every position of the input, whatever the stride, without padding; behind the mean
over positions one row for every image. Biases stay.

What the authors' code does besides, and is left out here:

* The stem is "compensated" too, though its three input channels all stay. A ridge that shrinks to zero
  shrinks it although nothing was cut (`with_stem=True` does this, to see what it makes).
* Solves are in f32 by an LU factorisation; here in f64.
* The share 1 - r is a product of doubles cut off to an integer, so that 1 - 0.8 of 20 channels is 3; here
  1e-9 is added.
* Calibration images are augmented at random (crops, flips, rotations) and 6,400; here they are the caller's.
"""

import copy
import math

import torch
from torch import nn

ALPHA = 1e-3


def kept_count(channels, ratio):
    return max(1, math.floor(channels * (1 - ratio) + 1e-9))


def kept_channels(conv, ratio, rule, grams, read):
    """Ascending indices of the rows with the largest scores; the lowest index wins a tie. `read` are the
    input channels that are kept, None: all."""
    rows = conv.weight.detach().double().abs().flatten(2)
    if rule == "wanda":
        norms = grams[conv].diagonal().sqrt()
        read = range(len(norms)) if read is None else read
        scores = rows.sum(2)[:, read] @ norms[read]
    else:
        scores = rows.pow(rule).sum((1, 2))
    order = sorted(range(len(scores)), key=lambda j: (-scores[j].item(), j))
    return sorted(order[:kept_count(len(scores), ratio)])


def stages(model):
    layers = []
    while hasattr(model, f"layer{len(layers) + 1}"):
        layers.append(getattr(model, f"layer{len(layers) + 1}"))
    return layers


def dense_grams(model, images, batch=64):
    """Gram matrix of the input of every convolution and of the head, by module."""
    grams = {}

    def observe(module, inputs):
        x = inputs[0].detach().double()
        rows = x.permute(0, 2, 3, 1).flatten(0, 2) if x.dim() == 4 else x
        grams[module] = grams.get(module, 0) + rows.T @ rows

    hooks = [m.register_forward_pre_hook(observe) for m in model.modules()
             if isinstance(m, (nn.Conv2d, nn.Linear))]
    with torch.no_grad():
        for begin in range(0, len(images), batch):
            model(images[begin:begin + batch])
    for hook in hooks:
        hook.remove()
    return grams


def ridge_map(gram, kept):
    """B[channels, kept]"""
    square = gram[kept][:, kept]
    ridge = ALPHA * (square.diagonal().mean() + 1e-12)
    return torch.linalg.solve(square + ridge * torch.eye(len(kept)).double(), gram[kept]).T


def slice_rows(conv, norm, kept):
    conv.weight = nn.Parameter(conv.weight.detach()[kept])
    conv.out_channels = len(kept)
    norm.weight = nn.Parameter(norm.weight.detach()[kept])
    norm.bias = nn.Parameter(norm.bias.detach()[kept])
    norm.running_mean = norm.running_mean[kept]
    norm.running_var = norm.running_var[kept]
    norm.num_features = len(kept)


def absorb(consumer, columns):
    """columns: what the weight is multiplied by from the right, B or a choice of columns."""
    weight = torch.einsum("oi...,ik->ok...", consumer.weight.detach().double(), columns)
    consumer.weight = nn.Parameter(weight.to(consumer.weight.dtype))
    if isinstance(consumer, nn.Conv2d):
        consumer.in_channels = columns.shape[1]
    else:
        consumer.in_features = columns.shape[1]


def choose(model, ratio, rule, grams):
    """[(producers with their norms, consumers, kept)] of every group, from the dense weights and what they
    read in the dense network."""
    groups = []
    layers = stages(model)
    stream = None  # kept channels of the stage before
    for s, blocks in enumerate(layers):
        first = blocks[0]
        if s == 0:
            kept = kept_channels(model.conv1, ratio, rule, grams, None)
            inner = {b: kept_channels(b.conv1, ratio, rule, grams, kept) for b in blocks}
        else:
            inner = {first: kept_channels(first.conv1, ratio, rule, grams, stream)}
            kept = kept_channels(first.conv2, ratio, rule, grams, inner[first])
            inner.update({b: kept_channels(b.conv1, ratio, rule, grams, kept) for b in blocks[1:]})
        stream = kept
        begins = (model.conv1, model.bn1) if s == 0 else tuple(first.downsample)
        behind = [layers[s + 1][0].conv1, layers[s + 1][0].downsample[0]] if s + 1 < len(layers) \
            else [model.fc]
        groups.append(([begins] + [(b.conv2, b.bn2) for b in blocks],
                       [b.conv1 for b in (blocks if s == 0 else blocks[1:])] + behind, kept))
        for b in blocks:
            groups.append(([(b.conv1, b.bn1)], [b.conv2], inner[b]))
    return groups


def narrow(dense, ratio, rule, images, compensate=True, with_stem=False):
    """The network without a share of all channels, by the L1 norm (1), the L2 norm (2) or "wanda"."""
    model = copy.deepcopy(dense).eval()
    grams = dense_grams(model, images)
    groups = choose(model, ratio, rule, grams)
    for _, consumers, kept in groups:
        for c in consumers:
            channels = c.weight.shape[1]
            absorb(c, ridge_map(grams[c], kept) if compensate
                   else torch.eye(channels).double()[:, kept])
    if with_stem:
        absorb(model.conv1, ridge_map(grams[model.conv1], list(range(model.conv1.in_channels))))
    for producers, _, kept in groups:
        for conv, norm in producers:
            slice_rows(conv, norm, kept)
    return model
