"""A plain decoder in f64: the forward pass of every decoder family that the golden scripts know,
from the names and shapes of a checkpoint and its config.json. It takes part in torch's autograd."""

import torch

from plain_families import describe, rotary, slides, turns, unfold


def rms_norm(x, weight, epsilon):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * weight


def norm(x, weights, name, settings):
    weight, bias = weights[f"{name}.weight"], weights.get(f"{name}.bias")
    if settings["layer_norm"]:
        return torch.nn.functional.layer_norm(x, weight.shape, weight, bias, settings["epsilon"])
    return rms_norm(x, weight, settings["epsilon"])


def rotate(x, frequencies, factor, interleaved):
    """x [heads, T, head_dim]; pairs are (k, k + turned / 2) of the first `turned` features, or
    neighbours."""
    turned = 2 * len(frequencies)
    angle = torch.arange(x.shape[1], dtype=torch.float64)[:, None] * frequencies
    cosine, sine = factor * angle.cos(), factor * angle.sin()
    part = x[..., :turned]
    first, second = (part[..., ::2], part[..., 1::2]) if interleaved else part.chunk(2, -1)
    pair = first * cosine - second * sine, second * cosine + first * sine
    part = torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1)
    return torch.cat([part, x[..., turned:]], -1)


def visible(settings, layer, length):
    distance = torch.arange(length)[:, None] - torch.arange(length)[None, :]
    mask = distance >= 0
    if settings.get("sliding_window") and slides(settings, layer):
        mask &= distance < settings["sliding_window"]
    return mask


def linear(x, weights, name):
    return torch.nn.functional.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))


def latent_heads(x, weights, prefix, settings):
    """Queries, keys and values [heads, T, .] of DeepSeek's attention; keys share what is turned."""
    length, plain = x.shape[0], settings["qk_nope_head_dim"]
    own = settings | {"epsilon": 1e-6}
    rope = rotary(settings, False, length)

    def heads(y):
        return y.view(length, settings["num_attention_heads"], -1).transpose(0, 1)

    def turned(y):
        rotated = rotate(y[..., plain:], *rope, settings["rope_interleave"])
        return torch.cat([y[..., :plain], rotated], -1)

    m = x
    if f"{prefix}.q_a_proj.weight" in weights:
        m = norm(linear(x, weights, f"{prefix}.q_a_proj"), weights, f"{prefix}.q_a_layernorm", own)
    q = heads(linear(m, weights, f"{prefix}.q_{'b_' if m is not x else ''}proj"))
    kv, k_turned = linear(x, weights, f"{prefix}.kv_a_proj_with_mqa").split(
        [settings["kv_lora_rank"], settings["qk_rope_head_dim"]], -1)
    kv = heads(linear(norm(kv, weights, f"{prefix}.kv_a_layernorm", own), weights,
                      f"{prefix}.kv_b_proj"))
    k = torch.cat([kv[..., :plain], k_turned.expand(len(kv), -1, -1)], -1)
    return turned(q), turned(k), kv[..., plain:]


def attention(x, weights, prefix, settings):
    if "kv_lora_rank" in settings:
        length, layer = x.shape[0], int(prefix.split(".")[2])
        q, k, v = latent_heads(x, weights, prefix, settings)
        scores = (q @ k.transpose(1, 2)) * settings["score_scale"]
        scores = scores.masked_fill(~visible(settings, layer, length), float("-inf"))
        heads = (scores.softmax(-1) @ v).transpose(0, 1).reshape(length, -1)
        return linear(heads, weights, f"{prefix}.o_proj")
    length, head_dim, layer = x.shape[0], settings["head_dim"], int(prefix.split(".")[2])
    group = settings["num_attention_heads"] // settings["num_key_value_heads"]
    q, k, v = (linear(x, weights, f"{prefix}.{name}_proj") for name in "qkv")
    wide = weights.get(f"{prefix}.q_norm.weight", torch.empty(0)).numel() > head_dim
    if wide:
        q, k = (norm(y, weights, f"{prefix}.{n}_norm", settings) for n, y in (("q", q), ("k", k)))
    q, k, v = (y.view(length, -1, head_dim).transpose(0, 1) for y in (q, k, v))
    if f"{prefix}.q_norm.weight" in weights and not wide:
        q, k = (norm(y, weights, f"{prefix}.{n}_norm", settings) for n, y in (("q", q), ("k", k)))
    if turns(settings, layer):
        rope = rotary(settings, slides(settings, layer), length)
        q, k = (rotate(y, *rope, settings["interleaved"]) for y in (q, k))
    k, v = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)
    scores = (q @ k.transpose(1, 2)) * settings["score_scale"]
    if settings["score_cap"]:
        scores = settings["score_cap"] * torch.tanh(scores / settings["score_cap"])
    scores = scores.masked_fill(~visible(settings, layer, length), float("-inf"))
    if f"{prefix}.sinks" in weights:
        sinks = weights[f"{prefix}.sinks"][:, None, None].expand(-1, length, 1)
        scores = torch.cat([scores, sinks], -1).softmax(-1)[..., :-1]
    else:
        scores = scores.softmax(-1)
    heads = (scores @ v).transpose(0, 1).reshape(length, -1)
    return linear(heads, weights, f"{prefix}.o_proj")


def feed_forward(x, weights, prefix, settings):
    up = linear(x, weights, f"{prefix}.up_proj")
    if f"{prefix}.gate_proj.weight" in weights:
        gate = linear(x, weights, f"{prefix}.gate_proj")
        if settings["gate_limit"]:
            limit = settings["gate_limit"]
            gate, up = gate.clamp(max=limit), up.clamp(-limit, limit) + 1
        up = settings["act"](gate) * up
    else:
        up = settings["act"](up)
    return linear(up, weights, f"{prefix}.down_proj")


def choose_in_groups(scores, added, settings):
    """DeepSeek's choice and shares, of [T, experts] that are chosen by."""
    ranks, groups = scores + added, settings.get("n_group") or 1
    if settings.get("topk_method") != "greedy" and groups > 1:
        parts = ranks.view(len(ranks), groups, -1)
        best = parts.topk(2 if settings["model_type"] == "deepseek_v3" else 1, -1).values.sum(-1)
        kept = torch.zeros_like(best, dtype=torch.bool)
        kept[torch.arange(len(best))[:, None], best.topk(settings["topk_group"], -1).indices] = True
        ranks = parts.masked_fill(~kept[..., None], float("-inf")).flatten(1)
    chosen = ranks.topk(settings["num_experts_per_tok"], -1).indices
    shares = scores.gather(-1, chosen)
    if settings["model_type"] == "deepseek_v3" and settings.get("norm_topk_prob", True):
        shares = shares / shares.sum(-1, keepdim=True)
    default = 2.5 if settings["model_type"] == "deepseek_v3" else 1.0
    return chosen, shares * settings.get("routed_scaling_factor", default)


def mixture(x, weights, prefix, settings):
    """The experts that the router chooses for each row, by their shares, and that of all rows."""
    scores = linear(x, weights, f"{prefix}.gate")
    chosen = scores.topk(settings["num_experts_per_tok"], -1).indices
    if settings["model_type"] == "deepseek_v2":
        chosen, shares = choose_in_groups(scores.softmax(-1), 0.0, settings)
    elif settings["model_type"] == "deepseek_v3":
        added = weights[f"{prefix}.gate.e_score_correction_bias"]
        chosen, shares = choose_in_groups(torch.sigmoid(scores), added, settings)
    elif settings["shares_of_all"]:
        shares = scores.softmax(-1).gather(-1, chosen)
    else:
        shares = scores.gather(-1, chosen).softmax(-1)
    sums = []
    for row, experts, parts in zip(x, chosen, shares):
        sums.append(sum(part * feed_forward(row, weights, f"{prefix}.experts.{expert}", settings)
                        for expert, part in zip(experts.tolist(), parts)))
    y = torch.stack(sums)
    if f"{prefix}.shared_expert_gate.weight" in weights:
        shared = feed_forward(x, weights, f"{prefix}.shared_expert", settings)
        y = y + torch.sigmoid(linear(x, weights, f"{prefix}.shared_expert_gate")) * shared
    if f"{prefix}.shared_experts.up_proj.weight" in weights:
        y = y + feed_forward(x, weights, f"{prefix}.shared_experts", settings)
    return y


def plain_logits(ids, weights, settings):
    """Logits [T, vocab] of ids [T]. Token embeddings have a gradient only where the head is tied to
    them: that of both."""
    settings = describe(settings)
    weights = unfold(weights, settings)
    table = weights["model.embed_tokens.weight"]
    head = weights.get("lm_head.weight", table)

    def normed(value, name):
        return norm(value, weights, name, settings) if f"{name}.weight" in weights else value

    x = (table if head is table else table.detach())[ids] * settings["embedding_scale"]
    if "positions.weight" in weights:
        spare = len(weights["positions.weight"]) - settings.get(
            "n_positions", settings.get("max_position_embeddings"))
        x = x + weights["positions.weight"][spare:spare + len(ids)]
    for index in range(settings["num_hidden_layers"]):
        layer = f"model.layers.{index}"
        first = normed(x, f"{layer}.input_layernorm")
        before = x
        y = attention(first, weights, f"{layer}.self_attn", settings)
        x = x + settings["branch_scale"] * normed(y, f"{layer}.attention_behind")
        name = f"{layer}.post_attention_layernorm"
        second = normed(before if settings["parallel"] else x, name)
        if settings["parallel"] and f"{name}.weight" not in weights:
            second = first
        has_experts = f"{layer}.mlp.gate.weight" in weights
        y = (mixture if has_experts else feed_forward)(second, weights, f"{layer}.mlp", settings)
        x = x + settings["branch_scale"] * normed(y, f"{layer}.ffn_behind")
    logits = settings["logit_scale"] * linear(norm(x, weights, "model.norm", settings),
                                              {"head.weight": head,
                                               "head.bias": weights.get("lm_head.bias")}, "head")
    cap = settings["logit_cap"]
    return cap * torch.tanh(logits / cap) if cap else logits
