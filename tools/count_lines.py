#!/usr/bin/env python3
"""Lines of code by folder, as the table of docs/architecture.md. A line of a C source counts unless it is blank
or holds only comment.

tools/count_lines.py            prints the table
tools/count_lines.py --check    fails when the document's table has other folders, a sum for src that is off by more
                                than 3 %, or another row that is off by more than 10 %
tools/count_lines.py --write    puts the table into the document"""

import pathlib
import re
import sys
import c_source

WHOLE = ("cli", "include", "tests")
SUM = "src, all"
DOCUMENT = c_source.ROOT / "docs/architecture.md"
HEAD = "| folder | lines of code |\n|---|---|\n"


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
    for name in counted.keys() & shown.keys():
        if abs(shown[name] - counted[name]) * 100 > counted[name] * (3 if name == SUM else 10):
            yield f"{name} has {counted[name]:,} lines of code; docs/architecture.md says {shown[name]:,}"


def table(counted):
    return HEAD + "".join(f"| {name} | {lines:,} |\n" for name, lines in counted.items())


def with_table(counted, document):
    """The document with this table in place of its own."""
    before, _, after = document.partition(HEAD)
    return before + table(counted) + re.sub(r"\A(\|[^\n]*\n)*", "", after)


def main():
    counted = lines_by_folder()
    document = DOCUMENT.read_text()
    if "--write" in sys.argv[1:]:
        DOCUMENT.write_text(with_table(counted, document))
        return 0
    if "--check" not in sys.argv[1:]:
        print(table(counted), end="")
        return 0
    found = sorted(faults(counted, document))
    for fault in found:
        print(f"{fault}; tools/count_lines.py --write brings the table up to date")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
