#!/usr/bin/env python3
"""Checks that tools/check_symbols.py sees a name that came or went, in the library, the list or the headers."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools"))

import check_symbols  # noqa: E402

NAMES = {"grail_a", "grail_b"}
LIST = "interface 3\ngrail_a\ngrail_b\n"
CASES = [
    ("all the same", NAMES, NAMES, "3", LIST, 0),
    ("a name went", {"grail_a"}, {"grail_a"}, "3", LIST, 1),
    ("a name came", NAMES | {"grail_c"}, NAMES | {"grail_c"}, "3", LIST, 1),
    ("a name is exported by mistake", NAMES | {"grail_c"}, NAMES, "3", LIST, 2),
    ("a name is declared alone", NAMES, NAMES | {"grail_c"}, "3", LIST, 1),
    ("the version was raised alone", NAMES, NAMES, "4", LIST, 1),
    ("the list was changed by hand", NAMES, NAMES, "3", "interface 3\ngrail_b\ngrail_a\n", 1),
    ("the list is empty", set(), set(), "3", "interface 3\n", 1),
]


def main():
    failed = 0
    for what, found, declared, version, text, expected in CASES:
        wrong = check_symbols.faults(found, declared, version, text)
        if len(wrong) != expected:
            print(f"{what}: found {wrong}, expected {expected} faults")
            failed += 1
    if "grail_version" not in check_symbols.declared():
        print("grail_version is not found in the headers")
        failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
