#!/usr/bin/env python3
"""Memory of grail from Python: whether it grows over many runs, and what an array of 1 GB costs besides itself.

needs: the package grail
usage: python_memory.py [--runs N] [--bytes N]
"""

import argparse
import json
import pathlib
import tempfile

import grail
import numpy as np
from grail.arrays import Array

ROOT = pathlib.Path(__file__).resolve().parents[1]
DEMO = ROOT / "demo" / "model"
TEXT = ROOT / "demo" / "calibration.txt"
MEGABYTE = 1e6
WIDTH = 1024


def status(key):
    """Megabytes of this process now, VmRSS, or its peak, VmHWM."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024 / MEGABYTE
    raise KeyError(key)


class Peak:
    """How much more memory than before was held at once."""

    def __enter__(self):
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        self.before = status("VmRSS")
        return self

    def __exit__(self, *_):
        self.more = status("VmHWM") - self.before


def work(directory):
    """What a program does with grail, errors included."""
    few = {"calib": TEXT, "samples": 8, "context": 64}
    report = grail.compress(DEMO, sparsity=0.3, **few)
    grail.eval(report.result.model(), TEXT, windows=4, context=64)
    runner = grail.Runner(report.result.model())
    runner.logits(np.arange(64)[None])
    grail.plan(DEMO, target_ratio=0.8, budget="error", **few)
    grail.compress(DEMO, directory / "narrow", sparsity=0.3, heal="block", heal_steps=2, **few)
    for path in sorted((directory / "narrow").iterdir()):
        path.unlink()
    (directory / "narrow").rmdir()
    x = np.random.default_rng(0).normal(size=(512, 256)).astype(np.float32)
    found = grail.Statistics(256).add(x)
    found.fit(x[:64], found.select(128, consumer=x[:64]))
    for call in (lambda: grail.compress(DEMO, selector="none", sparsity=0.3, **few), lambda: found.add(x[1:, 1:])):
        try:
            call()
        except grail.GrailError:
            pass


def measure_runs(runs):
    """Megabytes held after so many runs."""
    held = {}
    with tempfile.TemporaryDirectory() as directory:
        for run in range(1, runs + 1):
            work(pathlib.Path(directory))
            if run in (1, 10, 25) or run % 25 == 0:
                held[run] = round(status("VmRSS"), 1)
                print(f"after {run} runs: {held[run]:.1f} MB", flush=True)
    return held


def large_model(size):
    """A llama with one layer whose table of embeddings fills the rest of so many bytes of bf16."""
    vocabulary = (size // 2 - 12 * WIDTH * WIDTH) // (2 * WIDTH)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH,
        "intermediate_size": 8 * WIDTH // 3, "num_hidden_layers": 1, "num_attention_heads": 8,
        "num_key_value_heads": 8, "vocab_size": vocabulary, "rms_norm_eps": 1e-5,
        "max_position_embeddings": 512, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    }  # fmt: skip
    inner = config["intermediate_size"]
    layer = "model.layers.0."
    shapes = {"model.embed_tokens.weight": (vocabulary, WIDTH), "lm_head.weight": (vocabulary, WIDTH)}
    shapes.update({f"{layer}self_attn.{name}_proj.weight": (WIDTH, WIDTH) for name in "qkvo"})
    shapes.update({f"{layer}mlp.{name}_proj.weight": (inner, WIDTH) for name in ("gate", "up")})
    shapes[f"{layer}mlp.down_proj.weight"] = (WIDTH, inner)
    for name in ("model.norm", layer + "input_layernorm", layer + "post_attention_layernorm"):
        shapes[name + ".weight"] = (WIDTH,)
    tensors = {}
    for name, shape in shapes.items():
        values = np.random.default_rng(len(tensors)).integers(0, 1 << 7, shape, np.uint16)
        tensors[name] = values + np.uint16(0x3C00)  # bits of numbers from 0.0078 to 0.0156
    return config, tensors, dict.fromkeys(tensors, "BF16")


def measure_large(size):
    """What calls hold besides their arrays, in megabytes."""
    found = {}
    rows = np.ones((size // 4 // WIDTH, WIDTH), np.float32)
    bits = np.full((size // 2 // WIDTH, WIDTH), 0x3F80, np.uint16)
    for name, given in (("f32", rows), ("bf16", Array("BF16", bits.shape, bits, bits))):
        with Peak() as peak:
            assert grail.Statistics(WIDTH).add(given).count == given.shape[0]
        found[f"Statistics.add, {name}"] = round(peak.more, 1)
    del rows, bits, given
    config, tensors, dtypes = large_model(size)
    assert abs(sum(tensor.nbytes for tensor in tensors.values()) / size - 1) < 0.01
    with Peak() as peak:
        model = grail.Model.from_tensors(config, tensors, dtypes=dtypes)
        assert model.facts.parameters == sum(tensor.size for tensor in tensors.values())
        assert len(model.sites) == 2
    found["Model.from_tensors, bf16"] = round(peak.more, 1)
    with Peak() as peak:
        grail.Runner(model).losses(np.arange(16)[None])
    found["Runner.losses"] = round(peak.more, 1)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--bytes", type=int, default=10**9)
    given = parser.parse_args()
    large = measure_large(given.bytes)
    for name, more in large.items():
        print(f"{name}: {more} MB", flush=True)
    print(json.dumps({"megabytes": large, "held": measure_runs(given.runs)}))


if __name__ == "__main__":
    main()
