#!/usr/bin/env python3
"""Exports small networks of transformers (random weights) to ONNX and lets ONNX Runtime optimise them in the ways that users
do: by a session that saves what it makes (extended), by its optimizer of transformers (transformers), and that one with
values of FLOAT16 (half). Each loses 30 % of its heads, neurons and channels. A line tells the sites, how far the narrow
outputs are from the dense ones in ONNX Runtime, and how far `grail logits` of the narrow file is from ONNX Runtime,
relative to the largest value. Files of one's own can be given in place of the networks.

needs: torch, transformers, onnx, onnxruntime, safetensors, sympy
usage: onnx_optimised.py GRAIL FOLDER [--only NAME,...] [--file FILE.onnx SAMPLES.npy]
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import warnings

import numpy as np
import onnx
import onnxruntime
import torch
import transformers as T
from onnxruntime.transformers import optimizer
from safetensors.numpy import load_file, save_file

TEXT = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 200,
        "max_position_embeddings": 64}
IMAGE = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "image_size": 64, "patch_size": 16}
STAGES = {"embedding_size": 16, "hidden_sizes": [32, 48, 64, 96], "depths": [1, 1, 1, 1]}
WAYS = ("plain", "extended", "transformers", "half")
GROUPED = {**TEXT, "num_key_value_heads": 2}

# The class, its configuration, and the kind of network that the optimizer is told.
NETWORKS = {
    "BERT": (T.BertModel, T.BertConfig(**TEXT), "bert"),
    "RoBERTa": (T.RobertaModel, T.RobertaConfig(**TEXT), "bert"),
    "ELECTRA": (T.ElectraModel, T.ElectraConfig(**TEXT, embedding_size=32), "bert"),
    "T5, encoder": (T.T5EncoderModel, T.T5Config(vocab_size=200, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4), "bert"),
    "GPT-2": (T.GPT2LMHeadModel, T.GPT2Config(vocab_size=200, n_positions=64, n_embd=64, n_layer=2, n_head=4), "gpt2"),
    "Llama": (T.LlamaForCausalLM, T.LlamaConfig(**GROUPED), "gpt2"),
    "Qwen 3": (T.Qwen3ForCausalLM, T.Qwen3Config(**GROUPED, head_dim=16), "gpt2"),
    "ViT": (T.ViTForImageClassification, T.ViTConfig(**IMAGE), "vit"),
    "DINOv2": (T.Dinov2Model, T.Dinov2Config(**IMAGE, mlp_ratio=2), "vit"),
    "CLIP, vision": (T.CLIPVisionModel, T.CLIPVisionConfig(**IMAGE), "clip"),
    "SigLIP, vision": (T.SiglipVisionModel, T.SiglipVisionConfig(**IMAGE), "vit"),
    "ConvNeXt": (T.ConvNextForImageClassification, T.ConvNextConfig(hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 2, 1]), "vit"),
    "ResNet": (T.ResNetForImageClassification, T.ResNetConfig(**STAGES), "vit"),
    "MobileNetV2": (T.MobileNetV2ForImageClassification, T.MobileNetV2Config(image_size=64), "vit"),
}


class First(torch.nn.Module):
    """The first output, of inputs by their places."""

    def __init__(self, network, names):
        super().__init__()
        self.network, self.names = network.eval(), names

    def forward(self, *values):
        cache = {"use_cache": False} if hasattr(self.network.config, "use_cache") else {}
        return self.network(**dict(zip(self.names, values)), **cache)[0]


def export(name, folder):
    """Writes FOLDER/NAME.onnx; returns its path, samples, and the kind of network."""
    network, config, kind = NETWORKS[name]
    config._attn_implementation = "eager"
    path = folder / f"{name.replace(', ', '-').replace(' ', '')}.onnx"
    generator = np.random.default_rng(0)
    if hasattr(config, "vocab_size"):
        samples = {"input_ids": generator.integers(3, 190, (16, 24)), "attention_mask": np.ones((16, 24), np.int64)}
    else:
        samples = {"pixel_values": generator.standard_normal((16, 3, 64, 64)).astype(np.float32)}
    values = tuple(torch.from_numpy(array[:2]) for array in samples.values())
    torch.manual_seed(0)
    torch.onnx.export(First(network(config), list(samples)), values, str(path), input_names=list(samples), output_names=["y"],
                      dynamic_axes={one: {0: "batch"} for one in [*samples, "y"]}, opset_version=17, dynamo=False)
    return path, samples, kind, getattr(config, "num_attention_heads", 4), getattr(config, "hidden_size", 64)


def optimise(path, way, kind, heads, width):
    made = path.with_name(f"{path.stem}-{way}.onnx")
    if way == "plain":
        return path
    if way == "extended":
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(made)
        options.log_severity_level = 4
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return made
    found = optimizer.optimize_model(str(path), model_type=kind, num_heads=heads, hidden_size=width, opt_level=0)
    if way == "half":
        found.convert_float_to_float16(keep_io_types=True, disable_shape_infer=True)
    found.save_model_to_file(str(made))
    return made


def outputs_of(path, samples):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, samples)[0]


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return done.stdout


def logits_of(grail, path, samples, folder):
    if "input_ids" in samples:
        np.save(folder / "ids.npy", samples["input_ids"].astype(np.int32))
        words = "--ids", folder / "ids.npy"
    else:
        save_file({"pixels": np.ascontiguousarray(next(iter(samples.values())).transpose(0, 2, 3, 1))}, folder / "pixels.safetensors")
        words = "--pixels", folder / "pixels.safetensors"
    (folder / "own.safetensors").unlink(missing_ok=True)
    run(grail, "logits", path, *words, "-o", folder / "own.safetensors", "--quiet")
    return next(iter(load_file(folder / "own.safetensors").values()))


def cut(grail, path, samples, folder):
    for name, array in samples.items():
        np.save(folder / f"{name}.npy", array)
    calib = ",".join(f"{name}={folder}/{name}.npy" for name in samples) if len(samples) > 1 else f"{folder}/{next(iter(samples))}.npy"
    sites = run(grail, "inspect", path).splitlines()
    kinds = [kind for kind in ("heads", "ffn", "conv") if any(f"  {kind}  " in line for line in sites)]
    if not kinds:
        return "no site"
    shutil.rmtree(folder / "out", ignore_errors=True)
    run(grail, "compress", path, "-o", folder / "out", "--calib", calib, "--sites", ",".join(kinds), "--sparsity", 0.3, "--threads", 1, "--quiet")
    report = json.loads((folder / "out" / "report.json").read_text())
    made = folder / "out" / path.name
    dense, narrow = outputs_of(path, samples), outputs_of(made, samples)
    ours = logits_of(grail, made, samples, folder).reshape(-1)
    apart = np.abs(ours - narrow.reshape(-1)).max() / np.abs(narrow).max() if ours.size == narrow.size else np.nan
    counts = [f"{kind} {sum(f'  {kind}  ' in line for line in sites)}" for kind in kinds]
    share = report["narrow"]["parameters"] / report["dense"]["parameters"]
    return f"{', '.join(counts)} | {share:.0%} | {np.linalg.norm(dense - narrow) / np.linalg.norm(dense):.3f} | {apart:.1e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("grail", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", type=lambda names: names.split(","))
    parser.add_argument("--file", nargs=2, type=pathlib.Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    onnxruntime.set_default_logger_severity(4)
    T.logging.set_verbosity_error()
    given.folder.mkdir(parents=True, exist_ok=True)
    print("| network | optimised | operators of com.microsoft | sites | parameters left | error | ONNX Runtime and grail |\n|---|---|---|---|---|---|---|")
    for name in [given.file[0].stem] if given.file else given.only or NETWORKS:
        if given.file:
            path, samples, kind, heads, width = given.file[0], None, "vit", 6, 384
            inputs = [one.name for one in onnx.load(path, load_external_data=False).graph.input]
            samples = {inputs[0]: np.load(given.file[1])}
            path = pathlib.Path(shutil.copy(path, given.folder))
        else:
            path, samples, kind, heads, width = export(name, given.folder)
        for way in WAYS:
            try:
                made = optimise(path, way, kind, heads, width)
                own = sorted({n.op_type for n in onnx.load(made).graph.node if n.domain == "com.microsoft"})
                print(f"| {name} | {way} | {', '.join(own)} | {cut(given.grail, made, samples, given.folder)} |", flush=True)
            except (RuntimeError, onnxruntime.capi.onnxruntime_pybind11_state.Fail) as error:
                print(f"| {name} | {way} | refused: {error} |", flush=True)


if __name__ == "__main__":
    main()
