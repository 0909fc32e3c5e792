#!/usr/bin/env python3
"""Checks that the measured figures of the tables of README and the walkthrough are those of docs/results.

A table with figures stands behind the line "<!-- figures: docs/results/NAME.md -->". Each of its rows must stand, cell
by cell, in a table of that file with the same columns; bench/ has the commands that print those tables.
"""

import re
import sys

import c_source

DOCUMENTS = ("README.md", "docs/walkthrough.md")
SOURCE = re.compile(r"^<!-- figures: (docs/results/[\w-]+\.md) -->$")
# A cell that is nothing but a number, perhaps with a unit.
FIGURE = re.compile(r"^[+-]?[0-9][0-9.,]*(?: ?(?:%|[kMGs]|MB|GB|ms))?$")


def cells_of(line):
    return tuple(cell.strip() for cell in line.strip().strip("|").split("|"))


def tables(text):
    """(line, columns, rows, file named before) of each table; rows are (line, cells)."""
    found, named, begun = [], None, False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("|"):
            if not begun:
                found.append((number, cells_of(line), [], named))
            elif not re.fullmatch(r"[|: -]+", line):
                found[-1][2].append((number, cells_of(line)))
            begun = True
        else:
            begun = False
            if line.strip():
                source = SOURCE.match(line)
                named = source[1] if source else None
    return found


def check(document):
    measured = 0
    for number, columns, rows, source in tables((c_source.ROOT / document).read_text()):
        figures = sum(bool(FIGURE.match(cell)) for _, cells in rows for cell in cells)
        if figures == 0 and source is None:
            continue
        measured += figures
        if source is None:
            yield f"{document}:{number}: the table has figures, but no line '<!-- figures: docs/results/... -->' before it"
            continue
        path = c_source.ROOT / source
        if not path.is_file():
            yield f"{document}:{number}: there is no {source}"
            continue
        known = [[cells for _, cells in there] for _, names, there, _ in tables(path.read_text()) if names == columns]
        if not known:
            yield f"{document}:{number}: {source} has no table with the columns of this one"
            continue
        for line, cells in rows:
            if not any(cells in there for there in known):
                yield f"{document}:{line}: {source} has no such row: {' | '.join(cells)}"
    if measured == 0:
        yield f"{document} has no table with figures"


def main():
    problems = [problem for document in DOCUMENTS for problem in check(document)]
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
