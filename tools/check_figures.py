#!/usr/bin/env python3
"""Checks that the measured figures of the tables of README and the walkthrough are those of docs/results, that a
table there behind a command of bench/table.py is what the command prints, and that README's picture is what bench/curve.py draws.

A table with figures stands behind the line "<!-- figures: docs/results/NAME.md -->". Each of its rows must stand, cell
by cell, in a table of that file with the same columns; bench/ has the commands that print those tables.
"""

import os
import re
import shlex
import sys

import c_source

sys.path.insert(0, str(c_source.ROOT / "bench"))

import curve  # noqa: E402
import table  # noqa: E402

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


def commands(text):
    """(line, words, lines of the next table) of each command of bench/table.py."""
    for command in re.finditer(r"^ *bench/table\.py (?:.*\\\n)*.*$", text, re.M):
        behind = re.search(r"(?:^\|.*\n?)+", text[command.end():], re.M)
        yield (text.count("\n", 0, command.start()) + 1, shlex.split(command[0].replace("\\\n", " "))[1:],
               behind[0].splitlines() if behind else [])


def check_printed(path):
    """That the tables of a document are what its commands print, which name files from the root."""
    for number, words, found in commands(path.read_text()):
        try:
            printed = table.lines(words)
        except (table.Refused, OSError) as error:
            yield f"{path.name}:{number}: {error}"
            continue
        for line in [line for line in printed if line not in found] or ([] if found == printed else ["other or further rows stand there"]):
            yield f"{path.name}:{number}: the table behind the command is not what it prints: {line}"


def main():
    os.chdir(c_source.ROOT)
    problems = [problem for document in DOCUMENTS for problem in check(document)]
    problems += [problem for path in sorted((c_source.ROOT / "docs/results").glob("*.md")) for problem in check_printed(path)]
    problems += curve.problems()
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
