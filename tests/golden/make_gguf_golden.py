#!/usr/bin/env python3
"""Writes the files of gguf/ beside this script.

blocks.gguf, for test_gguf.c: random blocks of every type that grail reads, each with the values that
gguf-py's dequantize gives it, those of F32 and of rows that are special as ggml's reference quantisers
round them, and a key of every type of value.
NAME.gguf, for test_logits.c: the decoders of models/ as llama.cpp's converter writes them: gguf-py's
names of tensors, the rows of q and k in pairs where its LlamaModel has them so, and llama3's scaling as
a table of divisors.

usage: make_gguf_golden.py        (gguf 0.19.0, llama-cpp-python 0.3.36, numpy, safetensors, torch)
"""

import ctypes

import json
import math
import pathlib

import gguf
import llama_cpp
import numpy
import torch
from safetensors.torch import load_file

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "gguf" / "blocks.gguf"
MODELS = {"llama3": "llama", "llama-mha": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]
# Where a block's F16 factors lie: random bytes there could be NaN or infinite.
FACTORS = {"F16": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2],
           "Q5_K": [0, 2], "Q6_K": [208]}
QUANTISERS = ["Q4_0", "Q5_0", "Q8_0", "Q4_K", "Q6_K"]
ROWS, COLUMNS = 3, 512


def random_blocks(random, name):
    quant = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[quant]
    if name == "F32":
        return random.normal(size=(ROWS, COLUMNS)).astype(numpy.float32).view(numpy.uint8)
    if name == "BF16":
        high = random.normal(size=(ROWS, COLUMNS)).astype(numpy.float32).view(numpy.uint32) >> 16
        return high.astype(numpy.uint16).view(numpy.uint8)
    blocks = random.integers(0, 256, (ROWS * COLUMNS // elements, size), dtype=numpy.uint8)
    for at in FACTORS[name]:
        factor = (random.normal(size=len(blocks)) * 0.1).astype(numpy.float16)
        factor[:2] = [6e-8, -0.0]
        blocks[:, at:at + 2] = factor.view(numpy.uint8).reshape(-1, 2)
    return blocks.reshape(ROWS, -1)


def quantised(values, name):
    """By the library's reference quantiser; gguf-py's has the same bits where it has one."""
    library, = (pathlib.Path(llama_cpp.__file__).parent / "lib").glob("libggml-base.so")
    quant = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[quant]
    made = numpy.zeros((len(values), values.shape[1] // elements * size), numpy.uint8)
    function = getattr(ctypes.CDLL(str(library)), f"quantize_row_{name.lower().replace('_k', '_K')}_ref")
    function(ctypes.c_void_p(values.ctypes.data), ctypes.c_void_p(made.ctypes.data), ctypes.c_int64(values.size))
    if not name.endswith("_K"):
        assert numpy.array_equal(made, gguf.quantize(values, quant)), name
    return made


def special_rows(random):
    """Zeros, equal values, values of one sign, outliers, values that F16 rounds to 0 and near its largest."""
    rows = random.normal(size=(12, COLUMNS)).astype(numpy.float32)
    rows[0] = 0
    rows[1], rows[2] = 0.75, -0.75
    rows[3], rows[4] = numpy.abs(rows[3]), -numpy.abs(rows[4])
    rows[5, ::32] *= 1000
    rows[6, ::256] *= -1000
    rows[7] *= 1e-7
    rows[8] *= 1e-12
    rows[9] *= 1e5
    rows[10] = numpy.round(rows[10] * 4) / 4
    rows[11, 40:300] = 0
    return rows


def write_blocks():
    random = numpy.random.default_rng(1)
    OUT.parent.mkdir(exist_ok=True)
    writer = gguf.GGUFWriter(OUT, "golden")
    writer.add_custom_alignment(64)
    for key, value, add in [("u8", 255, "uint8"), ("i8", -128, "int8"), ("u16", 65535, "uint16"), ("i16", -32768, "int16"),
                            ("u32", 4294967295, "uint32"), ("i32", -2147483648, "int32"), ("u64", 2**63 - 1, "uint64"),
                            ("i64", -(2**63), "int64"), ("f32", 0.1, "float32"), ("f64", 0.1, "float64"),
                            ("yes", True, "bool"), ("no", False, "bool"), ("text", "Zürich", "string")]:
        getattr(writer, "add_" + add)("test." + key, value)
    writer.add_array("test.texts", ["a", "", "Ġthe"])
    writer.add_array("test.integers", [1, -2, 3])
    writer.add_array("test.reals", [0.5, -1.5])
    for name in TYPES:
        stored = random_blocks(random, name)
        quant = gguf.GGMLQuantizationType[name]
        values = gguf.dequantize(stored, quant)
        writer.add_tensor(name, stored, raw_dtype=quant)
        writer.add_tensor(name + ".values", numpy.ascontiguousarray(values.reshape(ROWS, COLUMNS), numpy.float32))
        if name == "F32":
            values_of = {"made": numpy.ascontiguousarray(values.reshape(ROWS, COLUMNS))}
    values_of["special"] = special_rows(random)
    writer.add_tensor("special", values_of["special"])
    for of, values in values_of.items():
        for name in QUANTISERS:
            writer.add_tensor(f"{of}.{name}", quantised(values, name), raw_dtype=gguf.GGMLQuantizationType[name])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{OUT.name}: {OUT.stat().st_size} bytes")


def permute(weights, heads):
    """LlamaModel.permute of llama.cpp's converter."""
    return (weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:])
            .swapaxes(1, 2).reshape(weights.shape))


def divisors(scaling, theta, width):
    """LlamaModel.generate_extra_tensors of llama.cpp's converter."""
    low = scaling["original_max_position_embeddings"] / scaling["low_freq_factor"]
    high = scaling["original_max_position_embeddings"] / scaling["high_freq_factor"]
    factors = []
    for k in range(0, width, 2):
        wavelength = 2 * math.pi * theta ** (k / width)
        if wavelength < high:
            factors.append(1)
        elif wavelength > low:
            factors.append(scaling["factor"])
        else:
            smooth = (scaling["original_max_position_embeddings"] / wavelength - scaling["low_freq_factor"]) / (
                scaling["high_freq_factor"] - scaling["low_freq_factor"])
            factors.append(1 / ((1 - smooth) / scaling["factor"] + smooth))
    return numpy.array(factors, numpy.float32)


def write_model(name, architecture):
    config = json.loads((HERE / "models" / name / "config.json").read_text())
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    heads, layers = config["num_attention_heads"], config["num_hidden_layers"]
    groups = config.get("num_key_value_heads", heads)
    width = config.get("head_dim") or config["hidden_size"] // heads
    theta = config.get("rope_theta") or rope["rope_theta"]
    path = OUT.parent / f"{name}.gguf"
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(layers)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(groups)
    writer.add_key_length(width)
    writer.add_value_length(width)
    writer.add_rope_dimension_count(width)
    writer.add_rope_freq_base(theta)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[architecture.upper()], layers)
    for key, tensor in load_file(HERE / "models" / name / "model.safetensors").items():
        stored_in_bf16 = tensor.dim() > 1 and tensor.dtype == torch.bfloat16
        values = tensor.view(torch.uint8).numpy() if stored_in_bf16 else tensor.numpy() if tensor.dim() > 1 else tensor.float().numpy()
        if architecture == "llama" and "q_proj" in key:
            values = permute(values, heads)
        elif architecture == "llama" and "k_proj" in key:
            values = permute(values, groups)
        writer.add_tensor(names.get_name(key, try_suffixes=(".weight", ".bias")), numpy.ascontiguousarray(values),
                          raw_dtype=gguf.GGMLQuantizationType.BF16 if stored_in_bf16 else None)
    if rope.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", divisors(rope, theta, width))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{path.name}: {path.stat().st_size} bytes")


write_blocks()
for one, of in MODELS.items():
    write_model(one, of)
