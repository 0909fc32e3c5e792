#!/usr/bin/env python3
"""Checks that messages of the library name no option of the command line: error_about() says which field
they are about, and the command line adds the option.

usage: check_messages.py GRAIL
"""

import re
import sys

import c_source
import check_manual

STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def options(grail):
    commands = check_manual.commands_of_program(grail) - check_manual.WITHOUT_PAGE
    return set().union(*(check_manual.options_of_program(grail, c) for c in commands))


def named_options(path, known):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for string in STRING.findall(line):
            for name in re.findall(r"--([a-z][a-z0-9-]*)", string):
                if name in known:
                    yield f"{path.relative_to(c_source.ROOT)}:{number}: names the option --{name}"


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    known = options(sys.argv[1])
    files = sorted(p for folder in ("src", "include") for p in (c_source.ROOT / folder).rglob("*.[ch]"))
    problems = [problem for path in files for problem in named_options(path, known)]
    for problem in problems:
        print(problem)
    print(f"{len(files)} files, {len(known)} options, {len(problems)} problems")
    return 1 if problems or not known else 0


if __name__ == "__main__":
    sys.exit(main())
