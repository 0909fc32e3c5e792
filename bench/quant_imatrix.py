#!/usr/bin/env python3
"""Quantises a GGUF file by llama.cpp with an importance matrix, each tensor to the type that it has in another file.

usage: quant_imatrix.py SOURCE MATRIX TYPES OUT     (llama-cpp-python, gguf, numpy)
  SOURCE  the file in F32;  MATRIX  of grail gram;  TYPES  the file whose types are taken
"""

import ctypes
import re
import sys

import gguf
import llama_cpp
import numpy


def matrix_of(path):
    tensors = {t.name: t.data for t in gguf.GGUFReader(path).tensors}
    stems = [name[:-8] for name in tensors if name.endswith(".in_sum2")]
    return {s: (tensors[s + ".in_sum2"] / tensors[s + ".counts"][0]).astype(numpy.float32).ravel() for s in stems}


def rows_of(means):
    rows = (llama_cpp.llama_model_imatrix_data * (len(means) + 1))()
    for row, (name, mean) in zip(rows, means.items()):
        row.name, row.size = name.encode(), mean.size
        row.data = mean.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    return rows


def overrides_of(path):
    tensors = [t for t in gguf.GGUFReader(path).tensors if len(t.shape) > 1]
    rows = (llama_cpp.llama_model_tensor_override * (len(tensors) + 1))()
    for row, tensor in zip(rows, tensors):
        row.pattern, row.type = f"^{re.escape(tensor.name)}$".encode(), int(tensor.tensor_type)
    return rows


def main():
    source, matrix, types, out = sys.argv[1:]
    means = matrix_of(matrix)
    rows, overrides = rows_of(means), overrides_of(types)
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0
    params.nthread = 1
    params.imatrix = ctypes.cast(rows, type(params.imatrix))
    params.tt_overrides = ctypes.cast(overrides, type(params.tt_overrides))
    assert llama_cpp.llama_model_quantize(source.encode(), out.encode(), ctypes.byref(params)) == 0
    wanted = {t.name: t.tensor_type for t in gguf.GGUFReader(types).tensors}
    found = {t.name: t.tensor_type for t in gguf.GGUFReader(out).tensors}
    assert wanted == found, {n: (wanted[n], found.get(n)) for n in wanted if wanted[n] != found.get(n)}
    used = sum(name in means for name in found)
    print(f"{out}: {used} of {len(found)} tensors by the importance matrix")


main()
