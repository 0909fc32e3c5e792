#!/usr/bin/env python3
"""Prints the accuracies of a sweep as the Markdown tables of docs/results/vision.md: by selector and ratio, and by
number of images at the ratio that was measured with most of them.

usage: sweep_table.py RESULTS
"""

import collections
import json
import sys

REPAIRS = ["none", "REPAIR", "grail", "grail+REPAIR", "full"]


def repair_of(cell):
    repaired = cell.get("repair", False)
    if cell["compensate"] == "none":
        return "REPAIR" if repaired else "none"
    return cell["compensate"] + ("+REPAIR" if repaired else "")


def read(path):
    """Top-1 in % of the closed loop: {(selector, ratio, samples, repair): {seed: top-1}}. A later line counts."""
    found = collections.defaultdict(dict)
    selectors = []
    with open(path, encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            if "recipe" in line:
                selectors = line["recipe"]["selectors"]
            cell = line.get("cell")
            if cell and line.get("top1") is not None and cell.get("loop", "closed") == "closed":
                key = cell["selector"], cell["sparsity"], cell["samples"], repair_of(cell)
                found[key][cell["seed"]] = 100 * line["top1"]
    return found, selectors


def mean(found, *key):
    runs = found.get(key)
    return f"{sum(runs.values()) / len(runs):.1f}" if runs else ""


def print_table(columns, rows):
    print("\n| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    found, selectors = read(sys.argv[1])
    samples = collections.Counter(key[2] for key in found if key[3] != "none").most_common(1)[0][0]
    ratios = sorted({key[1] for key in found})
    # A plain cut that needs no samples is recorded once.
    plain = {key[:2]: key[2] for key in found if key[3] == "none"}
    print_table(["selector", "removed", *REPAIRS],
                [[selector, f"{100 * ratio:.0f} %",
                  *(mean(found, selector, ratio, plain.get((selector, ratio)) if r == "none" else samples, r) for r in REPAIRS)]
                 for selector in selectors for ratio in ratios if (selector, ratio) in plain])
    counts = collections.Counter((key[0], key[1]) for key in found if key[3] == "full")
    selector, ratio = counts.most_common(1)[0][0]
    print_table(["images", *REPAIRS[1:]],
                [[str(count), *(mean(found, selector, ratio, count, r) for r in REPAIRS[1:])]
                 for count in sorted({key[2] for key in found if key[:2] == (selector, ratio) and key[3] != "none"})])
    return 0


if __name__ == "__main__":
    sys.exit(main())
