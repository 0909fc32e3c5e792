#!/usr/bin/env python3
"""Checks that llama.cpp converts, quantises and runs a checkpoint, and computes grail's logits.

  check_llama_cpp.py ids DIRECTORY TEXT IDS.npy [--length T]
      writes the first T token ids of a text in the directory's tokenizer, int32 [1, T]
  check_llama_cpp.py check LLAMA_CPP DIRECTORY IDS.npy LOGITS.safetensors WORK NAME
      converts DIRECTORY with LLAMA_CPP/convert_hf_to_gguf.py into WORK, quantises it in several
      ways with llama-cpp-python, runs each file and prints a line for each: the tensors by type,
      the perplexity, and how far logits are from grail's. Exits with 1 when a step fails, or when
      the F16 file's logits are not grail's.
  check_llama_cpp.py file FILE.gguf IDS.npy LOGITS.safetensors
      runs a file that grail exported; LOGITS are those of `grail logits FILE.gguf`. Exits with 1 when
      probabilities of a file without quantised weights differ by more than 2e-3

usage: check_llama_cpp.py tokens DIRECTORY FILE.gguf TEXT
      compares the ids that llama.cpp gives the lines of the text with those of the directory's own
      tokenizer

llama.cpp's converter knows tokenizers by a hash. That of an unknown one does not matter here, since
ids go in, so it is taken for GPT-2's.
"""

import argparse
import collections
import ctypes
import os
import pathlib
import runpy
import subprocess
import sys

import numpy

TOLERANCE = 0.05  # F16 keys and values, activations of Q8_0 in products: not a bug of either side
PROBABILITY_TOLERANCE = 2e-3  # keys and values in F16
TYPES = {"Q8_0": 7, "Q6_K": 18, "Q4_K_M": 15, "Q4_0": 2}  # enum llama_ftype


def write_ids(options):
    import tokenizers
    tokenizer = tokenizers.Tokenizer.from_file(str(options.directory / "tokenizer.json"))
    ids = tokenizer.encode(options.text.read_text(encoding="utf-8")).ids[:options.length]
    numpy.save(options.output, numpy.array([ids], dtype=numpy.int32))


def convert(options):
    """Runs the converter in this process; called in one of its own."""
    root = options.llama_cpp
    sys.path.insert(0, str(root))
    import conversion.base
    conversion.base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
    script = str(root / "convert_hf_to_gguf.py")
    sys.argv = [script, str(options.directory), "--outfile", str(options.output), "--outtype",
                "f16"]
    runpy.run_path(script, run_name="__main__")


def quiet():
    """Sends the library's own messages, which come from C, nowhere."""
    sys.stderr.flush()
    saved = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)
    return saved


def loud(saved):
    os.dup2(saved, 2)
    os.close(saved)


def quantise(source, target, kind):
    import llama_cpp
    settings = llama_cpp.llama_model_quantize_default_params()
    settings.ftype = TYPES[kind]
    settings.nthread = 2
    return llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(),
                                          ctypes.byref(settings)) == 0


def tensor_types(path):
    import gguf
    matrices = [t for t in gguf.GGUFReader(str(path)).tensors if len(t.shape) > 1]
    return collections.Counter(t.tensor_type.name for t in matrices)


def run(path, ids):
    import llama_cpp
    model = llama_cpp.Llama(str(path), n_ctx=len(ids), logits_all=True, verbose=False,
                            n_threads=2)
    model.eval(ids.tolist())
    return numpy.array(model.scores[:len(ids)], dtype=numpy.float64)


def perplexity(logits, ids):
    rows = logits[:-1] - logits[:-1].max(axis=1, keepdims=True)
    total = numpy.log(numpy.exp(rows).sum(axis=1))
    return float(numpy.exp((total - rows[numpy.arange(len(rows)), ids[1:]]).mean()))


def report(name, kind, path, ids, expected):
    saved = quiet()
    try:
        logits = run(path, ids)
    finally:
        loud(saved)
    difference = float(numpy.abs(logits - expected).max())
    types = " ".join(f"{count} {kind}" for kind, count in sorted(tensor_types(path).items()))
    print(f"{name:28} {kind:7} {types:42} {path.stat().st_size / 1e6:6.2f} MB  "
          f"perplexity {perplexity(logits, ids):7.4f}  difference {difference:.3f}", flush=True)
    return difference


def check(options):
    import safetensors.numpy
    ids = numpy.load(options.ids)[0]
    expected = safetensors.numpy.load_file(options.logits)["logits"][0].astype(numpy.float64)
    dense = options.work / f"{options.name}.gguf"
    command = [sys.executable, __file__, "convert", options.llama_cpp, options.directory, dense]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"FAIL {options.name}: the converter says: {done.stderr.strip().splitlines()[-1:]}")
        return 1
    print(f"{options.name:28} grail   {'':42} {'':6}     "
          f"perplexity {perplexity(expected, ids):7.4f}")
    failed = report(options.name, "F16", dense, ids, expected) > TOLERANCE
    for kind in TYPES:
        path = dense.with_suffix(f".{kind}.gguf")
        saved = quiet()
        try:
            made = quantise(dense, path, kind)
        finally:
            loud(saved)
        if made:
            report(options.name, kind, path, ids, expected)
        else:
            print(f"FAIL {options.name}: {kind} cannot be made")
            failed = True
    return 1 if failed else 0


def probabilities(logits):
    powers = numpy.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def check_file(options):
    import safetensors.numpy
    ids = numpy.load(options.ids)[0]
    expected = safetensors.numpy.load_file(options.logits)["logits"][0].astype(numpy.float64)
    saved = quiet()
    try:
        logits = run(options.gguf, ids)
    finally:
        loud(saved)
    types = tensor_types(options.gguf)
    difference = float(numpy.abs(probabilities(logits) - probabilities(expected)).max())
    same = int((logits.argmax(axis=1) == expected.argmax(axis=1)).sum())
    print(f"{options.gguf.name:28} {' '.join(f'{n} {kind}' for kind, n in sorted(types.items())):16} perplexity here "
          f"{perplexity(logits, ids):8.4f}, grail's {perplexity(expected, ids):8.4f}; probabilities differ by {difference:.1e}, "
          f"{same} of {len(ids)} best tokens are the same")
    return 1 if difference > PROBABILITY_TOLERANCE and "Q8_0" not in types else 0


def ids_of(directory):
    import tokenizers
    tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    return lambda line: tokenizer.encode(line).ids


def check_tokens(options):
    import llama_cpp
    saved = quiet()
    try:
        model = llama_cpp.Llama(str(options.gguf), vocab_only=True, verbose=False)
    finally:
        loud(saved)
    encode = ids_of(options.directory)
    lines = options.text.read_text(encoding="utf-8").split("\n")
    differ, total = [], 0
    for number, line in enumerate(lines):
        expected = encode(line) if line else []
        found = model.tokenize(line.encode(), add_bos=True, special=True) if line else []
        total += len(expected)
        if found != expected:
            differ.append(number + 1)
    print(f"{options.gguf.name}: {len(lines)} lines, {total} tokens; {len(differ)} lines differ {differ[:8]}")
    return 1 if differ else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    ids = commands.add_parser("ids")
    ids.add_argument("directory", type=pathlib.Path)
    ids.add_argument("text", type=pathlib.Path)
    ids.add_argument("output", type=pathlib.Path)
    ids.add_argument("--length", type=int, default=256)
    conversion = commands.add_parser("convert")
    conversion.add_argument("llama_cpp", type=pathlib.Path)
    conversion.add_argument("directory", type=pathlib.Path)
    conversion.add_argument("output", type=pathlib.Path)
    checking = commands.add_parser("check")
    for name in ("llama_cpp", "directory", "ids", "logits", "work"):
        checking.add_argument(name, type=pathlib.Path)
    checking.add_argument("name")
    exported = commands.add_parser("file")
    for name in ("gguf", "ids", "logits"):
        exported.add_argument(name, type=pathlib.Path)
    words = commands.add_parser("tokens")
    for name in ("directory", "gguf", "text"):
        words.add_argument(name, type=pathlib.Path)
    options = parser.parse_args()
    if options.command == "ids":
        write_ids(options)
    elif options.command == "convert":
        convert(options)
    elif options.command == "tokens":
        sys.exit(check_tokens(options))
    elif options.command == "file":
        sys.exit(check_file(options))
    else:
        sys.exit(check(options))


if __name__ == "__main__":
    main()
