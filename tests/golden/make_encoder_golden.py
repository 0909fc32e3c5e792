#!/usr/bin/env python3
"""Tiny random encoders and their hidden states by Hugging Face transformers, for the forward-pass tests.

Writes models/<name>/{config.json, model.safetensors, golden.safetensors} beside this script;
golden.safetensors holds "ids" (I64 [sequences, T]) and "hidden" (F32 [sequences, T, hidden]), the last
hidden states, computed in f64. For those in GRADIENTS it also writes gradients/<name>.txt, in the form of and for the
loss that make_gradient_golden.py describes, over all hidden states; tables of tokens are left out.

usage: make_encoder_golden.py [--only NAME,...]
"""

import argparse
import json
import pathlib
import re
import tempfile

import numpy
import safetensors.torch
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent / "models"
VOCAB, LENGTH, SEQUENCES = 96, 24, 2

SIZES = {"vocab_size": VOCAB, "hidden_size": 48, "intermediate_size": 56, "num_hidden_layers": 2,
         "num_attention_heads": 6, "max_position_embeddings": 64}
DISTILBERT = {"vocab_size": VOCAB, "dim": 48, "hidden_dim": 56, "n_layers": 2, "n_heads": 6,
              "max_position_embeddings": 64}
MODERNBERT = SIZES | {"num_hidden_layers": 4, "local_attention": 10, "norm_eps": 1e-3,
                      "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1,
                      "sep_token_id": 2}

# name: (model_type, configuration, class, stored dtype, seed). Epsilons are large, so that a reader who
# misses them is seen at a tolerance of 1e-4.
MODELS = {
    "bert": ("bert", SIZES | {"layer_norm_eps": 1e-3}, transformers.AutoModel, torch.float32, 1),
    "bert-masked": ("bert", SIZES | {"hidden_act": "relu", "type_vocab_size": 3},
                    transformers.AutoModelForMaskedLM, torch.bfloat16, 2),
    "roberta": ("roberta", SIZES | {"layer_norm_eps": 1e-3, "type_vocab_size": 1},
                transformers.AutoModelForMaskedLM, torch.bfloat16, 3),
    "xlm-roberta": ("xlm-roberta", SIZES | {"layer_norm_eps": 1e-5, "type_vocab_size": 1},
                    transformers.AutoModel, torch.float16, 4),
    "distilbert": ("distilbert", DISTILBERT, transformers.AutoModel, torch.bfloat16, 5),
    "modernbert": ("modernbert", MODERNBERT | {
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention",
                        "full_attention"],
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 2000.0},
                            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}},
        transformers.AutoModel, torch.float32, 6),
    # as it is spelled on the hub
    "modernbert-masked": ("modernbert", MODERNBERT | {
        "global_attn_every_n_layers": 2, "global_rope_theta": 3000.0, "local_rope_theta": 50.0,
        "attention_bias": True, "mlp_bias": True}, transformers.AutoModelForMaskedLM,
        torch.bfloat16, 7),
}
GRADIENTS = ("bert", "roberta", "distilbert")  # modernbert turns in f32, whatever its weights are
OLD_NAMES = ("bert-masked",)  # norms have a gamma and a beta, as in TensorFlow


def weights_of(kind, settings, model_class, seed, dtype):
    """Random tensors under the names that the library saves; activations are about 1 in size."""
    config = transformers.AutoConfig.for_model(kind, **settings)
    with tempfile.TemporaryDirectory() as folder:
        model_class.from_config(config).save_pretrained(folder)
        saved = safetensors.torch.load_file(pathlib.Path(folder) / "model.safetensors")
    random = numpy.random.RandomState(seed)
    weights = {}
    for name, value in sorted(saved.items()):
        if not value.is_floating_point():
            weights[name] = value
            continue
        value = random.standard_normal(value.shape)
        if value.ndim > 1 and "embeddings" not in name:
            value *= 1.5 * value.shape[-1] ** -0.5
        elif re.search(r"norm", name, re.IGNORECASE) and name.endswith("weight"):
            value = 1.0 + 0.2 * value
        elif value.ndim == 1:
            value *= 0.3
        weights[name] = torch.from_numpy(value.astype(numpy.float32)).to(dtype).contiguous()
    return weights


def old_names(weights):
    return {re.sub(r"LayerNorm\.weight$", "LayerNorm.gamma",
                   re.sub(r"LayerNorm\.bias$", "LayerNorm.beta", name)): value
            for name, value in weights.items()}


def waves(count, rate, start):
    return torch.cos(rate * torch.arange(count, dtype=torch.float64) + start)


def write_gradients(name, model, hidden, tensors):
    (hidden * waves(hidden.numel(), 0.9, 0.1).view(hidden.shape)).sum().backward()
    prefix = next((p for p in ("roberta.",) if any(t.startswith(p) for t in tensors)), "")
    found = {prefix + key: value.grad for key, value in model.named_parameters()
             if value.grad is not None and not re.search(r"(word|tok)_embeddings", key)}
    largest = max(g.norm().item() for g in found.values())
    lines = []
    for tensor in sorted(set(found) & set(tensors)):
        g = found[tensor]
        norm, projection = g.norm().item(), (g.flatten() @ waves(g.numel(), 0.7, 0.3)).item()
        lines.append(f"{tensor} {norm:.12g} {projection:.12g}\n" if norm > 1e-13 * largest
                     else f"{tensor} 0 0\n")
    print(f"{name:18} gradients of {len(lines)} tensors")
    (HERE.parent / "gradients" / f"{name}.txt").write_text("".join(lines))


def make_model(name):
    kind, settings, model_class, dtype, seed = MODELS[name]
    folder = HERE / name
    folder.mkdir(parents=True, exist_ok=True)
    weights = weights_of(kind, settings, model_class, seed, dtype)
    weights = old_names(weights) if name in OLD_NAMES else weights
    config = {"model_type": kind} | settings | {"torch_dtype": str(dtype).split(".")[1]}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    safetensors.torch.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").double().eval()
    # none is the padding of RoBERTa, whose positions it does not count
    ids = numpy.random.RandomState(100 + seed).randint(4, VOCAB, (SEQUENCES, LENGTH))
    ids = torch.from_numpy(ids.astype(numpy.int64))
    hidden = model(input_ids=ids).last_hidden_state
    if name in GRADIENTS:
        write_gradients(name, model, hidden, weights)
    hidden = hidden.detach()
    print(f"{name:18} {type(model).__name__:18} hidden states: deviation {hidden.std():.3f}")
    safetensors.torch.save_file({"ids": ids, "hidden": hidden.float().contiguous()},
                                folder / "golden.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(MODELS))
    for name in parser.parse_args().only.split(","):
        make_model(name)


main()
