#!/usr/bin/env python3
"""Checks that another reader of GGUF files opens what grail export writes: transformers, which takes the
tensors out of the blocks and puts the rows of q and k back. Its probabilities must be grail's.

usage: check_gguf.py GRAIL DIRECTORY TEXT [TYPE...]     (transformers, gguf, torch, tokenizers, safetensors, numpy)
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy
import safetensors.numpy
import tokenizers
import torch
import transformers

TOLERANCE = 1e-4
POSITIONS = 128


def check(grail, directory, text, kind, work):
    path = work / f"{kind}.gguf"
    said = subprocess.run([grail, "export", directory, "-o", path, "--type", kind], check=True, capture_output=True, text=True)
    print(said.stdout.splitlines()[0])
    whole = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    ids = whole.encode(text).ids
    numpy.save(work / "ids.npy", numpy.array([ids[:POSITIONS]], numpy.int32))
    logits = work / f"{kind}.logits"
    subprocess.run([grail, "logits", path, "--ids", work / "ids.npy", "-o", logits], check=True)
    ours = torch.from_numpy(safetensors.numpy.load_file(logits)["logits"].copy()).double()[0]
    model = transformers.AutoModelForCausalLM.from_pretrained(work, gguf_file=path.name, dtype=torch.float32).eval()
    with torch.no_grad():
        theirs = model(torch.tensor([ids[:POSITIONS]])).logits[0].double()
    difference = float((theirs - ours).abs().max())
    probability = float((theirs.softmax(-1) - ours.softmax(-1)).abs().max())
    greedy = int((theirs.argmax(-1) == ours.argmax(-1)).sum())
    print(f"  {kind:5} logits differ by {difference:.1e}, probabilities by {probability:.1e}; "
          f"{greedy} of {len(ours)} best tokens are the same")
    return probability <= TOLERANCE


def main():
    grail, directory, text = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    print(f"transformers {transformers.__version__}")
    with tempfile.TemporaryDirectory() as work:
        good = [check(grail, directory, text.read_text(), kind, pathlib.Path(work)) for kind in sys.argv[4:] or ["f32", "f16", "q8_0"]]
    sys.exit(0 if all(good) else 1)


main()
