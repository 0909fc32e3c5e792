#!/usr/bin/env python3
"""Writes packed/packed.safetensors: matrices as compressed-tensors packs them (pack-quantized), and beside each,
as NAME.values in f32, what it makes of them again.

usage: make_packed_golden.py     (compressed-tensors, torch, safetensors)
"""

import pathlib

import safetensors.torch
import torch
from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

ROWS, COLUMNS = 3, 256
# name: bits, group (0: a scale for each row), dtype of the scales
CASES = {
    "w4_g32": (4, 32, torch.float16),
    "w4_g64": (4, 64, torch.float32),
    "w4_g128": (4, 128, torch.bfloat16),
    "w4_row": (4, 0, torch.bfloat16),
    "w8_g32": (8, 32, torch.bfloat16),
    "w8_g64": (8, 64, torch.float32),
    "w8_g128": (8, 128, torch.float16),
}


def main():
    torch.manual_seed(7)
    tensors = {}
    for name, (bits, group, dtype) in CASES.items():
        args = QuantizationArgs(num_bits=bits, type="int", symmetric=True, strategy="group" if group else "channel",
                                group_size=group or None)
        scheme = QuantizationScheme(targets=["Linear"], weights=args)
        weight = torch.randn(ROWS, COLUMNS).to(dtype)
        largest = weight.float().reshape(ROWS, -1, group or COLUMNS).abs().amax(-1)
        scale = (largest / (2 ** (bits - 1) - 0.5)).to(dtype)
        packed = PackedQuantizationCompressor.compress({"weight": weight, "weight_scale": scale}, scheme)
        again = PackedQuantizationCompressor.decompress(packed, scheme)["weight"]
        assert again.dtype == dtype, again.dtype
        for part in ("weight_packed", "weight_scale", "weight_shape"):
            tensors[f"{name}.{part}"] = packed[part].contiguous()
        tensors[f"{name}.values"] = again.float()
    place = pathlib.Path(__file__).resolve().parent / "packed"
    place.mkdir(exist_ok=True)
    safetensors.torch.save_file(tensors, place / "packed.safetensors", metadata={"format": "pt"})


main()
