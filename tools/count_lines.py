#!/usr/bin/env python3
"""Lines of code by folder, as the table of docs/architecture.md. A line of a C source counts unless it is blank
or holds only comment.

tools/count_lines.py            prints the table
tools/count_lines.py --check    fails when the document's table has other folders, or a sum for src that is off by a
                                tenth; figures of single folders may age"""

import pathlib
import re
import sys
import c_source

WHOLE = ("cli", "include", "tests")
SUM = "src, all"


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


def faults(counted, document):
    shown = {
        name: int(lines.replace(",", ""))
        for name, lines in re.findall(r"^\| (.+?) \| ([\d,]+) \|$", document, re.M)
    }
    for name in counted.keys() ^ shown.keys():
        yield f"{name} is a row of only one of the tree and the table of docs/architecture.md"
    if abs(shown.get(SUM, 0) - counted[SUM]) > counted[SUM] / 10:
        yield f"src has {counted[SUM]:,} lines of code; docs/architecture.md says {shown.get(SUM, 0):,}"


def main():
    counted = lines_by_folder()
    if "--check" not in sys.argv[1:]:
        print("| folder | lines of code |\n|---|---|")
        for name, lines in counted.items():
            print(f"| {name} | {lines:,} |")
        return 0
    found = sorted(faults(counted, (c_source.ROOT / "docs/architecture.md").read_text()))
    for fault in found:
        print(f"{fault}; tools/count_lines.py prints the table")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
