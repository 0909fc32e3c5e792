#!/usr/bin/env python3
"""Writes the results of a sweep that never ran: numbers that look like a sweep's, for tests of the
report and for looking at its page. The same arguments write the same bytes.

usage: make_results.py OUTPUT [--checkpoints N] [--hostile]
--hostile puts markup and control characters into every name.
"""

import argparse
import json
import math
import random

SELECTORS = ["random", "magnitude-l1", "magnitude-l2", "wanda", "fold", "random-fold"]
VARIANTS = [("none", False), ("none", True), ("grail", False), ("grail", True), ("full", False)]
SAMPLES = [8, 16, 32, 64, 128, 256, 512, 1024]
RATIOS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
# The share of a ratio's damage that each selector does, and that each repair leaves.
HARM = {
    "random": 1.35,
    "magnitude-l1": 1.0,
    "magnitude-l2": 0.97,
    "wanda": 0.9,
    "fold": 0.82,
    "random-fold": 1.2,
}
LEFT = {
    ("none", False): 1.0,
    ("none", True): 0.62,
    ("grail", False): 0.33,
    ("grail", True): 0.26,
    ("full", False): 0.17,
}
CHANCE = 0.1
IMAGES = 2000

HOSTILE = (
    "</title></script><script>document.title=1</script><img src=x onerror=document.title=2>"
    "<!--\"'&\u0001\u202e\u2028\u05d0\ufffe" + 200 * "W"
)


def interval(accuracy, images=IMAGES):
    return round(1.96 * math.sqrt(max(accuracy * (1 - accuracy), 1e-9) / images), 5)


def rounded(value, digits=4):
    return round(value, digits)


def accuracy(dense, ratio, selector, variant, samples, noise):
    few = 1.0 if variant == ("none", False) else 1.0 + 2.5 / samples**0.6
    damage = (2.6 * HARM[selector] * LEFT[variant] * few * ratio) ** 2.4
    value = CHANCE + (dense - CHANCE) * math.exp(-damage)
    return min(max(value + noise.gauss(0.0, 0.006), 0.05), dense)


def sites(names, ratio, selector, variant, noise):
    found = []
    for i, (name, units) in enumerate(names):
        before = (0.15 + 0.5 * ratio + 0.02 * i) * HARM[selector] * noise.uniform(0.8, 1.2)
        after = before * (0.25 + ratio * LEFT[variant]) * noise.uniform(0.6, 1.1)
        found.append(
            {
                "name": name,
                "kind": "conv",
                "units": units,
                "kept": max(1, round(units * (1 - ratio))),
                "fit_before": rounded(before),
                "fit_after": rounded(after * 0.9),
                "held_before": rounded(before * 1.02),
                "held_after": rounded(after),
            }
        )
    return found


def network(index):
    if index % 2 == 0:
        names = [("conv1", 64)] + [
            (f"layer{s}.{b}.conv{c}", 64 << (s - 1))
            for s in range(1, 5)
            for b in range(2)
            for c in (1, 2)
        ]
        return {
            "architecture": "resnet",
            "parameters": 11173962,
            "macs": 556651008,
            "top1": rounded(0.86 - 0.004 * (index % 20)),
        }, names
    names = [(f"vision_model.encoder.layers.{i}.mlp.fc1", 1024) for i in range(12)]
    return {
        "architecture": "vit",
        "parameters": 5717416,
        "macs": 908000000,
        "top1": rounded(0.812 + 0.002 * (index % 20)),
    }, names


def cell(name, dense, names, settings, noise):
    selector, ratio, variant, samples, seed = settings
    line = {
        "cell": {
            "checkpoint": name,
            "selector": selector,
            "sparsity": ratio,
            "compensate": variant[0],
            "repair": variant[1],
            "samples": samples,
            "seed": seed,
            "loop": "closed",
        }
    }
    if selector == "wanda" and ratio == 0.9 and variant == ("full", False):
        line["error"] = "site 'layer4.1.conv2': the statistics hold a NaN"
        return line
    top1 = accuracy(dense["top1"], ratio, selector, variant, samples, noise)
    stages = {
        "calibrate": rounded(0.8 + samples / 160),
        "evaluate": rounded(5.1 + noise.random()),
        "compensate": 0.0 if variant[0] == "none" else rounded(2.4 + 3 * (variant[0] == "full")),
    }
    line |= {
        "top1": rounded(top1),
        "top5": rounded(min(1.0, top1 + 0.55 * (1 - top1))),
        "interval": interval(top1),
        "images": IMAGES,
        "parameters": round(dense["parameters"] * (1 - ratio) ** 1.8),
        "macs": round(dense["macs"] * (1 - ratio) ** 1.8),
        "seconds": stages | {"total": rounded(sum(stages.values()))},
        "peak_bytes": round(6e8 + 4e8 * (variant[0] == "full") + 2e8 * noise.random()),
    }
    if variant[0] != "none":
        line["sites"] = sites(names, ratio, selector, variant, noise)
    return line


def settings_of_sweep():
    for selector in SELECTORS:
        seeds = range(3) if "random" in selector else range(1)
        for seed in seeds:
            for ratio in RATIOS:
                for variant in VARIANTS:
                    yield selector, ratio, variant, 128, seed
            for samples in SAMPLES:
                for variant in VARIANTS[2:]:
                    if samples != 128:
                        yield selector, 0.7, variant, samples, seed


def lines(checkpoints, decorate):
    noise = random.Random(20)
    yield {
        "grail_results": 1,
        "recipe": {
            "checkpoints": checkpoints,
            "selectors": SELECTORS,
            "ratios": RATIOS,
            "samples": SAMPLES,
            "note": decorate("two networks"),
        },
        "started": "2026-11-21T08:00:00Z",
        "machine": {"cpu": decorate("Example CPU, 2 cores"), "threads": 2},
        "version": "0.1.0",
    }
    for i in range(checkpoints):
        dense, names = network(i)
        names = [(decorate(name), units) for name, units in names]
        name = decorate(("resnet18" if i % 2 == 0 else "vit-tiny") + (f"-{i}" if i > 1 else ""))
        yield {
            "dense": {"checkpoint": name, "path": f"models/{i}.pth"}
            | dense
            | {"top5": 0.993, "interval": interval(dense["top1"]), "images": IMAGES}
        }
        for settings in settings_of_sweep():
            yield cell(name, dense, names, settings, noise)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("--checkpoints", type=int, default=2)
    parser.add_argument("--hostile", action="store_true")
    arguments = parser.parse_args()
    decorate = (lambda text: text + HOSTILE) if arguments.hostile else (lambda text: text)
    with open(arguments.output, "w", encoding="utf-8") as file:
        for line in lines(arguments.checkpoints, decorate):
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
