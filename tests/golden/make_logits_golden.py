#!/usr/bin/env python3
"""Tiny random decoders and their reference logits, for the forward-pass tests.

Writes models/<name>/{config.json, model.safetensors, golden.safetensors} beside this script;
golden.safetensors holds "ids" (I64 [sequences, T]) and "logits" (F32 [sequences, T, vocab]).

Each model is computed twice: by Hugging Face transformers, whose logits are written, and by
plain_decoder.py in f64, which must agree. transformers must know every family (>= 5.23).

usage: make_logits_golden.py [--only NAME,...] [--stories DIRECTORY_OF_STORIES260K TEXT]
"""

import argparse
import json
import pathlib
import re
import sys
import tempfile

import numpy
import safetensors
import safetensors.torch
import torch
import transformers

from plain_decoder import plain_logits

HERE = pathlib.Path(__file__).resolve().parent / "models"
VOCAB, LENGTH, SEQUENCES = 96, 40, 2
AGREEMENT = 2e-5

FAMILY = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
DTYPE_NAME = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}
LLAMA3_SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


def config(model_type, **changes):
    """A config.json in the spelling of transformers 4 (rope_theta, rope_scaling, torch_dtype).

    rms_norm_eps is large, so that a reader who misses it is seen at a tolerance of 1e-4."""
    base = {
        "architectures": [FAMILY[model_type]],
        "model_type": model_type,
        "vocab_size": VOCAB,
        "hidden_size": 64,
        "intermediate_size": 80,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 8,
        "hidden_act": "silu",
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-3,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    if model_type == "llama":
        base |= {"attention_bias": False, "mlp_bias": False}
    return base | changes


LLAMA3 = config("llama", rope_theta=500000.0, rope_scaling=LLAMA3_SCALING)


def config_v5(original):
    """The same configuration in the spelling of transformers 5."""
    result = {key: value for key, value in original.items() if not key.startswith("rope_")}
    result["rope_parameters"] = {"rope_theta": original["rope_theta"]} | original["rope_scaling"]
    return result


# name: (configuration, stored dtype, seed, sequence length)
MODELS = {
    "llama3": (LLAMA3, torch.float32, 1, LENGTH),
    "llama3-bf16": (LLAMA3, torch.bfloat16, 1, LENGTH),
    "llama3-sharded": (config_v5(LLAMA3), torch.bfloat16, 1, 12),
    "llama-mha": (
        config("llama", num_key_value_heads=8, tie_word_embeddings=True, attention_bias=True),
        torch.float16, 2, LENGTH),
    "llama-mqa": (config("llama", num_key_value_heads=1), torch.float16, 3, LENGTH),
    "mistral": (config("mistral", sliding_window=8), torch.bfloat16, 4, LENGTH),
    "qwen2": (
        config("qwen2", tie_word_embeddings=True, rope_theta=1e6, rms_norm_eps=1e-6,
               use_sliding_window=False, sliding_window=8, max_window_layers=2),
        torch.float32, 5, LENGTH),
    "qwen3": (
        config("qwen3", head_dim=16, rope_theta=1e6, attention_bias=False,
               use_sliding_window=False, sliding_window=None, max_window_layers=2),
        torch.bfloat16, 6, LENGTH),
}
SHARDS = 2

SIZES = {"vocab_size": VOCAB, "hidden_size": 48, "intermediate_size": 56, "num_hidden_layers": 2,
         "num_attention_heads": 6, "num_key_value_heads": 3, "max_position_embeddings": 64}
OTHER_SIZES = {  # keys of SIZES that a family calls otherwise; None: it has no such key
    "gpt2": {"hidden_size": "n_embd", "intermediate_size": "n_inner",
             "num_hidden_layers": "n_layer", "num_attention_heads": "n_head",
             "num_key_value_heads": None, "max_position_embeddings": "n_positions"},
    "gpt_neox": {"num_key_value_heads": None},
    "opt": {"num_key_value_heads": None, "intermediate_size": "ffn_dim"},
    "falcon": {"num_key_value_heads": "num_kv_heads", "intermediate_size": "ffn_hidden_size"},
}
GPT_OSS_YARN = {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
                "truncate": False, "original_max_position_embeddings": 16}
MXFP4 = {"quant_method": "mxfp4", "modules_to_not_convert": [
    "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}
LONGROPE = {"type": "longrope", "short_factor": [1.0, 1.1, 1.3], "long_factor": [1.5, 2.5, 4.0]}


def family(model_type, **own):
    """config.json of a small network with what the family does not have by default."""
    names = OTHER_SIZES.get(model_type, {})
    sizes = {names.get(key, key): value for key, value in SIZES.items()}
    sizes.pop(None, None)
    return {"model_type": model_type} | sizes | own


# name: (configuration, stored dtype, seed, sequence length); their own library names the tensors
FAMILIES = {
    "gemma": (family("gemma", head_dim=16, rms_norm_eps=1e-3, rope_theta=1000.0),
              torch.bfloat16, 11, 24),
    "phi3": (family("phi3", rms_norm_eps=1e-3, rope_theta=1000.0, partial_rotary_factor=0.75,
                    rope_scaling=LONGROPE, original_max_position_embeddings=16,
                    sliding_window=12, pad_token_id=0), torch.float16, 12, 24),
    "phi3-short": (family("phi3", rope_theta=1000.0, rope_scaling=LONGROPE | {
        "short_factor": [1.0, 1.1, 1.3, 1.5], "long_factor": [1.5, 2.5, 4.0, 6.0]},
        original_max_position_embeddings=32, pad_token_id=0), torch.bfloat16, 13, 24),
    "gpt2": (family("gpt2", layer_norm_epsilon=1e-3), torch.float16, 14, 24),
    "llama-yarn": (family("llama", rms_norm_eps=1e-3, rope_scaling={
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}),
        torch.bfloat16, 15, 24),
    "gemma2": (family("gemma2", head_dim=16, rms_norm_eps=1e-3, sliding_window=8,
                      query_pre_attn_scalar=20, attn_logit_softcapping=1.5,
                      final_logit_softcapping=2.5), torch.bfloat16, 16, 24),
    "gemma3": (family("gemma3_text", head_dim=16, rms_norm_eps=1e-3, sliding_window=8,
                      sliding_window_pattern=2, query_pre_attn_scalar=20, rope_theta=2e4,
                      rope_local_base_freq=500.0,
                      rope_scaling={"rope_type": "linear", "factor": 2.0}),
               torch.bfloat16, 17, 24),
    "granite": (family("granite", rms_norm_eps=1e-3, embedding_multiplier=3.0,
                       residual_multiplier=0.4, attention_multiplier=0.3, logits_scaling=0.5,
                       tie_word_embeddings=True), torch.bfloat16, 18, 24),
    "smollm3": (family("smollm3", rms_norm_eps=1e-3, no_rope_layer_interval=2, pad_token_id=0),
                torch.bfloat16, 19, 24),
    "starcoder2": (family("starcoder2", norm_epsilon=1e-3, sliding_window=8),
                   torch.bfloat16, 20, 24),
    "stablelm": (family("stablelm", layer_norm_eps=1e-3, use_qkv_bias=True,
                        partial_rotary_factor=0.5, rope_theta=100.0), torch.bfloat16, 21, 24),
    "stablelm-parallel": (family("stablelm", use_parallel_residual=True), torch.bfloat16, 22, 24),
    "opt": (family("opt", word_embed_proj_dim=48), torch.bfloat16, 23, 24),
    "gpt-neox": (family("gpt_neox", layer_norm_eps=1e-3, rotary_pct=0.5, rotary_emb_base=100),
                 torch.bfloat16, 24, 24),
    "phi": (family("phi", layer_norm_eps=1e-3, partial_rotary_factor=0.75),
            torch.bfloat16, 25, 24),
    "glm": (family("glm", head_dim=12, rms_norm_eps=1e-3, rope_theta=100.0, pad_token_id=0),
            torch.bfloat16, 26, 24),
    "glm4": (family("glm4", head_dim=12, rms_norm_eps=1e-3, rope_theta=100.0, pad_token_id=0),
             torch.bfloat16, 27, 24),
    "cohere": (family("cohere", layer_norm_eps=1e-3, logit_scale=0.5), torch.bfloat16, 28, 24),
    "cohere2": (family("cohere2", head_dim=8, layer_norm_eps=1e-3, logit_scale=0.5,
                       sliding_window=8, sliding_window_pattern=2, rope_theta=100.0),
                torch.bfloat16, 29, 24),
    "olmo": (family("olmo"), torch.bfloat16, 30, 24),
    "olmo2": (family("olmo2", rms_norm_eps=1e-3), torch.bfloat16, 31, 24),
    "olmo3": (family("olmo3", rms_norm_eps=1e-3, sliding_window=8,
                     layer_types=["sliding_attention", "full_attention"],
                     rope_parameters={"sliding_attention": {"rope_type": "default",
                                                            "rope_theta": 500.0},
                                      "full_attention": {"rope_type": "default",
                                                         "rope_theta": 2e4}}),
              torch.bfloat16, 32, 24),
    "falcon": (family("falcon", new_decoder_architecture=True, layer_norm_epsilon=1e-3),
               torch.bfloat16, 33, 24),
    "exaone4": (family("exaone4", head_dim=8, rms_norm_eps=1e-3, sliding_window=8,
                       sliding_window_pattern=2, rope_theta=100.0), torch.bfloat16, 44, 24),
    "exaone4-windowless": (family("exaone4", head_dim=8, sliding_window=None, rope_theta=100.0,
                                  layer_types=["full_attention"] * 2), torch.bfloat16, 45, 24),
    "nemotron": (family("nemotron", norm_eps=1e-3, head_dim=8, rope_theta=100.0,
                        partial_rotary_factor=0.5), torch.bfloat16, 46, 24),
    "mixtral": (family("mixtral", intermediate_size=24, num_local_experts=4, num_experts_per_tok=2,
                       rms_norm_eps=1e-3, sliding_window=8), torch.bfloat16, 34, 24),
    "qwen2-moe": (family("qwen2_moe", num_hidden_layers=3, moe_intermediate_size=16,
                         shared_expert_intermediate_size=20, num_experts=5, num_experts_per_tok=3,
                         mlp_only_layers=[1], rms_norm_eps=1e-3), torch.bfloat16, 35, 24),
    "qwen3-moe": (family("qwen3_moe", head_dim=12, moe_intermediate_size=16, num_experts=6,
                         num_experts_per_tok=2, norm_topk_prob=True, rms_norm_eps=1e-3,
                         num_hidden_layers=3, decoder_sparse_step=2), torch.bfloat16, 36, 24),
    "olmoe": (family("olmoe", intermediate_size=16, num_experts=5, num_experts_per_tok=2,
                     rms_norm_eps=1e-3, pad_token_id=0, eos_token_id=2), torch.bfloat16, 37, 24),
    "granitemoe": (family("granitemoe", intermediate_size=16, num_local_experts=4,
                          num_experts_per_tok=2, rms_norm_eps=1e-3, embedding_multiplier=3.0,
                          residual_multiplier=0.4, attention_multiplier=0.3, logits_scaling=0.5),
                   torch.bfloat16, 38, 24),
    "gpt-oss": (family("gpt_oss", head_dim=12, intermediate_size=16, num_local_experts=4,
                       num_experts_per_tok=2, rms_norm_eps=1e-3, sliding_window=8,
                       swiglu_limit=0.5, rope_theta=1000.0, rope_scaling=GPT_OSS_YARN),
                torch.bfloat16, 39, 24),
    "gpt-oss-mxfp4": (family("gpt_oss", hidden_size=64, head_dim=12, intermediate_size=32,
                             num_local_experts=3, num_experts_per_tok=2, rms_norm_eps=1e-3,
                             rope_theta=1000.0, rope_scaling=GPT_OSS_YARN,
                             quantization_config=MXFP4), torch.bfloat16, 40, 24),
    "deepseek-v2": (family("deepseek_v2", num_key_value_heads=6, moe_intermediate_size=16,
                           n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=2,
                           first_k_dense_replace=1, kv_lora_rank=20, q_lora_rank=None,
                           qk_nope_head_dim=10, qk_rope_head_dim=4, v_head_dim=8,
                           topk_method="group_limited_greedy", n_group=3, topk_group=2,
                           routed_scaling_factor=1.5, rms_norm_eps=1e-3, rope_theta=1000.0,
                           pad_token_id=0), torch.bfloat16, 41, 24),
    "deepseek-v3": (family("deepseek_v3", num_key_value_heads=6, num_hidden_layers=3,
                           moe_intermediate_size=16, n_routed_experts=6, num_experts_per_tok=2,
                           n_shared_experts=1, first_k_dense_replace=1, kv_lora_rank=20,
                           q_lora_rank=24, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=8,
                           n_group=2, topk_group=1, rms_norm_eps=1e-3, rope_theta=1000.0,
                           num_nextn_predict_layers=0, pad_token_id=0,
                           rope_scaling={"rope_type": "yarn", "factor": 4.0, "mscale": 1.0,
                                         "mscale_all_dim": 0.5, "beta_fast": 32, "beta_slow": 1,
                                         "original_max_position_embeddings": 16}),
                    torch.bfloat16, 42, 24),
    "deepseek-v3-free": (family("deepseek_v3", num_key_value_heads=6, moe_intermediate_size=16,
                                n_routed_experts=5, num_experts_per_tok=2, n_shared_experts=1,
                                first_k_dense_replace=0, kv_lora_rank=20, q_lora_rank=None,
                                qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=12, n_group=1,
                                topk_group=1, norm_topk_prob=False, routed_scaling_factor=1.0,
                                rms_norm_eps=1e-3, rope_interleave=False,
                                num_nextn_predict_layers=0, pad_token_id=0),
                         torch.bfloat16, 43, 24),
}


# ---- weights

def make_weights(settings, seed, dtype):
    """Scaled so that activations and logits have a standard deviation of about 1."""
    random = numpy.random.RandomState(seed)
    hidden, inner = settings["hidden_size"], settings["intermediate_size"]
    head_dim = settings["head_dim"]
    query = settings["num_attention_heads"] * head_dim
    key = settings["num_key_value_heads"] * head_dim
    weights = {}

    def normal(name, *shape, scale, mean=0.0):
        value = mean + scale * random.standard_normal(shape)
        weights[name] = torch.from_numpy(value.astype(numpy.float32)).to(dtype).contiguous()

    def linear(name, rows, columns, gain, bias=False):
        normal(f"{name}.weight", rows, columns, scale=gain / columns**0.5)
        if bias:
            normal(f"{name}.bias", rows, scale=0.4)

    tied = settings["tie_word_embeddings"]
    normal("model.embed_tokens.weight", VOCAB, hidden, scale=hidden**-0.5 if tied else 1.0)
    bias = settings.get("attention_bias", False)
    qkv_bias = bias or settings["model_type"] == "qwen2"
    for index in range(settings["num_hidden_layers"]):
        layer = f"model.layers.{index}"
        normal(f"{layer}.input_layernorm.weight", hidden, scale=0.2, mean=1.0)
        linear(f"{layer}.self_attn.q_proj", query, hidden, 1.4, qkv_bias)
        linear(f"{layer}.self_attn.k_proj", key, hidden, 1.4, qkv_bias)
        linear(f"{layer}.self_attn.v_proj", key, hidden, 1.0, qkv_bias)
        linear(f"{layer}.self_attn.o_proj", hidden, query, 1.0, bias)
        if settings["model_type"] == "qwen3":
            normal(f"{layer}.self_attn.q_norm.weight", head_dim, scale=0.2, mean=1.0)
            normal(f"{layer}.self_attn.k_norm.weight", head_dim, scale=0.2, mean=1.0)
        normal(f"{layer}.post_attention_layernorm.weight", hidden, scale=0.2, mean=1.0)
        linear(f"{layer}.mlp.gate_proj", inner, hidden, 1.4)
        linear(f"{layer}.mlp.up_proj", inner, hidden, 1.4)
        linear(f"{layer}.mlp.down_proj", hidden, inner, 1.0)
    normal("model.norm.weight", hidden, scale=0.2, mean=1.0)
    if not tied:
        linear("lm_head", VOCAB, hidden, 1.0)
    return weights


def family_weights(settings, seed, dtype):
    """Random tensors under the names that the family's library saves."""
    kwargs = {key: value for key, value in settings.items()
              if key not in ("model_type", "quantization_config")}
    config = transformers.AutoConfig.for_model(settings["model_type"], **kwargs)
    with tempfile.TemporaryDirectory() as folder:
        transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
        shapes = {name: value.shape for path in pathlib.Path(folder).glob("*.safetensors")
                  for name, value in safetensors.torch.load_file(path).items()}
    random = numpy.random.RandomState(seed)
    tied = "lm_head.weight" not in shapes and "embed_out.weight" not in shapes
    weights = {}
    for name, shape in sorted(shapes.items()):
        value = random.standard_normal(shape)
        if len(shape) > 1:
            is_table = re.search(r"embed_tokens|wte|embed_in|word_embeddings", name) is not None
            fan_in = shape[0] if re.search(r"\.c_(attn|proj|fc)\.", name) and \
                settings["model_type"] == "gpt2" else shape[-1]
            value *= 1.0 if is_table and not tied else 1.3 * fan_in**-0.5
        elif name.endswith("e_score_correction_bias"):
            value *= 0.1
        elif re.search(r"norm|ln_", name) and name.endswith("weight"):
            adds_one = settings["model_type"].startswith(("gemma", "nemotron"))
            value = 0.2 * value + (0.0 if adds_one else 1.0)
        else:
            value *= 0.3
        weights[name] = torch.from_numpy(value.astype(numpy.float32)).to(dtype).contiguous()
    return weights


# ---- MXFP4

FP4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def packed(matrices):
    """[experts, in, out] as blocks [experts, out, in / 32, 16] and scales [experts, out, in / 32]: to
    the nearest of the codes times the power of two that the largest of 32 needs."""
    rows = matrices.transpose(1, 2).float()
    rows = rows.reshape(*rows.shape[:2], -1, 32)
    exponents = torch.floor(torch.log2(rows.abs().amax(-1))) - 2
    distance = (rows / 2 ** exponents[..., None]).abs()[..., None] - torch.tensor(FP4)
    codes = distance.abs().argmin(-1) + 8 * (rows < 0)
    blocks = codes[..., ::2] + 16 * codes[..., 1::2]
    return blocks.to(torch.uint8), (exponents + 127).to(torch.uint8)


def pack_experts(weights):
    """The experts' matrices in MXFP4, and all tensors with what they are worth then."""
    stored, worth = {}, {}
    codes = torch.tensor(FP4 + tuple(-value for value in FP4))
    for name, value in weights.items():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            stored[name] = worth[name] = value
            continue
        blocks, scales = packed(value)
        stored |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
        pairs = torch.stack([blocks & 15, blocks >> 4], -1).flatten(-2).long()
        rows = codes[pairs] * 2.0 ** (scales.int() - 127)[..., None]
        worth[name] = rows.flatten(-2).transpose(1, 2).to(value.dtype).contiguous()
    return stored, worth


# ---- files

def save(tensors, path):
    safetensors.torch.save_file(tensors, str(path), metadata={"format": "pt"})


def save_sharded(weights, folder):
    """Splits by name, so that both shards hold parts of one layer."""
    names = sorted(weights)
    size = -(-len(names) // SHARDS)
    index = {"metadata": {"total_size": sum(w.numel() * w.element_size()
                                            for w in weights.values())}, "weight_map": {}}
    for number in range(SHARDS):
        file = f"model-{number + 1:05d}-of-{SHARDS:05d}.safetensors"
        part = names[number * size:(number + 1) * size]
        save({name: weights[name] for name in part}, folder / file)
        index["weight_map"] |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def reference_logits(folder, ids):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, torch_dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        return type(model).__name__, model(ids).logits.float()


def make_model(name, settings, dtype, seed, length):
    folder = HERE / name
    folder.mkdir(parents=True, exist_ok=True)
    key = "dtype" if "rope_parameters" in settings else "torch_dtype"
    weights = (family_weights if name in FAMILIES else make_weights)(settings, seed, dtype)
    settings = settings | {key: DTYPE_NAME[dtype]}
    stored = weights
    if "quantization_config" in settings:
        stored, weights = pack_experts(weights)
    (folder / "config.json").write_text(json.dumps(settings, indent=2) + "\n")
    if name.endswith("-sharded"):
        save_sharded(weights, folder)
    else:
        save(stored, folder / "model.safetensors")

    ids = numpy.random.RandomState(100 + seed).randint(0, VOCAB, (SEQUENCES, length))
    ids = torch.from_numpy(ids.astype(numpy.int64))
    loaded, logits = reference_logits(folder, ids)
    plain = torch.stack([plain_logits(row, weights, settings) for row in ids])
    difference = (logits.double() - plain).abs().max().item()
    print(f"{name:16} {loaded:20} logits std {logits.std():.3f}, "
          f"max difference from the plain decoder {difference:.1e}")
    known = FAMILY.get(settings["model_type"], loaded)
    if loaded != known or not difference < AGREEMENT:
        sys.exit(f"{name}: loaded as {loaded}, differs by {difference}")
    save({"ids": ids, "logits": logits.contiguous()}, folder / "golden.safetensors")


def stories_windows(directory, text, windows, length):
    """The text line by line without special tokens, blank lines skipped, cut into windows of
    `length` tokens, each with BOS in front."""
    import tokenizers
    tokenizer = tokenizers.Tokenizer.from_file(str(pathlib.Path(directory) / "tokenizer.json"))
    stream = []
    for line in pathlib.Path(text).read_text(encoding="utf-8").splitlines():
        if line.strip():
            stream += tokenizer.encode(line, add_special_tokens=False).ids
        if len(stream) >= windows * length:
            break
    body = torch.tensor(stream[:windows * length]).view(windows, length)
    return torch.cat([torch.full((windows, 1), tokenizer.token_to_id("<s>")), body], 1)


def make_stories(directory, text):
    ids = stories_windows(directory, text, 60, 255)
    print("first ids", ids[0, :21].tolist())
    _, logits = reference_logits(directory, ids)
    losses = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    print(f"stories260k      perplexity {losses.exp():.5f} over {ids[:, 1:].numel()} tokens")
    short = ids[:2, :64].contiguous()
    _, logits = reference_logits(directory, short)
    save({"ids": short, "logits": logits.contiguous()}, HERE / "stories260k.golden.safetensors")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--stories", nargs=2, metavar=("DIRECTORY", "TEXT"))
    parser.add_argument("--only", default="", help="names with commas; the others stay")
    options = parser.parse_args()
    torch.set_num_threads(1)
    versions = {"python": sys.version.split()[0], "torch": torch.__version__,
                "transformers": transformers.__version__, "numpy": numpy.__version__,
                "safetensors": safetensors.__version__}
    print(json.dumps(versions))
    for name, entry in (MODELS | FAMILIES).items():
        if not options.only or name in options.only.split(","):
            make_model(name, *entry)
    if options.stories:
        make_stories(*options.stories)
    (HERE / "versions.json").write_text(json.dumps(versions, indent=2) + "\n")


if __name__ == "__main__":
    main()
