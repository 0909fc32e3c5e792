#!/usr/bin/env python3
"""Checks what tools/count_lines.py says of budgets and of old figures, and that it replaces its table alone."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools"))

import count_lines  # noqa: E402

COUNTED = {"src/a": 100, "src/b": 900, count_lines.SUM: 1000, "cli": 50}
BUDGETS = count_lines.read_budgets(f"# why\n\nsrc/a 100\nsrc/b 950\n{count_lines.SUM}  1010\ncli 60\n")
CASES = [  # figures, budgets and figures of the table that differ, and the rows that are told of
    ("the same", {}, {}, {}, []),
    ("a line above the budget", {"src/a": 101}, {}, {"src/a": 101}, ["src/a"]),
    ("the sum above its budget", {count_lines.SUM: 1011}, {}, {}, [count_lines.SUM]),
    ("a folder without a budget", {"src/c": 1}, {}, {}, ["src/c"]),
    ("a budget without a folder", {}, {"src/c": 1}, {}, ["src/c"]),
    ("a table that is off by a tenth", {}, {}, {"src/a": 110}, []),
    ("a table that is off by more", {}, {}, {"src/a": 111}, ["src/a"]),
    ("a table with another budget", {}, {"src/b": 940}, {}, ["src/b"]),
    ("a row too many", {}, {}, {"src/c": 1}, ["src/c"]),
]


def main():
    failed = 0
    for what, lines, budgets, shown, expected in CASES:
        counted, own = {**COUNTED, **lines}, {**BUDGETS, **budgets}
        old = count_lines.table({**COUNTED, **shown}, BUDGETS)
        document = f"# Lines\n\n{old}\n| more | 7 tables |\n"
        found = list(count_lines.faults(counted, own, document))
        if len(found) != len(expected) or not all(name in fault for name, fault in zip(expected, found)):
            print(f"{what}: found {found}, expected {expected}")
            failed += 1
        written = count_lines.with_table(counted, own, document)
        if written != document.replace(old, count_lines.table(counted, own)):
            print(f"{what}: wrote {written}")
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
