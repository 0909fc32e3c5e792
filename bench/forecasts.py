#!/usr/bin/env python3
"""What `--time` forecasts for ten runs, beside what they take: the whole, and each part.

usage: forecasts.py GRAIL DATA TEXTS SMOLLM2 LITE0 [--only NAME,...] [--record FILE.jsonl]

    GRAIL      the program
    DATA       stories260k/, resnet18-cifar10/resnet18_cifar10.pth and cifar-10-batches-bin/
    TEXTS      tinystories.txt, wikitext2-valid.txt
    SMOLLM2    directory of SmolLM2-135M-Instruct
    LITE0      FOLDER of onnx_efficientnet.py, which holds the network and images

build/resnet20.pth is the network of bench/recipes/vision.json. One run each on one thread. Seconds are those of the clock that grail reads, so nothing else should run meanwhile; the
last column is the processor time of the whole process, which the time has to cover. `took` includes what the forecast
counts: measuring the machine, and the parts. A part that is left out shows what it would take in brackets.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PARTS = ("measured widths", "statistics and fits", "healing")


def runs(data: Path, texts: Path, smollm2: str, lite0: Path) -> dict[str, list[str]]:
    demo = Path(__file__).parent.parent / "demo"
    cifar = ["--calib", str(data / "cifar-10-batches-bin"), "--preset", "cifar"]
    stories = [str(data / "stories260k"), "--calib", str(texts / "tinystories.txt"), "--context", "256"]
    resnet20 = ["build/resnet20.pth", *cifar]
    resnet18 = [str(data / "resnet18-cifar10/resnet18_cifar10.pth"), *cifar]
    efficient = [str(lite0 / "tf_efficientnet_lite0.onnx"), "--calib", str(lite0 / "calibration.npy")]
    smol = [smollm2, "--calib", str(texts / "wikitext2-valid.txt"), "--context", "512", "--sites", "ffn"]
    smol += ["--target-ratio", "0.8224"]
    return {
        "demonstration, 20 s": [str(demo / "model"), "--calib", str(demo / "calibration.txt")]
        + ["--target-ratio", "0.72", "--time", "20s"],
        "stories260k, 10 s": [*stories, "--target-ratio", "0.8", "--time", "10s"],
        "stories260k, 40 s": [*stories, "--target-ratio", "0.8", "--time", "40s"],
        "stories260k, widths given, 20 s": [*stories, "--sparsity", "0.3", "--time", "20s"],
        "ResNet-20, 20 s": [*resnet20, "--target-ratio", "0.7", "--time", "20s"],
        "ResNet-20, 60 s": [*resnet20, "--target-ratio", "0.7", "--time", "60s"],
        "ResNet-18, 90 s": [*resnet18, "--target-ratio", "0.7", "--time", "90s"],
        "EfficientNet-Lite0, 60 s": [*efficient, "--sites", "conv", "--sparsity", "0.3", "--time", "60s"],
        "SmolLM2-135M, usual, 3 min": [*smol, "--effort", "usual", "--time", "3m"],
        "SmolLM2-135M, 6 min": [*smol, "--time", "6m"],
    }


def run(grail: str, arguments: list[str]) -> dict[str, Any]:
    """The summary of a run, with the processor seconds of the process."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "narrow"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [grail, "compress", *arguments, "-o", str(out), "--threads", "1", "--json"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}:\n{done.stderr}")
    summary: dict[str, Any] = json.loads(done.stdout)
    summary["processor"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return summary


def cell(forecast: float, took: float, would_take: float) -> str:
    if forecast > 0.0:
        return f"{forecast:.1f} / {took:.1f}"
    return f"({would_take:.0f})" if would_take > 0.0 else ""


def row(name: str, summary: dict[str, Any]) -> str:
    schedule = summary["schedule"]
    phases = {phase["name"]: phase for phase in schedule["phases"]}
    cells = []
    for part in PARTS:
        phase = phases.get(part, {"seconds": 0.0, "would_take": 0.0})
        cells.append(cell(phase["seconds"], summary["seconds"][part], phase["would_take"]))
    widths = phases.get("measured widths", {"tokens": 0})["tokens"]
    trials = f"{widths:,} tokens" if widths else ""
    whole = f"{schedule['expected_seconds']:.1f} / {summary['processor']:.1f}"
    return f"| {name} | {' | '.join(cells)} | {trials} | {whole} |"


def main() -> None:
    parser = argparse.ArgumentParser(usage=(__doc__ or "").split("usage: ")[1].split("\n")[0])
    for name in ("grail", "data", "texts", "smollm2", "lite0"):
        parser.add_argument(name)
    parser.add_argument("--only", help="names of runs, or their beginnings, with commas")
    parser.add_argument("--record", help="file that each summary is added to")
    asked = parser.parse_args()
    print("| run | widths, forecast / took, s | statistics and fits | healing | trials | all |")
    print("|---|---|---|---|---|---|", flush=True)
    for name, arguments in runs(Path(asked.data), Path(asked.texts), asked.smollm2, Path(asked.lite0)).items():
        if asked.only and not name.startswith(tuple(asked.only.split(","))):
            continue
        summary = run(asked.grail, arguments)
        if asked.record:
            with Path(asked.record).open("a") as record:
                kept = {key: summary[key] for key in ("schedule", "seconds", "processor")}
                record.write(json.dumps({"run": name, **kept}) + os.linesep)
        print(row(name, summary), flush=True)


if __name__ == "__main__":
    main()
