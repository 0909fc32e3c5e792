"""A plain decoder in f64: the forward pass of every decoder family that the golden scripts know,
from the names and shapes of a checkpoint and its config.json. It takes part in torch's autograd."""

import torch


def rms_norm(x, weight, epsilon):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * weight


def inverse_frequencies(settings):
    half = settings["head_dim"] // 2
    rope = settings.get("rope_parameters") or settings
    frequencies = rope["rope_theta"] ** (-torch.arange(half, dtype=torch.float64) / half)
    scaling = settings.get("rope_parameters") or settings.get("rope_scaling")
    if not scaling:
        return frequencies
    low, high, factor = (scaling[f"{key}factor"] for key in ("low_freq_", "high_freq_", ""))
    original = scaling["original_max_position_embeddings"]
    wavelength = 2 * torch.pi / frequencies
    smooth = (original / wavelength - low) / (high - low)
    middle = frequencies * ((1 - smooth) / factor + smooth)
    scaled = torch.where(wavelength > original / low, frequencies / factor, middle)
    return torch.where(wavelength < original / high, frequencies, scaled)


def rotate(x, frequencies):
    """x [heads, T, head_dim]; pairs are (k, k + head_dim / 2)."""
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[1], dtype=torch.float64)[:, None] * frequencies
    first, second = x[..., :half], x[..., half:]
    cosine, sine = angle.cos(), angle.sin()
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)


def visible(settings, length):
    distance = torch.arange(length)[:, None] - torch.arange(length)[None, :]
    mask = distance >= 0
    slides = settings["model_type"] == "mistral" or settings.get("use_sliding_window")
    if slides and settings.get("sliding_window"):
        mask &= distance < settings["sliding_window"]
    return mask


def attention(x, weights, prefix, settings):
    length, head_dim = x.shape[0], settings["head_dim"]
    group = settings["num_attention_heads"] // settings["num_key_value_heads"]

    def project(name, value):
        bias = weights.get(f"{prefix}.{name}.bias")
        return torch.nn.functional.linear(value, weights[f"{prefix}.{name}.weight"], bias)

    q, k, v = (project(f"{name}_proj", x).view(length, -1, head_dim).transpose(0, 1)
               for name in "qkv")
    if f"{prefix}.q_norm.weight" in weights:
        q = rms_norm(q, weights[f"{prefix}.q_norm.weight"], settings["rms_norm_eps"])
        k = rms_norm(k, weights[f"{prefix}.k_norm.weight"], settings["rms_norm_eps"])
    frequencies = inverse_frequencies(settings)
    q = rotate(q, frequencies)
    k = rotate(k, frequencies).repeat_interleave(group, 0)
    v = v.repeat_interleave(group, 0)
    scores = (q @ k.transpose(1, 2)) * head_dim**-0.5
    scores = scores.masked_fill(~visible(settings, length), float("-inf"))
    return project("o_proj", (scores.softmax(-1) @ v).transpose(0, 1).reshape(length, -1))


def plain_logits(ids, weights, settings):
    """Logits [T, vocab] of ids [T]. Token embeddings have a gradient only where the head is tied to
    them: that of both."""
    weights = {name: value.double() for name, value in weights.items()}
    epsilon = settings["rms_norm_eps"]
    table = weights["model.embed_tokens.weight"]
    head = weights.get("lm_head.weight", table)
    x = (table if head is table else table.detach())[ids]
    for index in range(settings["num_hidden_layers"]):
        layer = f"model.layers.{index}"
        normed = rms_norm(x, weights[f"{layer}.input_layernorm.weight"], epsilon)
        x = x + attention(normed, weights, f"{layer}.self_attn", settings)
        normed = rms_norm(x, weights[f"{layer}.post_attention_layernorm.weight"], epsilon)
        gate = normed @ weights[f"{layer}.mlp.gate_proj.weight"].T
        up = normed @ weights[f"{layer}.mlp.up_proj.weight"].T
        inner = torch.nn.functional.silu(gate) * up
        x = x + inner @ weights[f"{layer}.mlp.down_proj.weight"].T
    return rms_norm(x, weights["model.norm.weight"], epsilon) @ head.T
