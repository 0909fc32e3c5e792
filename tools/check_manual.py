#!/usr/bin/env python3
"""Checks that the manual and the program name the same commands, options and selectors.

usage: check_manual.py GRAIL
"""

import re
import subprocess
import sys

import c_source

MANUAL = c_source.ROOT / "docs" / "man"
# Commands without a page; grail(1) describes them.
WITHOUT_PAGE = {"completion", "help"}


def help_text(grail, *arguments):
    run = subprocess.run([grail, *arguments, "--help"], capture_output=True, text=True, check=True)
    return run.stdout


def commands_of_program(grail):
    return set(re.findall(r"^  ([a-z]+) +\S", help_text(grail), re.MULTILINE))


def options_of_program(grail, command):
    return set(re.findall(r"^  --([a-z0-9-]+)", help_text(grail, command), re.MULTILINE))


def options_of_page(text):
    """Options that begin a definition: '*--name* _VALUE_'."""
    return set(re.findall(r"^\*--([a-z0-9-]+)\*", text, re.MULTILINE))


def selectors_of_program(grail):
    """The list below --selector: indented names, each with its meaning."""
    listed = help_text(grail, "compress").split("--selector", 1)[1].split("\n  --", 1)[0]
    return set(re.findall(r"^ {28}([a-z0-9-]+) ", listed, re.MULTILINE))


def check_selectors(grail):
    selectors = selectors_of_program(grail)
    compress = (MANUAL / "grail-compress.1.scd").read_text().split("*--selector*", 1)[1].split("\n\n", 1)[0]
    recipe = (MANUAL / "grail-recipe.5.scd").read_text().split("*selectors*", 1)[1].split("\n\n", 1)[0]
    problems = compare("grail-compress.1: --selector", selectors,
                       set(re.findall(r"\*([a-z0-9-]+)\*", compress)))
    problems += compare("grail-recipe.5: selectors", selectors, set(re.findall(r'"([a-z0-9-]+)"', recipe)))
    return problems if selectors else problems + ["grail compress --help lists no selectors"]


def compare(what, program, manual):
    problems = [f"{what}: the manual lacks {name}" for name in sorted(program - manual)]
    return problems + [f"{what}: the program has no {name}" for name in sorted(manual - program)]


def check(grail):
    overview = (MANUAL / "grail.1.scd").read_text()
    commands = commands_of_program(grail)
    described = set(re.findall(r"^\*grail ([a-z]+)\*", overview, re.MULTILINE))
    problems = compare("grail.1", commands, described)
    pages = {p.name[len("grail-"):-len(".1.scd")] for p in MANUAL.glob("grail-*.1.scd")}
    problems += compare("pages", commands - WITHOUT_PAGE, pages)
    for command in sorted(commands & pages):
        page = (MANUAL / f"grail-{command}.1.scd").read_text()
        problems += compare(f"grail-{command}.1", options_of_program(grail, command),
                            options_of_page(page))
    return problems + check_selectors(grail), commands


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    problems, commands = check(sys.argv[1])
    for problem in problems:
        print(problem)
    print(f"{len(commands)} commands, {len(problems)} problems")
    return 1 if problems or not commands else 0


if __name__ == "__main__":
    sys.exit(main())
