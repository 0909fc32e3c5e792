#!/usr/bin/env python3
"""Prints the perplexities of a sweep as Markdown tables, one for each network and text: selectors and ratios down,
repairs across, and what share of the lost log-perplexity a repair takes back from the plain cut. In brackets is half the
width of the 95 % interval of the difference from the plain cut, pair by pair of windows, in percent of the perplexity.

usage: language_table.py RESULTS
"""

import collections
import json
import math
import statistics
import sys

REPAIRS = ["none", "own", "grail", "full"]


def evaluations(line):
    return {e["name"]: e for e in line.get("evaluations", []) if "perplexity" in e}


def read(path):
    dense, cells = {}, collections.defaultdict(dict)
    with open(path, encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            if "dense" in line:
                dense[line["dense"]["checkpoint"]] = evaluations(line["dense"])
            elif "cell" in line:
                c = line["cell"]
                for text, e in evaluations(line).items():
                    key = c["checkpoint"], text, c.get("choices", "")
                    cells[key][c["selector"], c["sparsity"], c["compensate"]] = e
    return dense, cells


def reach(one, other):
    """Half the interval of the mean difference of losses, in percent; normal, since there are many windows."""
    apart = [a - b for a, b in zip(one.get("losses", []), other.get("losses", []))]
    return 100 * 1.96 * statistics.stdev(apart) / math.sqrt(len(apart)) if len(apart) > 1 else None


def number(perplexity):
    return f"{perplexity:.{3 if perplexity < 5 else 2}f}"


def value(dense, plain, e):
    if e is None:
        return ""
    if plain is None or e is plain:
        return number(e["perplexity"])
    lost = math.log(plain["perplexity"] / dense["perplexity"])
    back = f", {100 * math.log(plain['perplexity'] / e['perplexity']) / lost:.0f} %" if lost > 0 else ""
    width = reach(e, plain)
    return number(e["perplexity"]) + back + (f" (±{width:.1f})" if width is not None else "")


def print_table(name, text, choices, dense, found):
    repairs = [r for r in REPAIRS if any(key[2] == r for key in found)]
    print(f"\n{name} on {text}: {number(dense['perplexity'])} when dense"
          f"{', ' + choices if choices else ''}\n\n| selector | removed | " + " | ".join(repairs) + " |")
    print("|" + "---|" * (2 + len(repairs)))
    for selector, ratio in dict.fromkeys((key[0], key[1]) for key in found):
        plain = found.get((selector, ratio, "none"))
        print(f"| {selector} | {100 * ratio:.0f} % | "
              + " | ".join(value(dense, plain, found.get((selector, ratio, r))) for r in repairs) + " |")


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    dense, cells = read(sys.argv[1])
    for (name, text, choices), found in cells.items():
        print_table(name, text, choices, dense[name][text], found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
