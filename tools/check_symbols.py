#!/usr/bin/env python3
"""Compares what libgrail exports, and what its headers declare, with tests/install/symbols.txt.

A program that was linked with the library finds its functions by these names. The first line of the
list is the version of the interface that it is of (include/grail/version.h), which a change that
breaks programs raises: a name that went, or took other arguments.

usage: check_symbols.py NM LIBRARY [--write]
"""

import re
import subprocess
import sys

import c_source

LIST = c_source.ROOT / "tests/install/symbols.txt"
HEADERS = c_source.ROOT / "include/grail"


def exported(nm, library):
    """Names that the library offers."""
    text = subprocess.run([nm, "-D", "--defined-only", library], check=True, capture_output=True,
                          text=True).stdout
    names = [line.split()[-1].split("@")[0] for line in text.splitlines() if line.strip()]
    return {name for name in names if name.startswith("grail_")}


def declared():
    """Names of the functions that headers declare."""
    names = set()
    for path in sorted(HEADERS.glob("*.h")):
        text = c_source.without_comments_and_strings(path.read_text())
        names |= set(re.findall(r"^GRAIL_API\b[^;{]*?\b(grail_\w+)\s*\(", text, re.MULTILINE))
    return names


def interface_version():
    text = (HEADERS / "version.h").read_text()
    return re.search(r"^#define GRAIL_INTERFACE_VERSION (\d+)$", text, re.MULTILINE).group(1)


def differences(name_of_left, left, name_of_right, right):
    """A line for each name that is in one of the sets alone."""
    return ([f"{name} is in {name_of_left}, but not in {name_of_right}" for name in
             sorted(left - right)] +
            [f"{name} is in {name_of_right}, but not in {name_of_left}" for name in
             sorted(right - left)])


def faults(found, declared_names, version, text):
    """What is wrong with the list `text` beside the library, the headers and the version."""
    first, *names = text.split("\n")[:-1]
    wrong = differences("the library", found, LIST.name, set(names))
    wrong += differences("the library", found, "the headers", declared_names)
    if first != f"interface {version}":
        wrong.append(f"{LIST.name} is of '{first}', but version.h says {version}")
    if names != sorted(set(names)) or not names:
        wrong.append(f"{LIST.name} is not sorted, or empty")
    return wrong


def main():
    found = exported(sys.argv[1], sys.argv[2])
    version = interface_version()
    if sys.argv[3:] == ["--write"]:
        LIST.write_text("\n".join([f"interface {version}", *sorted(found)]) + "\n")
    wrong = faults(found, declared(), version, LIST.read_text())
    for fault in wrong:
        print(fault)
    if wrong:
        print("a name that went, or whose function changed, breaks programs: raise "
              "GRAIL_INTERFACE_VERSION; then run tools/check_symbols.py NM LIBRARY --write")
    else:
        print(f"interface {version}: {len(found)} functions")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
