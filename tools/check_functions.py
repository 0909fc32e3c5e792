#!/usr/bin/env python3
"""Measures the functions of src/ and cli/, and fails when one is longer than 80 lines.

A function is counted from the line of its name to its closing brace. It is found by the layout that
.clang-format gives: its braces stand alone in the first column.
"""

import statistics
import sys

import c_source

LONGEST = 80


def functions(path):
    """(first line number, length, signature) of every function."""
    lines = c_source.without_comments_and_strings(path.read_text()).split("\n")
    start = 0
    opened = None
    for i, line in enumerate(lines):
        text = line.rstrip()
        if text == "{":
            opened = i
        elif text == "}" and opened is not None:
            yield start + 1, i - start + 1, lines[start].strip()
            opened = None
        elif opened is None and text and not text[0].isspace() and text[0] not in "}#)":
            start = i


def main():
    found = []
    for path in c_source.files("src", "cli"):
        found += [(length, f"{c_source.name(path)}:{first}", signature)
                  for first, length, signature in functions(path)]
    if not found:
        print("no functions were found")
        return 1
    lengths = [length for length, _, _ in found]
    share = {limit: 100.0 * sum(l < limit for l in lengths) / len(lengths) for limit in (20, 60)}
    print(f"{len(found)} functions: median {statistics.median(lengths):g} lines, "
          f"{share[20]:.1f} % under 20, {share[60]:.1f} % under 60, longest {max(lengths)}")
    too_long = [f for f in sorted(found, reverse=True) if f[0] > LONGEST]
    for length, place, signature in too_long:
        print(f"{place}: {length} lines, at most {LONGEST}: {signature}")
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main())
