"""How long networks take for one batch, measured in turns: `grail bench FIRST SECOND`."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np

from .errors import ArgumentError, GrailError
from .model import Model, Path, inspect
from .run import export
from .runner import Runner

ENGINES = ("onnxruntime", "torch", "grail")


@dataclass(frozen=True)
class Timing:
    """Seconds of one run of a network. Half of the runs lie between `low` and `high`. `ratio` is
    the first network's time by this one's: the median over the turns, with its 95 % interval,
    which 6 runs give."""

    model: str
    engine: str
    median: float
    low: float
    high: float
    ratio: float
    ratio_low: float | None
    ratio_high: float | None


def bench(
    *models: Model | Path,
    engine: str | None = None,
    batch: int = 1,
    side: int | None = None,
    length: int | None = None,
    runs: int = 20,
    threads: int | None = None,
) -> tuple[Timing, ...]:
    """Times networks on one batch of random input, one after the other, again and again, so that
    other work of the machine slows all of them. The first two turns do not count.

    `engine`: "onnxruntime" (networks that read images, and the usual for them), "torch" (language
    models, by transformers) or "grail", its own forward pass. `side` is that of the images in
    pixels; `length` is the tokens of a window (128).
    """
    opened = [inspect(model) for model in models]
    reads = {model.facts.reads_images for model in opened}
    if len(reads) != 1:
        raise ArgumentError("bench takes networks that all read images, or all read text")
    images = reads.pop()
    if (length if images else side) is not None:
        raise ArgumentError(f"{opened[0].path} takes no {'length' if images else 'side'}")
    engine = engine or ("onnxruntime" if images else "grail")
    if engine not in ENGINES or engine == ("torch" if images else "onnxruntime"):
        fits = "onnxruntime or grail" if images else "torch or grail"
        raise ArgumentError(f"engine takes {fits} for such networks, not {engine!r}", ("engine",))
    if min(batch, runs, side or 1, length or 1) < 1:
        raise ArgumentError("batch, runs, side and length are at least 1")
    shape = (batch, side) if images else (batch, length or 128)
    threads = threads or os.cpu_count() or 1
    calls = [_ENGINES[engine](model, images, shape, threads) for model in opened]
    seconds = _take_turns(calls, runs)
    return tuple(
        _timing(model.path, engine, own, seconds[0]) for model, own in zip(opened, seconds)
    )


def _take_turns(calls: Sequence[Callable[[], Any]], runs: int) -> list[list[float]]:
    seconds: list[list[float]] = [[] for _ in calls]
    for turn in range(-2, runs):
        for call, own in zip(calls, seconds):
            begin = time.perf_counter()
            call()
            if turn >= 0:
                own.append(time.perf_counter() - begin)
    return seconds


def _timing(path: str, engine: str, own: list[float], first: list[float]) -> Timing:
    ratios = sorted(a / b for a, b in zip(first, own))
    quarter = (len(own) - 1) // 4
    ordered = sorted(own)
    least = _interval(len(ratios))
    return Timing(
        model=path,
        engine=engine,
        median=median(own),
        low=ordered[quarter],
        high=ordered[-1 - quarter],
        ratio=median(ratios),
        ratio_low=None if least is None else ratios[least],
        ratio_high=None if least is None else ratios[-1 - least],
    )


def _interval(count: int) -> int | None:
    """The index of the order statistic that begins a 95 % interval of the median: the largest k
    with P(Binomial(count, 1/2) < k) of at most 2.5 %, less one; None for too few."""
    below, k = 0.0, 0
    while below + math.comb(count, k) / 2.0**count <= 0.025:
        below += math.comb(count, k) / 2.0**count
        k += 1
    return k - 1 if k > 0 else None


def _pixels(model: Model, shape: tuple[int, int | None]) -> Any:
    side = shape[1] or model.facts.image_side
    values = np.random.default_rng(0).standard_normal((shape[0], 3, side, side))
    return values.astype(np.float32)


def _tokens(model: Model, shape: tuple[int, int]) -> Any:
    return np.random.default_rng(0).integers(0, model.facts.vocabulary, shape)


def _in_grail(model: Model, images: bool, shape: Any, threads: int) -> Callable[[], Any]:
    runner = Runner(model, precision="auto", threads=threads)
    if images:
        pixels = _pixels(model, shape)
        return lambda: runner.images(pixels)
    tokens = _tokens(model, shape)
    return lambda: runner.logits(tokens, last=True)


def _in_onnxruntime(model: Model, images: bool, shape: Any, threads: int) -> Callable[[], Any]:
    import onnxruntime

    pixels = _pixels(model, shape)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "model.onnx")
        export(model, file, to="onnx", side=pixels.shape[-1])
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda: session.run(None, {name: pixels})


def _in_torch(model: Model, images: bool, shape: Any, threads: int) -> Callable[[], Any]:
    import torch
    import transformers

    torch.set_num_threads(threads)
    network = transformers.AutoModelForCausalLM.from_pretrained(model.path).eval()
    tokens = torch.from_numpy(_tokens(model, shape)).long()

    def run() -> Any:
        with torch.inference_mode():
            return network(tokens, logits_to_keep=1)

    return run


_ENGINES = {"grail": _in_grail, "onnxruntime": _in_onnxruntime, "torch": _in_torch}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="grail bench", description=__doc__)
    parser.add_argument("models", nargs=2, metavar="MODEL")
    parser.add_argument("--engine", choices=ENGINES)
    parser.add_argument("--batch", type=int, default=1, metavar="N")
    parser.add_argument("--side", type=int, metavar="N", help="side of the images in pixels")
    parser.add_argument("--length", type=int, metavar="N", help="tokens per window (128)")
    parser.add_argument("--runs", type=int, default=20, metavar="N")
    parser.add_argument("--threads", type=int, metavar="N")
    parser.add_argument("--json", action="store_true", help="print one JSON array")
    given = vars(parser.parse_args(arguments))
    paths, as_json = given.pop("models"), given.pop("json")
    try:
        timings = bench(*paths, **given)
    except (GrailError, ImportError) as error:
        print(f"grail bench: {error}", file=sys.stderr)
        return 1
    if as_json:
        print(json.dumps([asdict(timing) for timing in timings], indent=2))
        return 0
    for t in timings:
        print(
            f"{1e3 * t.median:10.3f} ms  {t.model}  "
            f"(half of the runs: {1e3 * t.low:.3f} to {1e3 * t.high:.3f})"
        )
    second = timings[1]
    interval = (
        "6 runs give an interval"
        if second.ratio_low is None or second.ratio_high is None
        else f"95 % interval {second.ratio_low:.2f} to {second.ratio_high:.2f}"
    )
    print(f"the second is {second.ratio:.2f} times as fast ({interval}), in {second.engine}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
