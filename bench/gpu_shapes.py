#!/usr/bin/env python3
"""Times of grail on a GPU in the shapes of 7B, 13B and 70B, beside the same work in plain PyTorch.

usage: gpu_shapes.py --grail PATH [--device cuda|cpu] [--shape 7b|13b|70b|tiny] [--out FILE.json] [options]

It makes a checkpoint of a few blocks with random weights, and measures in parts, which --parts picks:

    peak    the rate of one large product in PyTorch
    grail   `grail compress` with the paper's choice and repair (wanda, grail), 30 %
    paper   the paper's steps for one block in plain PyTorch: windows one by one from pageable memory of the host
    full    `grail compress` with its defaults (obs, full)
    heal    `grail heal` of what grail or full made
    plain   healing in plain PyTorch: a block towards the dense one, and four layers by the KL divergence of logits

Each part has a time limit, and runs in a process of its own. One that fails is recorded with the end of what it wrote, and the
others go on. The file has all figures, each with its unit and "measured" or "computed"; it is written again after each part.
Needs torch, numpy and safetensors, and transformers for the part "paper".
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import json
import math
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PARTS = ("peak", "grail", "paper", "full", "heal", "plain")
LIMITS = {"checkpoint": 50, "peak": 25, "grail": 50, "paper": 45, "full": 60, "heal": 60, "plain": 45}  # seconds
SHOWN = (  # figures of the table that is printed
    "product_rate", "block", "all_blocks", "rate", "share_of_peak", "paper_over_this", "device_peak", "host_peak",
    "blocks_rate", "network_rate", "block_one_window", "block_eight_windows", "four_layers_one_window", "four_layers_four_windows",
)  # fmt: skip
REMOVED = 0.3
START = time.monotonic()


@dataclasses.dataclass(frozen=True)
class Shape:
    """A decoder as llama's; `layers` are those of the whole network, of which a checkpoint has a few."""

    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    layers: int
    vocabulary: int

    @property
    def head(self) -> int:
        return self.hidden // self.heads

    def matrices(self) -> dict[str, tuple[int, int]]:
        """Rows and columns of the matrices of a layer."""
        h, kv = self.hidden, self.kv_heads * self.head
        return {
            "self_attn.q_proj": (h, h), "self_attn.k_proj": (kv, h), "self_attn.v_proj": (kv, h), "self_attn.o_proj": (h, h),
            "mlp.gate_proj": (self.ffn, h), "mlp.up_proj": (self.ffn, h), "mlp.down_proj": (h, self.ffn),
        }  # fmt: skip


SHAPES = {
    "7b": Shape(4096, 11008, 32, 32, 32, 32000),
    "13b": Shape(5120, 13824, 40, 40, 40, 32000),
    "70b": Shape(8192, 28672, 64, 8, 80, 32000),
    "tiny": Shape(64, 160, 4, 4, 2, 256),
}


def say(text: str) -> None:
    print(f"[{time.monotonic() - START:6.1f} s] {text}", flush=True)


def figure(value: float | None, unit: str, how: str = "measured") -> dict[str, Any]:
    return {"value": value, "unit": unit, "how": how}


# Counted operations


def operations(shape: Shape, tokens: int, context: int, kept: dict[str, int]) -> dict[str, float]:
    """Operations of a block's products, two for each multiply-add; a Gram matrix and causal attention count half."""
    h, o, f = shape.hidden, shape.heads * shape.head, shape.ffn
    kv, heads, neurons = shape.kv_heads * shape.head, kept["heads"], kept["ffn"]
    producers = 2.0 * tokens * h * (o + 2 * kv + 2 * f)
    attention = 2.0 * tokens * context * o
    grams = 1.0 * tokens * (o * o + f * f)
    advance = 2.0 * tokens * h * (heads + neurons)
    cross = 2.0 * tokens * h * (o + f)
    solves = sum(k**3 / 3 + 2.0 * h * k * (d + k) for k, d in ((heads, o), (neurons, f)))
    once = producers + attention
    return {
        "grail": once + grams + advance + solves,
        # The dense network beside the narrowed one, and the sums of its outputs with the inputs; refits and tried alphas are not counted.
        "full": 2 * once + grams + advance + 2 * cross + solves,
    }


# Processes under a limit


class DeviceMemory:
    """Bytes in use on the first GPU, by NVML: this process starts no CUDA."""

    class Info(ctypes.Structure):
        _fields_ = (("total", ctypes.c_uint64), ("free", ctypes.c_uint64), ("used", ctypes.c_uint64))

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libnvidia-ml.so.1")
        self._handle = ctypes.c_void_p()
        if self._library.nvmlInit_v2() or self._library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self._handle)):
            raise OSError("NVML has no device 0")

    def used(self) -> int:
        info = self.Info()
        return 0 if self._library.nvmlDeviceGetMemoryInfo(self._handle, ctypes.byref(info)) else int(info.used)


class Watch:
    """Peaks of a process and of the device, read every 50 ms while the block runs."""

    def __init__(self, pid: int, cuda: bool) -> None:
        self.host = self.anonymous = 0
        self.before: int | None = None
        self.device: int | None = None
        self._pid, self._stop = pid, threading.Event()
        try:
            self._memory = DeviceMemory() if cuda else None
        except OSError as error:
            say(f"no peaks of the device: {error}")
            self._memory = None
        if self._memory:
            self.before = self.device = self._memory.used()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._stop.wait(0.05):
            if self._memory:
                self.device = max(self.device or 0, self._memory.used())
            try:
                status = Path(f"/proc/{self._pid}/status").read_text()
            except OSError:
                continue
            sizes = {name: int(kib) << 10 for name, kib in re.findall(r"^(VmHWM|RssAnon):\s+(\d+) kB", status, re.M)}
            self.host = max(self.host, sizes.get("VmHWM", 0))
            self.anonymous = max(self.anonymous, sizes.get("RssAnon", 0))


@dataclasses.dataclass
class Ran:
    """What a program did: its lines on standard error with the seconds after its start, and its peaks."""

    seconds: float
    lines: list[tuple[float, str]]
    figures: dict[str, Any]


def program_environment(libraries: str | None) -> dict[str, str]:
    return {**os.environ, **({"LD_LIBRARY_PATH": libraries} if libraries else {})}


def run_program(command: list[str], limit: float, cuda: bool, libraries: str | None) -> Ran:
    environment = program_environment(libraries)
    say("$ " + " ".join(command))
    start = time.monotonic()
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True
    )
    lines: list[tuple[float, str]] = []
    expired = threading.Event()

    def end() -> None:
        expired.set()
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(limit, end)
    timer.start()
    try:
        with Watch(process.pid, cuda) as watch:
            for line in process.stderr:
                lines.append((time.monotonic() - start, line.rstrip()))
                say("  " + line.rstrip()[:160])
            code = process.wait()
    finally:
        timer.cancel()
    seconds = time.monotonic() - start
    tail = "\n".join(line for _, line in lines[-12:])
    figures = {
        "whole_run": figure(seconds, "s"),
        "device_peak": figure(watch.device, "bytes"),
        "device_before": figure(watch.before, "bytes"),
        "host_peak": figure(watch.host, "bytes"),
        "host_peak_without_files": figure(watch.anonymous, "bytes"),
    }
    if expired.is_set() or code != 0:
        what = f"ended after its limit of {limit:.0f} s" if expired.is_set() else f"exit status {code}"
        raise PartFailed(what, tail, {**figures, **block_times(lines)})
    return Ran(seconds, lines, figures)


class PartFailed(Exception):
    def __init__(self, what: str, tail: str, figures: dict[str, Any] | None = None) -> None:
        super().__init__(what)
        self.tail, self.figures = tail, figures or {}


def run_function(function: Callable[..., dict[str, Any]], limit: float, *arguments: Any) -> dict[str, Any]:
    """The function's figures, from a forked process: the parent never starts CUDA, and all memory is given back."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    with tempfile.TemporaryFile() as errors:

        def child() -> None:
            os.dup2(errors.fileno(), 2)
            sender.send(function(*arguments))

        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        sender.close()
        try:
            if receiver.poll(limit):
                return receiver.recv()
            what = f"ended after its limit of {limit:.0f} s"
        except EOFError:  # it ended without figures
            process.join()
            what = f"exit status {process.exitcode}"
        finally:
            process.kill()
            process.join()
        errors.seek(0)
        raise PartFailed(what, errors.read().decode(errors="replace")[-3000:])


# What runs in torch


def synchronize(device: str) -> None:
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def best_of(device: str, step: Callable[[], None], times: int) -> float:
    """The least seconds of one step, after one that warms up."""
    step()
    least = math.inf
    for _ in range(times):
        synchronize(device)
        start = time.monotonic()
        step()
        synchronize(device)
        least = min(least, time.monotonic() - start)
    return least


def device_peak(device: str) -> float | None:
    import torch

    return torch.cuda.max_memory_allocated() if device == "cuda" else None


def make_checkpoint(directory: str, shape: Shape, blocks: int, windows: int, tokens: int, device: str) -> dict[str, Any]:
    """A checkpoint in bf16, whose products keep the scale of their inputs, and token ids beside it."""
    import numpy
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    model = Path(directory) / "dense"
    model.mkdir()
    h = shape.hidden

    def normal(rows: int, columns: int, scale: float) -> torch.Tensor:
        return (torch.randn(rows, columns, device=device, dtype=torch.float32) * scale).to(torch.bfloat16).cpu()

    ones = torch.ones(h, dtype=torch.bfloat16)
    tensors = {
        "model.embed_tokens.weight": normal(shape.vocabulary, h, 1.0),
        "lm_head.weight": normal(shape.vocabulary, h, h**-0.5),
        "model.norm.weight": ones.clone(),
    }
    for block in range(blocks):
        layer = f"model.layers.{block}."
        for name, (rows, columns) in shape.matrices().items():
            tensors[f"{layer}{name}.weight"] = normal(rows, columns, columns**-0.5)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{layer}{name}.weight"] = ones.clone()
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": h, "intermediate_size": shape.ffn,
        "num_hidden_layers": blocks, "num_attention_heads": shape.heads, "num_key_value_heads": shape.kv_heads,
        "vocab_size": shape.vocabulary, "max_position_embeddings": tokens, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    }  # fmt: skip
    (model / "config.json").write_text(json.dumps(config, indent=1))
    ids = numpy.random.default_rng(0).integers(0, shape.vocabulary, (windows, tokens), dtype=numpy.int32)
    numpy.save(Path(directory) / "ids.npy", ids)
    return {"bytes": figure(sum(t.numel() * t.element_size() for t in tensors.values()), "bytes")}


def measure_peak(device: str) -> dict[str, Any]:
    import torch

    cuda = device == "cuda"
    side, times, dtype = (8192, 20, torch.bfloat16) if cuda else (512, 3, torch.float32)
    a, b = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    out = torch.empty(side, side, device=device, dtype=dtype)

    def step() -> None:
        for _ in range(times):
            torch.mm(a, b, out=out)

    seconds = best_of(device, step, 4) / times
    free, total = torch.cuda.mem_get_info() if cuda else (None, None)
    return {
        "device_name": torch.cuda.get_device_name() if cuda else "processor",
        "product_side": side,
        "product_type": str(dtype).removeprefix("torch."),
        "product_rate": figure(2 * side**3 / seconds / 1e12, "TFLOP/s"),
        "device_free": figure(free, "bytes"),
        "device_total": figure(total, "bytes"),
    }


class Inputs:
    """What the paper's hooks keep of a matrix's inputs: norms of features as Wanda takes them, and the Gram matrix in f32."""

    def __init__(self, columns: int, device: str) -> None:
        import torch

        self.squares = torch.zeros(columns, device=device)
        self.gram = torch.zeros(columns, columns, device=device)
        self.windows = 0

    def add(self, _module: Any, arguments: tuple[Any, ...], _output: Any) -> None:
        x = arguments[0].reshape(-1, arguments[0].shape[-1]).t().float()
        self.squares *= self.windows / (self.windows + 1)
        self.windows += 1
        self.squares += x.norm(p=2, dim=1) ** 2 / self.windows
        self.gram += x @ x.t()


def narrow_consumer(layer: Any, name: str, inputs: Inputs, shape: Shape) -> Any:
    """The paper's choice for one consumer: units by their mean score, producers' rows and consumer's columns; the kept features."""
    heads = name == "o"
    consumer = layer.self_attn.o_proj if heads else layer.mlp.down_proj
    score = (consumer.weight.abs() * inputs.squares.sqrt()).mean(0)
    if heads:
        score = score.reshape(shape.kv_heads, -1).sum(1)
    threshold = score.sort()[0][int(REMOVED * score.numel())]
    units = (score >= threshold).nonzero().flatten()
    width = consumer.weight.shape[1] // score.numel()
    features = features_of(units, width)
    if heads:
        attention, kv = layer.self_attn, features_of(units, shape.head)
        producers = [(attention.q_proj, features), (attention.k_proj, kv), (attention.v_proj, kv)]
    else:
        producers = [(layer.mlp.gate_proj, features), (layer.mlp.up_proj, features)]
    for producer, rows in producers:
        producer.weight.data = producer.weight.data[rows]
    consumer.weight.data = consumer.weight.data[:, features]
    return features


def features_of(units: Any, width: int) -> Any:
    import torch

    return (units[:, None] * width + torch.arange(width, device=units.device)).flatten()


def repair_consumer(consumer: Any, dense: Any, features: Any, gram: Any) -> None:
    """The paper's map from kept features to all, with all of these as right sides, merged into the consumer."""
    import torch

    a = gram[features][:, features]
    a += 1e-3 * (a.diagonal().mean() + 1e-3) * torch.eye(len(features), device=a.device)
    merge = torch.linalg.solve(a, gram[features])
    if not bool(merge.isfinite().all()):
        raise ValueError("the merge map is not finite")
    consumer.weight.data = (dense.float() @ merge.t()).to(dense.dtype)


def paper_block(shape: Shape, inputs: Any, outputs: Any, device: str) -> dict[str, float]:
    """Seconds of the paper's steps for one block."""
    import torch
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

    tokens, dtype = inputs.shape[1], inputs.dtype
    config = LlamaConfig(
        hidden_size=shape.hidden, intermediate_size=shape.ffn, num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads,
        max_position_embeddings=tokens, vocab_size=128,
    )  # fmt: skip
    config._attn_implementation = "sdpa"
    with torch.device(device):
        layer = LlamaDecoderLayer(config, 0).to(dtype)
        rotary = LlamaRotaryEmbedding(config)
    for parameter in layer.parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, 0, parameter.shape[1] ** -0.5)
    positions = torch.arange(tokens, device=device)[None]
    embeddings = rotary(torch.zeros(1, tokens, shape.hidden, dtype=dtype, device=device), positions)

    def forward(window: Any) -> Any:
        out = layer(window[None].to(device), attention_mask=None, position_ids=positions, position_embeddings=embeddings)
        return out[0] if isinstance(out, tuple) else out

    consumers = {"o": layer.self_attn.o_proj, "down": layer.mlp.down_proj}
    kept = {name: Inputs(consumer.weight.shape[1], device) for name, consumer in consumers.items()}
    hooks = [consumer.register_forward_hook(kept[name].add) for name, consumer in consumers.items()]
    seconds: dict[str, float] = {}
    synchronize(device)
    start = last = time.monotonic()

    def lap(name: str) -> None:
        nonlocal last
        synchronize(device)
        seconds[name], last = time.monotonic() - last, time.monotonic()

    for window in inputs:
        forward(window)
    for hook in hooks:
        hook.remove()
    lap("dense_pass")
    dense = {name: consumer.weight.data.clone() for name, consumer in consumers.items()}
    narrowed = {name: narrow_consumer(layer, name, kept[name], shape) for name in consumers}
    lap("select")
    for name, consumer in consumers.items():
        repair_consumer(consumer, dense[name], narrowed[name], kept[name].gram)
    lap("solve")
    for i, window in enumerate(inputs):
        outputs[i] = forward(window)[0].cpu()
    lap("narrow_pass")
    seconds["block"] = time.monotonic() - start
    return seconds


def measure_paper(shape: Shape, windows: int, tokens: int, device: str) -> dict[str, Any]:
    """The paper's steps for two blocks, the second of which counts: the first one warms up."""
    import torch

    torch.manual_seed(0)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    inputs, outputs = (torch.zeros(windows, tokens, shape.hidden, dtype=dtype) for _ in range(2))
    for window in inputs:
        window.copy_(torch.randn(tokens, shape.hidden, device=device))
    with torch.no_grad():
        first = paper_block(shape, inputs, outputs, device)
        second = paper_block(shape, outputs, inputs, device)
    figures = {f"{name}_per_block" if name != "block" else "block": figure(value, "s") for name, value in second.items()}
    figures["first_block"] = figure(first["block"], "s")
    figures["all_blocks"] = figure(second["block"] * shape.layers, "s", "computed")
    figures["device_peak"] = figure(device_peak(device), "bytes")
    return figures


class PlainBlock:
    """One decoder block in PyTorch's own fused operators, of a number of heads and neurons."""

    def __init__(self, shape: Shape, heads: int, neurons: int, tokens: int, device: str) -> None:
        import torch

        self.shape, self.heads, self.tokens = shape, heads, tokens
        self.kv_heads = max(1, heads * shape.kv_heads // shape.heads)
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        h, o, kv = shape.hidden, heads * shape.head, self.kv_heads * shape.head
        sizes = ((o + 2 * kv, h), (h, o), (2 * neurons, h), (h, neurons))
        self.weights = [torch.randn(s, device=device, dtype=dtype) * s[1] ** -0.5 for s in sizes]
        self.one = torch.ones(h, device=device, dtype=dtype)
        steps = torch.arange(tokens, device=device)[:, None]
        angles = steps * 10000.0 ** (-torch.arange(0, shape.head, 2, device=device) / shape.head)
        self.cos, self.sin = angles.cos().to(dtype)[None, :, None], angles.sin().to(dtype)[None, :, None]

    def turn(self, x: Any) -> Any:
        import torch

        a, b = x.chunk(2, -1)
        return torch.cat((a * self.cos - b * self.sin, b * self.cos + a * self.sin), -1).transpose(1, 2)

    def __call__(self, x: Any) -> Any:
        import torch.nn.functional as F

        h, head = self.shape.hidden, self.shape.head
        qkv, out, gate_up, down = self.weights
        every = F.linear(F.rms_norm(x, (h,), self.one, 1e-5), qkv).view(-1, self.tokens, self.heads + 2 * self.kv_heads, head)
        q, k, v = every.split((self.heads, self.kv_heads, self.kv_heads), 2)
        group = self.kv_heads != self.heads
        mixed = F.scaled_dot_product_attention(self.turn(q), self.turn(k), v.transpose(1, 2), is_causal=True, enable_gqa=group)
        x = x + F.linear(mixed.transpose(1, 2).reshape(-1, self.heads * head), out)
        gate, up = F.linear(F.rms_norm(x, (h,), self.one, 1e-5), gate_up).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, down)


def measure_plain(shape: Shape, kept: dict[str, int], tokens: int, device: str) -> dict[str, Any]:
    """Tokens a second of training in plain PyTorch; AdamW fused on a GPU, in the values' own type."""
    import torch
    import torch.nn.functional as F

    torch.manual_seed(0)
    cuda = device == "cuda"
    dtype = torch.bfloat16 if cuda else torch.float32
    heads = kept["heads"] // shape.head
    figures: dict[str, Any] = {}

    def train(layers: int, windows: int, model: bool) -> float:
        dense = [PlainBlock(shape, shape.heads, shape.ffn, tokens, device) for _ in range(layers)]
        narrow = [PlainBlock(shape, heads, kept["ffn"], tokens, device) for _ in range(layers)]
        weights = [w.requires_grad_() for block in narrow for w in block.weights]
        optimizer = torch.optim.AdamW(weights, lr=1e-5, fused=cuda)
        x = torch.randn(windows * tokens, shape.hidden, device=device, dtype=dtype)
        table = torch.randn(shape.vocabulary, shape.hidden, device=device, dtype=dtype) * shape.hidden**-0.5

        def run(blocks: list[PlainBlock]) -> Any:
            y = x
            for block in blocks:
                y = block(y)
            if not model:
                return y
            y = F.linear(F.rms_norm(y, (shape.hidden,), blocks[0].one, 1e-5), table)
            return F.log_softmax(y, -1, dtype=torch.float32)

        def step() -> None:
            with torch.no_grad():
                target = run(dense)
            mine = run(narrow)
            loss = F.kl_div(mine, target, log_target=True, reduction="batchmean") if model else F.mse_loss(mine, target)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        return windows * tokens / best_of(device, step, 4)

    for name, layers, windows, model in (
        ("block_one_window", 1, 1, False), ("block_eight_windows", 1, 8, False),
        ("four_layers_one_window", 4, 1, True), ("four_layers_four_windows", 4, 4, True),
    ):  # fmt: skip
        try:
            figures[name] = figure(train(layers, windows, model), "tokens/s")
        except torch.OutOfMemoryError as error:
            figures[name] = {**figure(None, "tokens/s"), "failure": str(error)[:300]}
        if cuda:
            torch.cuda.empty_cache()
    figures["device_peak"] = figure(device_peak(device), "bytes")
    return figures


# What grail does


def block_times(lines: list[tuple[float, str]]) -> dict[str, Any]:
    """Seconds of blocks by the clock: those between the lines that end two blocks. The first one has what comes before all blocks."""
    ends = [seconds for seconds, line in lines if re.match(r"block \d+/\d+ ", line)]
    if not ends:
        return {}
    each = [b - a for a, b in zip(ends, ends[1:])]
    figures = {"first_block_and_start": figure(ends[0], "s")}
    if each:
        figures["block"] = figure(sum(each) / len(each), "s")
        figures["blocks"] = {"value": each, "unit": "s", "how": "measured"}
    return figures


@dataclasses.dataclass
class Bench:
    arguments: argparse.Namespace
    shape: Shape
    directory: Path
    result: dict[str, Any]

    @property
    def cuda(self) -> bool:
        return self.arguments.device == "cuda"

    def common(self) -> list[str]:
        import torch

        a = self.arguments
        words = ["--calib", str(self.directory / "ids.npy"), "--context", str(a.tokens), "--precision", "bf16" if self.cuda else "f32"]
        words += ["--backend", "torch:" + a.device, "--torch", a.torch or str(Path(torch.__file__).parent)]
        return words + (["--threads", str(a.threads)] if a.threads else [])

    def compress(self, part: str, limit: float) -> dict[str, Any]:
        out = self.directory / part
        method = ["--selector", "wanda", "--compensate", "grail"] if part == "grail" else []
        command = [self.arguments.grail, "compress", str(self.directory / "dense"), "-o", str(out), "--sparsity", str(REMOVED)]
        command += ["--samples", str(self.arguments.windows), *method, *self.common(), *self.arguments.options.split()]
        ran = run_program(command, limit, self.cuda, self.arguments.libraries)
        report = json.loads((out / "report.json").read_text())
        times = block_times(ran.lines)
        figures = {**ran.figures, **times, **self.site_times(report), "command": command}
        if "block" in times:
            self.derive(part, figures, times["block"]["value"], report)
        return figures

    def site_times(self, report: dict[str, Any]) -> dict[str, Any]:
        """Means of the report's seconds over the blocks after the first."""
        figures: dict[str, Any] = {}
        for kind in ("heads", "ffn"):
            sites = [s for s in report["sites"] if s["kind"] == kind and s["block"] > 0]
            for key in ("seconds", "solve_seconds"):
                if sites:
                    figures[f"{kind}_{key}_per_block"] = figure(sum(s[key] for s in sites) / len(sites), "s")
        refits = [r["seconds"] for r in report.get("refits", []) if r["block"] > 0 and r.get("seconds")]
        if refits:
            figures["refits_seconds_per_block"] = figure(sum(refits) / max(1, self.arguments.blocks - 1), "s")
        return figures

    def derive(self, part: str, figures: dict[str, Any], block: float, report: dict[str, Any]) -> None:
        kept = {s["kind"]: s["narrow_width"] for s in report["sites"]}
        self.result["kept"] = kept
        count = operations(self.shape, self.arguments.windows * self.arguments.tokens, self.arguments.tokens, kept)[part]
        figures["all_blocks"] = figure(block * self.shape.layers, "s", "computed")
        figures["operations_per_block"] = figure(count / 1e12, "TFLOP", "computed")
        figures["rate"] = figure(count / block / 1e12, "TFLOP/s", "computed")
        peak = self.value("peak", "product_rate")
        if peak:
            figures["share_of_peak"] = figure(count / block / 1e12 / peak, "1", "computed")

    def value(self, part: str, name: str) -> Any:
        return self.result["parts"].get(part, {}).get(name, {}).get("value")

    def kept(self) -> dict[str, int]:
        """Widths of a run, or those that 30 % in multiples of 128 neurons give."""
        s = self.shape
        groups = s.kv_heads - round(REMOVED * s.kv_heads)
        align = 128 if s.ffn > 1024 else 8
        plain = {"heads": groups * s.hidden // s.kv_heads, "ffn": round((1 - REMOVED) * s.ffn / align) * align}
        return self.result.get("kept", plain)

    def heal(self, limit: float) -> dict[str, Any]:
        a = self.arguments
        model = next((self.directory / p for p in ("grail", "full") if (self.directory / p / "report.json").exists()), None)
        if model is None:
            raise PartFailed("there is no narrowed model: the parts grail and full gave none", "")
        figures: dict[str, Any] = {}
        short, long = (self.heal_once(model, steps, limit / 2, figures) for steps in (a.heal_steps, 3 * a.heal_steps))
        for name in ("blocks", "network"):
            steps, seconds = (l - s for l, s in zip(long[name], short[name]))
            if steps > 0 and seconds > 0:
                figures[f"{name}_rate"] = figure(steps * figures["tokens_per_step"]["value"] / seconds, "tokens/s")
        return figures

    def heal_once(self, model: Path, steps: int, limit: float, figures: dict[str, Any]) -> dict[str, tuple[int, float]]:
        """Steps and seconds, set-up and judgements included, of the trainings of blocks and of that of the network."""
        a = self.arguments
        out = self.directory / f"healed-{steps}"
        command = [a.grail, "heal", str(model), "--teacher", str(self.directory / "dense"), "-o", str(out), "--heal", "block,model"]
        command += ["--heal-steps", str(steps), "--heal-time", f"{max(1, int(0.7 * limit))}s"]
        command += ["--samples", str(min(a.windows, a.heal_steps + 8)), *self.common(), *a.heal_options.split()]
        try:
            ran = run_program(command, limit, self.cuda, a.libraries)
        except PartFailed as failure:
            failure.figures = {**figures, **failure.figures}
            raise
        trainings = json.loads((out / "report.json").read_text())["healed"]
        per_step = min(8, max(1, 2048 // a.tokens)) * a.tokens
        figures.update(ran.figures, command=command, tokens_per_step=figure(per_step, "tokens", "computed"))
        figures[f"trainings_of_{steps}_steps"] = trainings
        done = {}
        for name, whole in (("blocks", False), ("network", True)):
            these = [t for t in trainings if (t["block"] is None) == whole]
            done[name] = sum(t["steps"] for t in these), sum(t["seconds"] for t in these)
            if done[name][1] > 0:
                rate = done[name][0] * per_step / done[name][1]
                figures[f"{name}_rate_with_set_up_of_{steps}_steps"] = figure(rate, "tokens/s")
        return done

    def run_part(self, part: str, limit: float) -> dict[str, Any]:
        a = self.arguments
        if part in ("grail", "full"):
            return self.compress(part, limit)
        if part == "heal":
            return self.heal(limit)
        if part == "peak":
            return run_function(measure_peak, limit, a.device)
        if part == "paper":
            return run_function(measure_paper, limit, self.shape, a.windows, a.tokens, a.device)
        if part == "plain":
            return run_function(measure_plain, limit, self.shape, self.kept(), a.tokens, a.device)
        return run_function(make_checkpoint, limit, str(self.directory), self.shape, a.blocks, a.windows, a.tokens, a.device)

    def measure(self, part: str) -> None:
        left = self.arguments.limit - (time.monotonic() - START)
        limit = min(LIMITS[part], left)
        say(f"{part}, at most {max(limit, 0):.0f} s")
        start = time.monotonic()
        try:
            if limit < 5:
                raise PartFailed("no time was left", "")
            figures = self.run_part(part, limit)
        except PartFailed as failure:
            figures = {"failure": str(failure), "tail": failure.tail, **failure.figures}
        except Exception as error:  # a part that fails must not stop the others
            figures = {"failure": f"{type(error).__name__}: {error}", "tail": ""}
        figures["part_seconds"] = figure(time.monotonic() - start, "s")
        self.result["parts"][part] = figures
        if self.arguments.out:
            Path(self.arguments.out).write_text(json.dumps(self.result, indent=1) + "\n")
        say(f"{part}: " + (f"failed, {figures['failure']}\n{figures['tail']}" if "failure" in figures else "done"))


def shown(name: str, entry: dict[str, Any]) -> str:
    value, unit = entry["value"], entry["unit"]
    if unit == "bytes":
        value, unit = value / 1e9, "GB"
    computed = " (computed)" if entry["how"] == "computed" else ""
    return f"    {name.replace('_', ' '):26} {value:10.4g} {unit if unit != '1' else ''}{computed}"


def summary(result: dict[str, Any]) -> str:
    """The main figures of each part."""
    rows = []
    for part, figures in result["parts"].items():
        rows.append(part + (f" failed: {figures['failure']}" if "failure" in figures else ""))
        rows += [shown(name, figures[name]) for name in SHOWN if figures.get(name, {}).get("value") is not None]
    return "\n".join(rows)


def ratio(result: dict[str, Any]) -> None:
    """How many times as long the paper's steps take as a block of each method."""
    parts = result["parts"]
    paper = parts.get("paper", {}).get("block", {}).get("value")
    for part in ("grail", "full"):
        block = parts.get(part, {}).get("block", {}).get("value")
        if paper and block:
            parts[part]["paper_over_this"] = figure(paper / block, "1", "computed")


def make_directory(wanted: str | None, need: float) -> Path:
    """A new directory in memory, or on the disk where that has no room."""
    base = wanted or "/dev/shm"
    if not wanted and (not os.path.isdir(base) or shutil.disk_usage(base).free < need):
        base = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="grail-gpu-", dir=base))


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Times of grail on a GPU, beside the same work in plain PyTorch.")
    parser.add_argument("--grail", required=True, help="the program")
    parser.add_argument("--libraries", help="LD_LIBRARY_PATH of the program alone")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--shape", choices=tuple(SHAPES), default="7b")
    parser.add_argument("--blocks", type=int, help="blocks of the checkpoint (4; 2 of 70b and tiny)")
    parser.add_argument("--windows", type=int, help="windows of calibration (128; tiny 16)")
    parser.add_argument("--tokens", type=int, help="tokens of a window (2048; tiny 32)")
    parser.add_argument("--heal-steps", type=int, help="steps of each training (32; tiny 2), and three times as many in a second run")
    parser.add_argument("--parts", default=",".join(PARTS), help="those to measure, separated by commas")
    parser.add_argument("--limit", type=float, default=200, help="seconds for everything")
    parser.add_argument("--torch", help="directory of the package torch for grail (that of this Python)")
    parser.add_argument("--threads", type=int, help="threads of grail")
    parser.add_argument("--options", default="", help="more options of grail compress")
    parser.add_argument("--heal-options", default="", help="more options of grail heal")
    parser.add_argument("--directory", help="where to make the checkpoint (/dev/shm)")
    parser.add_argument("--out", help="file of the figures")
    a = parser.parse_args()
    tiny = a.shape == "tiny"
    a.blocks = a.blocks or (2 if a.shape in ("tiny", "70b") else 4)
    a.windows, a.tokens = a.windows or (16 if tiny else 128), a.tokens or (32 if tiny else 2048)
    a.heal_steps = a.heal_steps or (2 if tiny else 32)
    if unknown := set(a.parts.split(",")) - set(PARTS):
        parser.error(f"unknown part {sorted(unknown)[0]}; there are {', '.join(PARTS)}")
    return a


def main() -> int:
    arguments = read_arguments()
    import torch

    say(f"torch {torch.__version__}, {arguments.shape} on {arguments.device}")
    shape = SHAPES[arguments.shape]
    weights = arguments.blocks * sum(r * c for r, c in shape.matrices().values()) + 2 * shape.vocabulary * shape.hidden
    settings = {k: v for k, v in vars(arguments).items() if k not in ("out", "directory")}
    version = subprocess.run([arguments.grail, "--version"], env=program_environment(arguments.libraries), capture_output=True, text=True)
    result: dict[str, Any] = {
        "torch": torch.__version__, "grail": version.stdout.strip() or version.stderr.strip(), "cores": len(os.sched_getaffinity(0)), "shape": dataclasses.asdict(shape), "settings": settings,
        "date": time.strftime("%Y-%m-%d"), "parts": {},
    }  # fmt: skip
    directory = make_directory(arguments.directory, 10.0 * weights)
    bench = Bench(arguments, shape, directory, result)
    try:
        wanted = [part for part in PARTS if part in arguments.parts.split(",")]
        if {"grail", "full", "heal"} & set(wanted):
            bench.measure("checkpoint")
        for part in wanted:
            bench.measure(part)
        ratio(result)
        if arguments.out:
            Path(arguments.out).write_text(json.dumps(result, indent=1) + "\n")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(summary(result), flush=True)
    return 1 if any("failure" in figures for figures in result["parts"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
