#!/usr/bin/env python3
"""Checks that files of grail gram are importance matrices: llama.cpp's own reader of GGUF files opens one, its
sums are those of transformers, and llama.cpp quantises the model with it, under the names and widths that it
looks for. Prints how far the quantised models are from the one in F16, with the matrix and without.

usage: check_imatrix.py GRAIL DIRECTORY TEXT [CONTEXT [WINDOWS]]     (transformers, gguf, llama-cpp-python, torch, tokenizers, numpy)
"""

import ctypes
import pathlib
import subprocess
import sys
import tempfile

import gguf
import llama_cpp
import numpy
import tokenizers
import torch
import transformers

TOLERANCE = 1e-3  # of a sum, relative to the largest of its vector
TESTED = 8  # windows that the quantised models are compared on


def open_with_ggml(path):
    """ggml's reader, which the loader of importance matrices uses: how many tensors and what type of file."""
    ggml = ctypes.CDLL(str(pathlib.Path(llama_cpp.__file__).parent / "lib" / "libggml-base.so"))
    ggml.gguf_init_from_file.restype = ctypes.c_void_p
    ggml.gguf_init_from_file.argtypes = [ctypes.c_char_p, ctypes.c_uint64 * 2]

    class Params(ctypes.Structure):
        _fields_ = [("no_alloc", ctypes.c_bool), ("ctx", ctypes.POINTER(ctypes.c_void_p))]

    context = ctypes.c_void_p()
    ggml.gguf_init_from_file.argtypes = [ctypes.c_char_p, Params]
    file = ggml.gguf_init_from_file(str(path).encode(), Params(False, ctypes.pointer(context)))
    assert file and context.value, f"ggml does not open {path}"
    ggml.gguf_get_n_tensors.restype = ctypes.c_int64
    ggml.gguf_get_n_tensors.argtypes = [ctypes.c_void_p]
    return ggml.gguf_get_n_tensors(file)


def sums_of_transformers(directory, windows):
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    squares, sums = {}, {}

    def count(name):
        def hook(_, inputs):
            x = inputs[0].reshape(-1, inputs[0].shape[-1]).double()
            squares[name] = squares.get(name, 0) + (x * x).sum(0)
            sums[name] = sums.get(name, 0) + x.sum(0)
        return hook

    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and ".layers." in name:
            module.register_forward_pre_hook(count(name))
    with torch.no_grad():
        for window in windows:
            model(torch.tensor(window[None]).long())
    return squares, sums


NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down"}


def compare(tensors, directory, windows):
    worst = 0.0
    squares, sums = sums_of_transformers(directory, windows)
    for name in squares:
        layer, part = name.split(".layers.")[1].split(".", 1)
        stem = f"blk.{layer}.{NAMES[part]}.weight"
        assert float(tensors[stem + ".counts"][0]) == windows.size, stem
        for ending, theirs in ((".in_sum2", squares[name]), (".in_sum", sums[name])):
            difference = abs(tensors[stem + ending].astype(numpy.float64) - theirs.numpy()).max()
            worst = max(worst, difference / float(theirs.abs().max()))
    print(f"  {len(squares)} matrices, sums differ from transformers' by {worst:.1e}")
    return worst <= TOLERANCE


def quantise(source, target, tensors):
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0
    params.pure = True
    if tensors:
        stems = [name[:-8] for name in tensors if name.endswith(".in_sum2")]
        means = [(tensors[s + ".in_sum2"] / tensors[s + ".counts"][0]).astype(numpy.float32) for s in stems]
        rows = (llama_cpp.llama_model_imatrix_data * (len(stems) + 1))()
        for row, stem, mean in zip(rows, stems, means):
            row.name, row.size = stem.encode(), mean.size
            row.data = mean.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        params.imatrix = ctypes.cast(rows, ctypes.POINTER(llama_cpp.llama_model_imatrix_data))
    assert llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params)) == 0


def log_probabilities(path, windows):
    model = llama_cpp.Llama(str(path), n_ctx=windows.shape[1], logits_all=True, verbose=False)
    found = []
    for window in windows:
        model.reset()
        model.eval(window.tolist())
        found.append(torch.log_softmax(torch.tensor(numpy.array(model.scores[:len(window)])).double(), -1))
    return torch.cat(found)


def main():
    grail, directory, text = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    context, count = (int(a) for a in (sys.argv[4:6] + ["256", "16"][len(sys.argv) - 4:]))
    ids = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json")).encode(text.read_text()[:4_000_000]).ids
    windows = numpy.array(ids[:len(ids) // context * context], numpy.int32).reshape(-1, context)
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        numpy.save(work / "ids.npy", windows[:count])
        said = subprocess.run([grail, "gram", directory, "--calib", work / "ids.npy", "--samples", str(count), "--precision",
                               "f32", "-o", work / "stats.gguf"], check=True, capture_output=True, text=True)
        print(said.stdout.strip())
        tensors = {t.name: t.data for t in gguf.GGUFReader(work / "stats.gguf").tensors}
        print(f"  ggml {llama_cpp.__version__} opens {open_with_ggml(work / 'stats.gguf')} tensors")
        good = compare(tensors, directory, windows[:count])
        subprocess.run([grail, "export", directory, "-o", work / "f16.gguf", "--type", "f16"], check=True, capture_output=True)
        dense = log_probabilities(work / "f16.gguf", windows[-TESTED:])
        for what, matrix in (("without", None), ("with", tensors)):
            quantise(work / "f16.gguf", work / f"{what}.gguf", matrix)
            found = log_probabilities(work / f"{what}.gguf", windows[-TESTED:])
            print(f"  Q4_0 {what} the matrix: KL(F16 || Q4_0) {float((dense.exp() * (dense - found)).sum(-1).mean()):.4f}")
    sys.exit(0 if good else 1)


main()
