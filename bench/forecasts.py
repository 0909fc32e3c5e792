#!/usr/bin/env python3
"""What `--time` forecasts for ten runs, beside what they take: the whole, and each part.

usage: forecasts.py GRAIL DATA TEXTS SMOLLM2 LITE0 [--only NAME,...] [--record FILE.jsonl]

    GRAIL      the program
    DATA       stories260k/, resnet18-cifar10/resnet18_cifar10.pth and cifar-10-batches-bin/
    TEXTS      tinystories.txt, wikitext2-valid.txt
    SMOLLM2    directory of SmolLM2-135M-Instruct
    LITE0      FOLDER of onnx_efficientnet.py, which holds the network and images

build/resnet20.pth is the network of bench/recipes/vision.json. One run each on one thread. Seconds
are those of the clock that grail reads, so nothing else should run meanwhile; those of the whole
are the processor's, which the time has to cover. Measuring the machine counts among them. A part
that is left out shows in brackets what it would take.
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
RUNS = {
    "demonstration, 20 s": "{demo} --target-ratio 0.72 --time 20s",
    "stories260k, 10 s": "{stories} --target-ratio 0.8 --time 10s",
    "stories260k, 40 s": "{stories} --target-ratio 0.8 --time 40s",
    "widths given, 20 s": "{stories} --sparsity 0.3 --time 20s",
    "ResNet-20, 20 s": "build/resnet20.pth {cifar} --target-ratio 0.7 --time 20s",
    "ResNet-20, 60 s": "build/resnet20.pth {cifar} --target-ratio 0.7 --time 60s",
    "ResNet-18, 90 s": "{resnet18} {cifar} --target-ratio 0.7 --time 90s",
    "EfficientNet-Lite0, 60 s": "{lite0} --sites conv --sparsity 0.3 --time 60s",
    "SmolLM2-135M, usual, 2 min": "{smollm2} --target-ratio 0.8224 --effort usual --time 2m",
    "SmolLM2-135M, 4 min": "{smollm2} --target-ratio 0.8224 --time 4m",
}


def networks(data: str, texts: str, smollm2: str, lite0: str) -> dict[str, str]:
    """What RUNS names, with calibration samples."""
    demo = Path(__file__).parent.parent / "demo"
    return {
        "demo": f"{demo}/model --calib {demo}/calibration.txt",
        "stories": f"{data}/stories260k --calib {texts}/tinystories.txt --context 256",
        "resnet18": f"{data}/resnet18-cifar10/resnet18_cifar10.pth",
        "cifar": f"--calib {data}/cifar-10-batches-bin",
        "lite0": f"{lite0}/tf_efficientnet_lite0.onnx --calib {lite0}/calibration.npy",
        "smollm2": f"{smollm2} --calib {texts}/wikitext2-valid.txt --context 512 --sites ffn",
    }


def run(grail: str, arguments: list[str]) -> dict[str, Any]:
    """The summary of a run, with the processor seconds of the process."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "narrow"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [grail, "compress", *arguments, "-o", str(out), "--threads", "1", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
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
    places = networks(asked.data, asked.texts, asked.smollm2, asked.lite0)
    for name, arguments in RUNS.items():
        if asked.only and not name.startswith(tuple(asked.only.split(","))):
            continue
        summary = run(asked.grail, arguments.format(**places).split())
        if asked.record:
            with Path(asked.record).open("a") as record:
                kept = {key: summary[key] for key in ("schedule", "seconds", "processor")}
                record.write(json.dumps({"run": name, **kept}) + os.linesep)
        print(row(name, summary), flush=True)


if __name__ == "__main__":
    main()
