#!/usr/bin/env python3
"""Writes gguf/blocks.gguf beside this script, for test_gguf.c: random blocks of every type that grail
reads, each with the values that gguf-py's dequantize gives it, and a key of every type of value.

usage: make_gguf_golden.py        (gguf 0.19.0, numpy)
"""

import pathlib

import gguf
import numpy

OUT = pathlib.Path(__file__).resolve().parent / "gguf" / "blocks.gguf"
TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]
# Where a block's F16 factors lie: random bytes there could be NaN or infinite.
FACTORS = {"F16": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2],
           "Q5_K": [0, 2], "Q6_K": [208]}
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


def main():
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
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{OUT.name}: {OUT.stat().st_size} bytes")


main()
