#!/usr/bin/env python3
"""Checks which figures of lines of code tools/count_lines.py takes for old, and that it replaces its table alone."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools"))

import count_lines  # noqa: E402

COUNTED = {"src/a": 100, "src/b": 900, count_lines.SUM: 1000, "cli": 50}
CASES = [
    ("the same", {}, []),
    ("a folder by a tenth", {"src/a": 110, "src/b": 810}, []),
    ("a folder by more", {"src/a": 111}, ["src/a"]),
    ("another tree by more", {"cli": 44}, ["cli"]),
    ("the sum by 3 %", {count_lines.SUM: 970}, []),
    ("the sum by more", {count_lines.SUM: 1031}, [count_lines.SUM]),
    ("a row too many", {"src/c": 1}, ["src/c"]),
]


def main():
    failed = 0
    for what, changes, expected in CASES:
        document = f"# Lines\n\n{count_lines.table({**COUNTED, **changes})}\n| more | 7 tables |\n"
        found = sorted(count_lines.faults(COUNTED, document))
        if [fault.split(" has ")[0].split(" is ")[0] for fault in found] != expected:
            print(f"{what}: found {found}, expected {expected}")
            failed += 1
        written = count_lines.with_table(COUNTED, document)
        if written != document.replace(count_lines.table({**COUNTED, **changes}), count_lines.table(COUNTED)):
            print(f"{what}: wrote {written}")
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
