"""What sets the families of decoders apart from llama, for plain_decoder.py: from config.json to one
description, and from the tensors of a checkpoint to those that llama would have. Written from the
modeling files of Hugging Face transformers; takes part in torch's autograd."""

import math
import re

import torch


def quick_gelu(x):
    return x * torch.sigmoid(1.702 * x)


def gelu_tanh(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


ACTIVATIONS = {"silu": torch.nn.functional.silu, "gelu": torch.nn.functional.gelu,
               "gelu_new": gelu_tanh, "gelu_pytorch_tanh": gelu_tanh, "relu": torch.relu, "quick_gelu": quick_gelu, "relu2": lambda x: torch.relu(x) ** 2}

NORMS_BY_LAYER = ("gpt2", "gpt_neox", "opt", "stablelm", "starcoder2", "cohere", "cohere2", "phi",
                  "olmo", "falcon", "nemotron")
NORMS_ADD_ONE = ("gemma", "gemma2", "gemma3_text", "nemotron")
INTERLEAVED = ("glm", "glm4", "cohere", "cohere2")
USUAL_EPSILON = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "smollm3",
                 "granite", "granitemoe", "qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3")
SHARES_OF_ALL = ("qwen2_moe", "qwen3_moe", "olmoe")  # unless "norm_topk_prob" says otherwise
DEFAULTS = {  # of what config.json may leave out
    "gemma": {"hidden_act": "gelu_pytorch_tanh"}, "gpt2": {"hidden_act": "gelu_new"},
    "gemma2": {"hidden_act": "gelu_pytorch_tanh", "query_pre_attn_scalar": 256},
    "gemma3_text": {"hidden_act": "gelu_pytorch_tanh", "query_pre_attn_scalar": 256,
                    "rope_theta": 1e6, "rope_local_base_freq": 1e4},
    "opt": {"hidden_act": "relu"}, "starcoder2": {"hidden_act": "gelu_pytorch_tanh"},
    "gpt_neox": {"hidden_act": "gelu", "rotary_pct": 0.25, "use_parallel_residual": True},
    "stablelm": {"partial_rotary_factor": 0.25}, "smollm3": {"rope_theta": 2e6},
    "glm": {"partial_rotary_factor": 0.5}, "glm4": {"partial_rotary_factor": 0.5},
    "phi": {"hidden_act": "gelu_new", "partial_rotary_factor": 0.5},
    "cohere": {"logit_scale": 0.0625, "rope_theta": 5e5}, "cohere2": {"logit_scale": 0.0625},
    "olmo3": {"rope_theta": 5e5}, "falcon": {"hidden_act": "gelu"},
    "nemotron": {"hidden_act": "relu2", "partial_rotary_factor": 0.5},
    "mixtral": {"rope_theta": 1e6}, "gpt_oss": {"rope_theta": 1.5e5},
}


def first_of(settings, *keys):
    return next((settings[key] for key in keys if settings.get(key) is not None), None)


# ---- rotary positions

def scaled_yarn(frequencies, rope, size, theta, context):
    original = rope.get("original_max_position_embeddings", context)
    factor = rope["factor"]
    turns = [size * math.log(original / (beta * 2 * math.pi)) / (2 * math.log(theta))
             for beta in (rope.get("beta_fast", 32), rope.get("beta_slow", 1))]
    if rope.get("truncate", True):
        turns = [math.floor(turns[0]), math.ceil(turns[1])]
    low, high = max(turns[0], 0), min(turns[1], size - 1)
    ramp = ((torch.arange(len(frequencies), dtype=torch.float64) - low) / (high - low)).clamp(0, 1)
    scaled = frequencies * (ramp / factor + 1 - ramp)
    if rope.get("mscale") and rope.get("mscale_all_dim"):
        return scaled, yarn_magnitude(rope, "mscale") / yarn_magnitude(rope, "mscale_all_dim")
    return scaled, 0.1 * math.log(factor) + 1


def yarn_magnitude(rope, key):
    return 0.1 * rope[key] * math.log(rope["factor"]) + 1


def scaled_llama3(frequencies, rope):
    low, high, factor = (rope[f"{key}factor"] for key in ("low_freq_", "high_freq_", ""))
    original = rope["original_max_position_embeddings"]
    wavelength = 2 * torch.pi / frequencies
    smooth = (original / wavelength - low) / (high - low)
    middle = frequencies * ((1 - smooth) / factor + smooth)
    scaled = torch.where(wavelength > original / low, frequencies / factor, middle)
    return torch.where(wavelength < original / high, frequencies, scaled)


def rotary(settings, slides, length):
    """(frequencies of the pairs that are turned, factor of what is turned)"""
    windows = settings["model_type"] == "gemma3_text" and slides
    parameters = settings.get("rope_parameters") or {}
    parameters = parameters.get("sliding_attention" if slides else "full_attention", parameters)
    rope = parameters or (None if windows else settings.get("rope_scaling")) or {}
    theta = first_of(rope, "rope_theta") or first_of(
        settings, "rope_local_base_freq" if windows else "rope_theta", "rotary_emb_base") or 1e4
    partial = first_of(rope, "partial_rotary_factor") or first_of(
        settings, "partial_rotary_factor", "rotary_pct") or 1.0
    size = settings.get("qk_rope_head_dim") or int(settings["head_dim"] * partial)
    frequencies = theta ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    context = settings["max_position_embeddings"]
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "llama3":
        return scaled_llama3(frequencies, rope), 1.0
    if kind == "linear":
        return frequencies / rope["factor"], 1.0
    if kind == "yarn":
        return scaled_yarn(frequencies, rope, size, theta, context)
    if kind == "longrope":
        original = settings.get("original_max_position_embeddings") or rope[
            "original_max_position_embeddings"]
        divisors = rope["long_factor" if length > original else "short_factor"]
        factor = math.sqrt(1 + math.log(context / original) / math.log(original))
        return frequencies / torch.tensor(divisors, dtype=torch.float64), factor
    return frequencies, 1.0


# ---- layers

def slides(settings, layer):
    kind = settings["model_type"]
    if "layer_types" in settings:
        return settings["layer_types"][layer] == "sliding_attention"
    if kind in ("qwen2", "qwen3"):
        return bool(settings.get("use_sliding_window"))
    pattern = {"gemma2": 2, "gemma3_text": 6, "cohere2": 4, "olmo3": 4, "gpt_oss": 2, "exaone4": 4}.get(kind)
    pattern = settings.get("sliding_window_pattern", pattern)
    return pattern is None or (layer + 1) % pattern != 0


def turns(settings, layer):
    kind = settings["model_type"]
    if kind in ("gpt2", "opt"):
        return False
    if kind == "smollm3":
        return (layer + 1) % settings.get("no_rope_layer_interval", 4) != 0
    if kind == "exaone4" and settings.get("sliding_window") is None:
        return True
    return kind not in ("cohere2", "exaone4") or slides(settings, layer)


def describe(settings):
    """The settings under llama's names, and what else the forward pass needs."""
    kind = settings["model_type"]
    settings = DEFAULTS.get(kind, {}) | settings
    heads = first_of(settings, "num_attention_heads", "n_head")
    hidden = first_of(settings, "hidden_size", "n_embd")
    own = settings | {
        "num_hidden_layers": first_of(settings, "num_hidden_layers", "n_layer"),
        "num_attention_heads": heads,
        "num_key_value_heads": first_of(settings, "num_key_value_heads", "num_kv_heads") or heads,
        "head_dim": first_of(settings, "head_dim") or hidden // heads,
        "epsilon": first_of(settings, "rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon",
                            "norm_epsilon", "norm_eps") or (
                                1e-6 if kind in USUAL_EPSILON else 1e-5),
        "act": quick_gelu if kind == "gpt_oss" else ACTIVATIONS[first_of(settings, "hidden_activation", "activation_function",
                                    "activation", "hidden_act") or "silu"],
        "gate_limit": settings.get("swiglu_limit", 7.0) if kind == "gpt_oss" else None,
        "layer_norm": kind in NORMS_BY_LAYER,
        "interleaved": kind in INTERLEAVED,
        "parallel": kind in ("cohere", "cohere2", "phi", "falcon") or bool(
            settings.get("use_parallel_residual", kind == "gpt_neox")),
        "score_scale": (settings.get("attention_multiplier")
                        or first_of(settings, "query_pre_attn_scalar") ** -0.5
                        if first_of(settings, "attention_multiplier", "query_pre_attn_scalar")
                        else (first_of(settings, "head_dim") or hidden // heads) ** -0.5),
        "score_cap": settings.get("attn_logit_softcapping"),
        "logit_cap": settings.get("final_logit_softcapping"),
        "embedding_scale": hidden**0.5 if kind.startswith("gemma") else
        settings.get("embedding_multiplier", 1.0),
        "branch_scale": settings.get("residual_multiplier", 1.0),
        "shares_of_all": kind in SHARES_OF_ALL and not settings.get("norm_topk_prob"),
        "logit_scale": settings.get("logit_scale", 1.0) / settings.get("logits_scaling", 1.0),
    }
    if "kv_lora_rank" in settings:  # DeepSeek's attention
        own["rope_interleave"] = settings.get("rope_interleave", True)
        own["score_scale"] = (settings["qk_nope_head_dim"] + settings["qk_rope_head_dim"]) ** -0.5
        scaling = settings.get("rope_scaling") or {}
        if scaling.get("mscale_all_dim"):
            own["score_scale"] *= yarn_magnitude(scaling, "mscale_all_dim") ** 2
    return own


# ---- tensors

NAMES = {  # of parts in llama, by their names in a family
    "gpt2": {r"^(transformer\.)?wte\.": "model.embed_tokens.", r"^(transformer\.)?wpe\.": "positions.",
             r"^(transformer\.)?ln_f\.": "model.norm.", r"^(transformer\.)?h\.": "model.layers.",
             r"\.ln_1\.": ".input_layernorm.", r"\.ln_2\.": ".post_attention_layernorm.",
             r"\.attn\.c_proj\.": ".self_attn.o_proj.", r"\.attn\.c_attn\.": ".self_attn.qkv_proj.",
             r"\.c_fc\.": ".up_proj.", r"\.mlp\.c_proj\.": ".mlp.down_proj."},
    "opt": {r"^model\.decoder\.layers": "model.layers", r"^model\.decoder\.embed_tokens": "model.embed_tokens",
            r"^model\.decoder\.embed_positions": "positions",
            r"^model\.decoder\.final_layer_norm": "model.norm",
            r"self_attn_layer_norm": "input_layernorm", r"\.final_layer_norm": ".post_attention_layernorm",
            r"\.out_proj\.": ".o_proj.", r"\.fc1\.": ".mlp.up_proj.", r"\.fc2\.": ".mlp.down_proj."},
    "gpt_neox": {r"^gpt_neox\.embed_in": "model.embed_tokens", r"^gpt_neox\.final_layer_norm": "model.norm",
                 r"^gpt_neox\.": "model.", r"^embed_out": "lm_head", r"\.attention\.dense": ".self_attn.o_proj",
                 r"\.attention\.": ".self_attn.", "dense_h_to_4h": "up_proj", "dense_4h_to_h": "down_proj"},
    "falcon": {r"^transformer\.word_embeddings": "model.embed_tokens", r"^transformer\.ln_f": "model.norm",
               r"^transformer\.h\.": "model.layers.", r"\.ln_attn\.": ".input_layernorm.",
               r"\.ln_mlp\.": ".post_attention_layernorm.",
               r"\.self_attention\.dense": ".self_attn.o_proj", r"\.self_attention\.": ".self_attn.",
               "dense_h_to_4h": "up_proj", "dense_4h_to_h": "down_proj"},
    "starcoder2": {r"\.c_fc\.": ".up_proj.", r"\.mlp\.c_proj\.": ".mlp.down_proj."},
    "phi": {r"\.self_attn\.dense": ".self_attn.o_proj", r"\.fc1\.": ".up_proj.", r"\.fc2\.": ".down_proj.",
            r"model\.final_layernorm": "model.norm"},
    "gemma2": {"post_attention_layernorm": "attention_behind", "pre_feedforward_layernorm":
               "post_attention_layernorm", "post_feedforward_layernorm": "ffn_behind"},
    "olmo2": {"post_attention_layernorm": "attention_behind", "post_feedforward_layernorm": "ffn_behind"},
    "mixtral": {r"\.block_sparse_moe\.": ".mlp.", r"\.w1\.": ".gate_proj.", r"\.w3\.": ".up_proj.",
                r"\.w2\.": ".down_proj."},
    "granitemoe": {r"\.block_sparse_moe\.router\.layer": ".mlp.gate", r"\.block_sparse_moe\.": ".mlp.",
                   r"\.mlp\.input_linear\.": ".mlp.gate_up_proj.",
                   r"\.mlp\.output_linear\.": ".mlp.down_proj."},
    "gpt_oss": {r"\.mlp\.router\.": ".mlp.gate."},
    "glm4": {"post_self_attn_layernorm": "attention_behind", "post_mlp_layernorm": "ffn_behind"},
}
NAMES["gemma3_text"] = NAMES["gemma2"]
NAMES["olmo3"] = NAMES["exaone4"] = NAMES["olmo2"]


def renamed(name, kind):
    for old, new in NAMES.get(kind, {}).items():
        name, count = re.subn(old, new, name)
        if count and kind in ("gemma2", "gemma3_text", "olmo2", "olmo3", "exaone4", "glm4"):
            break  # names of others are names here
    return name


def split_heads(fused, kind, settings):
    """q, k and v of a fused tensor."""
    heads, keys = settings["num_attention_heads"], settings["num_key_value_heads"]
    size = settings["head_dim"]
    if kind == "gpt_neox":
        parts = fused.view(heads, 3, size, *fused.shape[1:]).unbind(1)
        return [part.flatten(0, 1) for part in parts]
    if kind == "falcon":
        group = heads // keys
        parts = fused.view(keys, group + 2, size, *fused.shape[1:])
        return [part.flatten(0, 2) for part in (parts[:, :group], parts[:, group:-1], parts[:, -1:])]
    return fused.split([heads * size, keys * size, keys * size])


def split_experts(name, value):
    """The experts' matrices [in, out] and biases of gpt_oss, gates and ups turn by turn."""
    layer, part = name.split(".experts.")
    kind = "bias" if part.endswith("_bias") else "weight"
    for expert, piece in enumerate(value):
        piece = piece if kind == "bias" else piece.T
        pieces = {"gate_proj": piece[::2], "up_proj": piece[1::2]} if "gate" in part else {
            "down_proj": piece}
        for own, values in pieces.items():
            yield f"{layer}.experts.{expert}.{own}.{kind}", values


def unfold(weights, settings):
    """The tensors of llama, in f64."""
    kind = settings["model_type"]
    found = {}
    for name, value in weights.items():
        value = value.double()
        if kind == "gpt_oss" and ".experts." in name:
            found |= split_experts(name, value)
            continue
        own = renamed(name, kind)
        is_norm = "norm" in own or "_behind" in own
        if kind == "gpt2" and value.dim() == 2 and ".layers." in own:
            value = value.T
        if kind in NORMS_ADD_ONE and is_norm and own.endswith("weight"):
            value = 1 + value
        if value.dim() == 3:  # experts, one after another
            for expert, piece in enumerate(value):
                place = own.replace(".mlp.", f".mlp.experts.{expert}.")
                found |= unfold({place: piece}, {"model_type": "llama"})
        elif "qkv_proj" in own or "query_key_value" in own:
            fused = "qkv_proj" if "qkv_proj" in own else "query_key_value"
            for part, piece in zip("qkv", split_heads(value, kind, settings)):
                found[own.replace(fused, f"{part}_proj")] = piece
        elif "gate_up_proj" in own:
            for part, piece in zip(("gate", "up"), value.chunk(2)):
                found[own.replace("gate_up_proj", f"{part}_proj")] = piece
        else:
            found[own] = value
    if kind == "olmo":  # its norms have no weights
        ones = torch.ones(settings["hidden_size"], dtype=torch.float64)
        for layer in range(settings["num_hidden_layers"]):
            for name in ("input_layernorm", "post_attention_layernorm"):
                found[f"model.layers.{layer}.{name}.weight"] = ones
        found["model.norm.weight"] = ones
    return found
