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

START = time.monotonic()

import gpu_torch  # noqa: E402
import torch  # noqa: E402
from gpu_torch import REMOVED, Shape, figure  # noqa: E402

PARTS = ("peak", "grail", "paper", "full", "heal", "plain")
LIMITS = {"checkpoint": 50, "peak": 25, "grail": 50, "paper": 45, "full": 60, "heal": 60, "plain": 45}  # seconds
SHOWN = (  # figures of the table that is printed
    "product_rate", "block", "all_blocks", "rate", "share_of_peak", "paper_over_this", "device_peak", "host_peak",
    "blocks_rate", "network_rate", "block_one_window", "block_eight_windows", "four_layers_one_window", "four_layers_four_windows",
)  # fmt: skip


SHAPES = {
    "7b": Shape(4096, 11008, 32, 32, 32, 32000),
    "13b": Shape(5120, 13824, 40, 40, 40, 32000),
    "70b": Shape(8192, 28672, 64, 8, 80, 32000),
    "tiny": Shape(64, 160, 8, 4, 2, 256),
}


def say(text: str) -> None:
    print(f"[{time.monotonic() - START:6.1f} s] {text}", flush=True)


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
        if process.poll() is None:
            end()
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
        a = self.arguments
        words = ["--calib", str(self.directory / "ids.npy"), "--context", str(a.tokens), "--precision", "bf16" if self.cuda else "f32"]
        words += ["--backend", "torch:" + a.device, "--torch", a.torch or str(Path(torch.__file__).parent)]
        return words + (["--threads", str(a.threads)] if a.threads else [])

    def compress(self, part: str, limit: float) -> dict[str, Any]:
        out = self.directory / part
        method = ["--selector", "wanda", "--compensate", "grail"] if part == "grail" else []
        command = [self.arguments.grail, "compress", str(self.directory / "dense"), "-o", str(out), "--sparsity", str(REMOVED)]
        command += ["--samples", str(self.arguments.windows), *method, *self.common(), *self.arguments.options.split()]
        try:
            ran = run_program(command, limit, self.cuda, self.arguments.libraries)
        except PartFailed as failure:  # the blocks that it finished still tell
            self.derive(part, failure.figures)
            raise
        report = json.loads((out / "report.json").read_text())
        self.result["kept"] = {s["kind"]: s["narrow_width"] for s in report["sites"]}
        figures = {**ran.figures, **block_times(ran.lines), **self.site_times(report), "command": command}
        self.derive(part, figures)
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

    def derive(self, part: str, figures: dict[str, Any]) -> None:
        """Adds what follows from the time of a block, where it is known."""
        if "block" not in figures:
            return
        block = figures["block"]["value"]
        tokens = self.arguments.tokens
        count = operations(self.shape, self.arguments.windows * tokens, tokens, self.kept())[part]
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
        words = a.heal_options.split()
        usual = min(8, max(1, 2048 // a.tokens))
        per_step = (int(words[words.index("--heal-batch") + 1]) if "--heal-batch" in words else usual) * a.tokens
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
            return run_function(gpu_torch.measure_peak, limit, a.device)
        if part == "paper":
            return run_function(gpu_torch.measure_paper, limit, self.shape, a.windows, a.tokens, a.device)
        if part == "plain":
            return run_function(gpu_torch.measure_plain, limit, self.shape, self.kept(), a.tokens, a.device)
        return run_function(gpu_torch.make_checkpoint, limit, str(self.directory), self.shape, a.blocks, a.windows, a.tokens, a.device)

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
        ratio(self.result)
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
    parser.add_argument("--heal-options", default="", help="more options of grail heal, such as --heal-batch 8 for steps of 8 windows")
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
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of what cleans up
    say(f"torch {torch.__version__}, {arguments.shape} on {arguments.device}")
    shape = SHAPES[arguments.shape]
    weights = arguments.blocks * sum(r * c for r, c in shape.matrices().values()) + 2 * shape.vocabulary * shape.hidden
    settings = {k: v for k, v in vars(arguments).items() if k not in ("out", "directory")}
    environment = program_environment(arguments.libraries)
    version = subprocess.run([arguments.grail, "--version"], env=environment, capture_output=True, text=True)
    result: dict[str, Any] = {
        "torch": torch.__version__, "grail": version.stdout.strip() or version.stderr.strip(), "cores": len(os.sched_getaffinity(0)),
        "shape": dataclasses.asdict(shape), "settings": settings, "date": time.strftime("%Y-%m-%d"), "parts": {},
    }  # fmt: skip
    directory = make_directory(arguments.directory, 10.0 * weights)
    bench = Bench(arguments, shape, directory, result)
    try:
        wanted = [part for part in PARTS if part in arguments.parts.split(",")]
        if {"grail", "full", "heal"} & set(wanted):
            bench.measure("checkpoint")
        for part in wanted:
            bench.measure(part)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(summary(result), flush=True)
    return 1 if any("failure" in figures for figures in result["parts"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
