#!/usr/bin/env python3
"""Lines of code by folder, and their budgets. A line of a C source counts unless it is blank or holds only comment.

tools/line_budgets.txt names for each folder how many lines it may have. A budget is raised in a commit alone that says
why; folders that became shorter get smaller ones.

tools/count_lines.py            prints the table
tools/count_lines.py --check    fails when a folder has no budget or more lines, or the table of docs/architecture.md
                                has other budgets, or lines that are off by more than 10 %
tools/count_lines.py --write    puts the table into the document"""

import pathlib
import re
import sys
import c_source

WHOLE = ("cli", "include", "tests")
SUM = "src, all"
DOCUMENT = c_source.ROOT / "docs/architecture.md"
BUDGETS = c_source.ROOT / "tools/line_budgets.txt"
HEAD = "| folder | lines of code | budget |\n|---|---|---|\n"
ROW = re.compile(r"^\| (.+?) \| ([\d,]+) \| ([\d,]+) \|$", re.MULTILINE)


def lines_of_code(path):
    text = c_source.without_comments(path.read_text(errors="replace"))
    return sum(1 for line in text.split("\n") if line.strip())


def lines_by_folder():
    """{row: lines}, in the order of the table: folders of src, their sum, and the other trees as a whole."""
    found = {}
    for path in c_source.files("src"):
        folder = "/".join(pathlib.Path(c_source.name(path)).parts[:-1][:2])
        found[folder] = found.get(folder, 0) + lines_of_code(path)
    found = dict(sorted(found.items()))
    found[SUM] = sum(found.values())
    for tree in WHOLE:
        found[tree] = sum(map(lines_of_code, c_source.files(tree)))
    return found


def read_budgets(text):
    """{row: lines}; that of "src, all" is a sum of its own, below that of the folders."""
    rows = [line.rpartition(" ") for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {name.strip(): int(lines) for name, _, lines in rows}


def faults(counted, budgets, document):
    shown = {name: (lines, budget) for name, lines, budget in ROW.findall(document)}
    for name in sorted(counted.keys() ^ budgets.keys()):
        yield f"{name} is only one of a folder and a row of tools/line_budgets.txt"
    for name in sorted(counted.keys() & budgets.keys()):
        lines, budget = counted[name], budgets[name]
        if lines > budget:
            yield f"{name} has {lines:,} lines of code; its budget in tools/line_budgets.txt is {budget:,}"
        said = [int(number.replace(",", "")) for number in shown.get(name, ("0", "0"))]
        if abs(said[0] - lines) * 10 > lines or said[1] != budget:
            yield f"the table of docs/architecture.md is old for {name}; tools/count_lines.py --write renews it"
    for name in sorted(shown.keys() - counted.keys()):
        yield f"the table of docs/architecture.md has {name}; tools/count_lines.py --write renews it"


def table(counted, budgets):
    return HEAD + "".join(f"| {name} | {lines:,} | {budgets.get(name, 0):,} |\n" for name, lines in counted.items())


def with_table(counted, budgets, document):
    """The document with this table in place of its own."""
    before, _, after = document.partition(HEAD)
    return before + table(counted, budgets) + re.sub(r"\A(\|[^\n]*\n)*", "", after)


def main():
    counted, budgets = lines_by_folder(), read_budgets(BUDGETS.read_text())
    document = DOCUMENT.read_text()
    if "--write" in sys.argv[1:]:
        DOCUMENT.write_text(with_table(counted, budgets, document))
        return 0
    if "--check" not in sys.argv[1:]:
        print(table(counted, budgets), end="")
        return 0
    found = list(faults(counted, budgets, document))
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
