#!/usr/bin/env python3
"""Checks that transformers opens what grail quantize and grail compress --quantize write as compressed-tensors,
and computes the logits and the perplexity that grail has of the same directory.

usage: check_compressed_tensors.py GRAIL TEXT DIRECTORY...
       (transformers, compressed-tensors, torch, tokenizers, safetensors, numpy)
"""

import importlib.metadata
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy
import safetensors.numpy
import tokenizers
import torch
import transformers

LENGTH = 256
WINDOWS = 4
TOLERANCE = 1e-3


def losses(logits, ids):
    scores = torch.log_softmax(logits[:, :-1], -1)
    return -scores.gather(-1, ids[:, 1:, None]).mean()


def plain_model(directory):
    """The weights as transformers decompresses them in the dtype of the checkpoint, in a network that computes in f32."""
    packed = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype="auto").eval()
    with torch.no_grad():
        packed(torch.zeros(1, 1, dtype=torch.long))
    config = transformers.AutoConfig.from_pretrained(directory)
    del config.quantization_config
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    missing, _ = model.load_state_dict(packed.state_dict(), strict=False)
    assert not missing, missing
    return model.eval()


def check(grail, text, directory, work):
    ids = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json")).encode(text).ids[: LENGTH * WINDOWS]
    windows = numpy.array(ids, numpy.int32).reshape(WINDOWS, LENGTH)
    numpy.save(work / "ids.npy", windows)
    subprocess.run([grail, "logits", directory, "--ids", work / "ids.npy", "--context", str(LENGTH), "--precision", "f32",
                    "-o", work / "logits"], check=True)
    ours = torch.from_numpy(safetensors.numpy.load_file(work / "logits")["logits"].copy()).double()
    with torch.no_grad():
        theirs = plain_model(directory)(torch.from_numpy(windows).long()).logits.double()
    (work / "logits").unlink()
    difference = float((theirs - ours).abs().max())
    mine, stock = (math.exp(losses(logits, torch.from_numpy(windows).long())) for logits in (ours, theirs))
    scheme = json.loads((directory / "config.json").read_text())["quantization_config"]["config_groups"]["group_0"]["weights"]
    print(f"{directory.name}: {scheme['num_bits']} bits, groups of {scheme['group_size']}; logits differ by {difference:.1e}; "
          f"perplexity {stock:.4f} in transformers, {mine:.4f} in grail")
    return difference <= TOLERANCE


def main():
    grail, text = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).read_text()
    print(f"transformers {transformers.__version__}, compressed-tensors {importlib.metadata.version('compressed-tensors')}")
    with tempfile.TemporaryDirectory() as work:
        good = [check(grail, text, pathlib.Path(directory), pathlib.Path(work)) for directory in sys.argv[3:]]
    sys.exit(0 if all(good) else 1)


main()
