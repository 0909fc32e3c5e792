#!/usr/bin/env python3
"""Checks that `grail export --type TYPE` gives every tensor the type and the bytes that llama.cpp's quantiser
gives it: both start from the file in F32 that grail exports.

usage: check_gguf_types.py GRAIL [DIRECTORY...]     (llama-cpp-python, gguf; for the model of random weights torch)
  Without a directory: a llama of random weights whose widths fill blocks of 256, once with a head of its own.
"""

import ctypes
import json
import pathlib
import subprocess
import sys
import tempfile

import gguf
import llama_cpp

FILES = {"q8_0": "Q8_0", "q6_k": "Q6_K", "q5_0": "Q5_0", "q4_0": "Q4_0", "q4_k": "Q4_K_M"}


def quantise(source, target, name):
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{name}")
    done = llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params))
    assert done == 0, f"llama.cpp does not make {name}"


def tensors(path):
    reader = gguf.GGUFReader(str(path))
    kinds = {t.name: t.tensor_type.name for t in reader.tensors}
    return kinds, {t.name: t.data.tobytes() for t in reader.tensors}, reader.fields["general.file_type"].contents()


def check(grail, directory, work):
    failed = 0
    subprocess.run([grail, "export", directory, "-o", work / "f32.gguf", "--type", "f32"], check=True, capture_output=True)
    for kind, theirs in FILES.items():
        subprocess.run([grail, "export", directory, "-o", work / "own.gguf", "--type", kind], check=True, capture_output=True)
        quantise(work / "f32.gguf", work / "other.gguf", theirs)
        own, own_bytes, own_file = tensors(work / "own.gguf")
        other, other_bytes, other_file = tensors(work / "other.gguf")
        types = {n: (own[n], other.get(n)) for n in own if own[n] != other.get(n)}
        differ = [n for n in own if n not in types and own_bytes[n] != other_bytes[n]]
        counts = " ".join(f"{list(own.values()).count(k)} {k}" for k in sorted(set(own.values())))
        print(f"  {kind}: {counts}; file type {own_file} and {other_file}; other types {types}; other bytes {differ}")
        failed += bool(types or differ or own_file != other_file)
        (work / "own.gguf").unlink()
        (work / "other.gguf").unlink()
    (work / "f32.gguf").unlink()
    return failed


def random_model(directory, tied, tokenizer):
    import torch
    import transformers
    torch.manual_seed(1)
    vocabulary = len(json.loads((tokenizer / "tokenizer.json").read_text())["model"]["vocab"]) + 8
    config = transformers.LlamaConfig(hidden_size=256, intermediate_size=512, num_hidden_layers=12, num_attention_heads=4,
                                      num_key_value_heads=2, vocab_size=vocabulary, tie_word_embeddings=tied)
    transformers.LlamaForCausalLM(config).save_pretrained(directory)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (directory / name).write_bytes((tokenizer / name).read_bytes())


def main():
    grail, directories = sys.argv[1], [pathlib.Path(d) for d in sys.argv[2:]]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        if not directories:
            demo = pathlib.Path(__file__).resolve().parents[2] / "demo" / "model"
            for name, tied in (("tied", True), ("own-head", False)):
                random_model(work / name, tied, demo)
                directories.append(work / name)
        for directory in directories:
            print(directory.name)
            failed += check(grail, directory, work)
    sys.exit(1 if failed else 0)


main()
