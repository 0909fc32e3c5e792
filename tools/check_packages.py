#!/usr/bin/env python3
"""Checks that README.md's Install section names the packages that tools/setup.sh installs to build."""

import re
import sys

import c_source

SETUP = "tools/setup.sh"
README = "README.md"


def words_after(name, pattern):
    """The words of the first match's group, with continued lines joined; None without a match."""
    match = re.search(pattern, (c_source.ROOT / name).read_text(), re.MULTILINE | re.DOTALL)
    return match and match[1].replace("\\\n", " ").split()


def check(build, named):
    for package in sorted(set(build) - set(named)):
        yield f"{README}: {package} is missing, {SETUP} installs it to build"
    for package in sorted(set(named) - set(build)):
        yield f"{README}: {package} is not among the packages that {SETUP} installs to build"
    for name, packages in ((SETUP, build), (README, named)):
        for package in sorted({p for p in packages if packages.count(p) > 1}):
            yield f"{name}: {package} is named twice"


def main():
    build = words_after(SETUP, r"^packages=\(([^)]*)\)")
    named = words_after(README, r"^## Install\n.*?^    sudo apt-get install ((?:[^\n]*\\\n)*[^\n]*)$")
    if not build or not named:
        print(f"{SETUP} has no list of packages, or {README} no line that installs them")
        return 1
    problems = list(check(build, named))
    for problem in problems:
        print(problem)
    print(f"{len(build)} packages, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
