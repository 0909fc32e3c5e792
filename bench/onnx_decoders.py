#!/usr/bin/env python3
"""Exports small networks of transformers that read tokens (random weights) to ONNX, by both exporters of PyTorch and with
both ways of attention, sequences of any length. Each loses 30 % of its heads and neurons and is healed for three steps. A
line tells the sites, the parameters left, and how far `grail logits` of the narrow file is from ONNX Runtime, relative to
the largest value; or the first node that is left to ONNX Runtime.

needs: torch, transformers, onnx, onnxruntime, onnxscript, safetensors, sympy
usage: onnx_decoders.py GRAIL FOLDER [--only NAME,...]
"""

import argparse
import json
import pathlib
import shutil
import warnings

import numpy as np
import onnxruntime
import torch
import transformers as T
from onnx_optimised import First, logits_of, outputs_of, run

LENGTH = 24
TEXT = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 200,
        "max_position_embeddings": 64}
SHARED = {**TEXT, "num_key_value_heads": 2}
OF_16 = {**SHARED, "head_dim": 16}
BLOCKS = {"vocab_size": 200, "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
ROPE = {"rope_theta": 10000.0}

NETWORKS = {
    "GPT-2": T.GPT2Config(vocab_size=200, n_positions=64, n_embd=64, n_layer=2, n_head=4),
    "GPT-Neo": T.GPTNeoConfig(vocab_size=200, hidden_size=64, num_layers=2, attention_types=[[["global", "local"], 1]], num_heads=4,
                              max_position_embeddings=64, window_size=9, intermediate_size=128),
    "GPT-NeoX": T.GPTNeoXConfig(**TEXT),
    "GPT-J": T.GPTJConfig(vocab_size=200, n_positions=64, n_embd=64, n_layer=2, n_head=4, rotary_dim=8),
    "OPT": T.OPTConfig(**{k: v for k, v in TEXT.items() if k != "intermediate_size"}, ffn_dim=128, word_embed_proj_dim=64),
    "BioGPT": T.BioGptConfig(**TEXT),
    "BLOOM": T.BloomConfig(vocab_size=200, hidden_size=64, n_layer=2, n_head=4),
    "Falcon, one head of keys": T.FalconConfig(**BLOCKS, multi_query=True, parallel_attn=True),
    "Llama": T.LlamaConfig(**SHARED),
    "Llama, one head of keys": T.LlamaConfig(**TEXT, num_key_value_heads=1),
    "Llama, scaled positions": T.LlamaConfig(**SHARED, rope_scaling={**ROPE, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}),
    "Mistral, window 9": T.MistralConfig(**SHARED, sliding_window=9),
    "Qwen 2": T.Qwen2Config(**SHARED),
    "Qwen 3": T.Qwen3Config(**OF_16),
    "Gemma": T.GemmaConfig(**OF_16),
    "Gemma 2, window 9": T.Gemma2Config(**OF_16, sliding_window=9, query_pre_attn_scalar=16),
    "Gemma 3, window 9": T.Gemma3TextConfig(**OF_16, sliding_window=9, layer_types=["sliding_attention", "full_attention"]),
    "Phi": T.PhiConfig(**TEXT),
    "Phi 3": T.Phi3Config(**SHARED, pad_token_id=0),
    "StableLM": T.StableLmConfig(**SHARED),
    "StarCoder 2": T.Starcoder2Config(**SHARED),
    "Nemotron": T.NemotronConfig(**SHARED),
    "OLMo 2": T.Olmo2Config(**SHARED),
    "Granite": T.GraniteConfig(**SHARED, embedding_multiplier=2.0, attention_multiplier=0.2, residual_multiplier=0.5, logits_scaling=2.0),
    "SmolLM 3": T.SmolLM3Config(**SHARED, no_rope_layers=[1, 0], pad_token_id=0),
    "EXAONE 4, window 9": T.Exaone4Config(**SHARED, sliding_window=9, layer_types=["sliding_attention", "full_attention"]),
    "Cohere": T.CohereConfig(**SHARED),
    "GLM 4": T.Glm4Config(**OF_16, pad_token_id=0),
    "CLIP, text": T.CLIPTextConfig(**TEXT, eos_token_id=199, bos_token_id=198, pad_token_id=1),
    "ModernBERT, window 16": T.ModernBertConfig(**TEXT, global_attn_every_n_layers=2, local_attention=16, pad_token_id=0),
    "ESM, rotary": T.EsmConfig(**TEXT, position_embedding_type="rotary", pad_token_id=1, mask_token_id=2),
    "BERT": T.BertConfig(**TEXT),
    "MPNet": T.MPNetConfig(vocab_size=200, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, max_position_embeddings=80),
    "T5, encoder": T.T5Config(vocab_size=200, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4),
}
CLASSES = {"CLIP, text": T.CLIPTextModel, "T5, encoder": T.T5EncoderModel, "ModernBERT, window 16": T.ModernBertModel,
           "ESM, rotary": T.EsmModel, "BERT": T.BertModel, "MPNet": T.MPNetModel}


def export(name, attention, exporter, path):
    torch.manual_seed(0)
    make = CLASSES[name]._from_config if name in CLASSES else T.AutoModelForCausalLM.from_config
    network = make(NETWORKS[name], attn_implementation=attention).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.rand_like(parameter) * 1e-2)
    names = ["input_ids", "attention_mask"]
    values = torch.randint(5, 190, (2, LENGTH)), torch.ones(2, LENGTH, dtype=torch.long)
    if exporter == "traced":
        torch.onnx.export(First(network, names), values, str(path), input_names=names, output_names=["y"], opset_version=17,
                          dynamic_axes={one: {0: "N", 1: "T"} for one in names}, dynamo=False)
    else:
        sizes = {0: torch.export.Dim("N"), 1: torch.export.Dim("T", min=2, max=60)}
        made = torch.onnx.export(First(network, names), values, input_names=names, output_names=["y"], dynamo=True, verbose=False,
                                 dynamic_shapes={"values": (sizes, sizes)})
        made.save(str(path))


def cut(grail, path, folder):
    generator = np.random.default_rng(0)
    np.save(folder / "calib.npy", generator.integers(5, 190, (16, LENGTH)))
    regions = [line for line in run(grail, "inspect", path).splitlines() if line.startswith("region of ")]
    shutil.rmtree(folder / "out", ignore_errors=True)
    healed = [] if regions else ["--heal", "model", "--heal-steps", 3, "--heal-batch", 4]
    run(grail, "compress", path, "-o", folder / "out", "--calib", folder / "calib.npy", "--sites", "ffn" if regions else "heads,ffn",
        "--sparsity", 0.3, "--threads", 1, "--quiet", *healed)
    report = json.loads((folder / "out" / "report.json").read_text())
    samples = {"input_ids": generator.integers(5, 190, (16, 31)), "attention_mask": np.ones((16, 31), np.int64)}
    try:
        outputs_of(path, samples)
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail: # a file whose exporter has fixed the length
        samples = {one: array[:, :LENGTH] for one, array in samples.items()}
    made = folder / "out" / path.name
    theirs, ours = outputs_of(made, samples).reshape(-1), logits_of(grail, made, samples, folder).reshape(-1)
    apart = np.abs(ours - theirs).max() / np.abs(theirs).max()
    kinds = [site["kind"] for site in report["sites"]]
    counts = ", ".join(f"{kind} {kinds.count(kind)}" for kind in sorted(set(kinds)))
    share = report["narrow"]["parameters"] / report["dense"]["parameters"]
    return f"{counts} | {share:.0%} | {apart:.1e} | {regions[0].split(': ', 1)[1] if regions else ''}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("grail", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", type=lambda names: names.split(";"))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    onnxruntime.set_default_logger_severity(4)
    T.logging.set_verbosity_error()
    given.folder.mkdir(parents=True, exist_ok=True)
    print("| network | attention | exported | sites | parameters left | ONNX Runtime and grail | left to ONNX Runtime |\n|---|---|---|---|---|---|---|")
    for name in given.only or NETWORKS:
        for attention in ("eager", "sdpa"):
            for exporter in ("traced", "torch.export"):
                path = given.folder / f"{name}-{attention}-{exporter}.onnx".replace(", ", "-").replace(" ", "")
                try:
                    if not path.exists():
                        export(name, attention, exporter, path)
                    print(f"| {name} | {attention} | {exporter} | {cut(given.grail, path, given.folder)} |", flush=True)
                except (RuntimeError, ValueError, AssertionError, torch.onnx.errors.OnnxExporterError) as error:
                    print(f"| {name} | {attention} | {exporter} | {str(error).splitlines()[0][:300]} |", flush=True)


if __name__ == "__main__":
    main()
