#!/usr/bin/env python3
"""Checks that tools/check_layers.py finds files that call each other in a circle, and no others."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools"))

import check_layers  # noqa: E402

ONE_WAY = {
    "base/a.h": "typedef struct a {int x;} a;\ngrail_status a_new(int n,\n    a **out) GRAIL_MUST_CHECK;\n",
    "base/a.c": '#include "base/a.h"\n#include "base/b.h"\ngrail_status a_new(int n, a **out) {return b_fill(*out);}\n',
    "base/b.h": '#include "base/a.h"\ngrail_status b_fill(a *x);\n',
    "base/b.c": '#include "base/b.h"\ngrail_status b_fill(a *x) {return x->x;}\n',
}
# b calls back; and by way of a third file.
BACK = {"base/b.c": '#include "base/b.h"\n#include "base/a.h"\ngrail_status b_fill(a *x) {return a_new(1, &x);}\n'}
ROUND = {
    "base/b.c": '#include "base/b.h"\n#include "base/c.h"\ngrail_status b_fill(a *x) {return c_make(x);}\n',
    "base/c.h": '#include "base/a.h"\nint c_make(a *x);\n',
    "base/c.c": '#include "base/c.h"\nint c_make(a *x) {return a_new(1, &x);}\n',
}
# a's header declares what b.c defines and calls a for; then a.c calls it, too, or only uses the type of a pointer to it.
ELSEWHERE = {
    "base/a.h": "int a_one(int n);\nint a_two(int n);\ntypedef int a_three(int n);\n",
    "base/a.c": '#include "base/a.h"\nint a_one(int n) {return n;}\n',
    "base/b.c": '#include "base/a.h"\nint a_two(int n)\n{\n    return a_one(n);\n}\n',
}
BETWEEN = {"base/a.c": '#include "base/a.h"\nint a_one(int n) {return n > 0 ? a_two(n - 1) : n;}\n'}
POINTER = {"base/a.c": '#include "base/a.h"\nint a_one(int n) {a_three *f = 0; return f == 0 ? n : f(n);}\n'}
CASES = [
    ("types that go back", ONE_WAY, []),
    ("two files", {**ONE_WAY, **BACK}, [["base/a", "base/b"]]),
    ("another file defines what a header declares", ELSEWHERE, []),
    ("two files by one header", {**ELSEWHERE, **BETWEEN}, [["base/a", "base/b"]]),
    ("a type of functions", {**ELSEWHERE, **POINTER}, []),
    ("three files", {**ONE_WAY, **ROUND}, [["base/a", "base/b", "base/c"]]),
]


def main():
    failed = 0
    for what, texts, expected in CASES:
        found = check_layers.find_circles(texts)
        if found != expected:
            print(f"{what}: found {found}, expected {expected}")
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
