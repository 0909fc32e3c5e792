#!/usr/bin/env python3
"""Checks all sources with another compiler, without making code: the warnings that it has of its own.

usage: tools/check_syntax.py COMPILER BUILD_DIRECTORY JOBS
The build directory holds compile_commands.json of that compiler. The warnings that it draws from the code
which it makes are left to a build with it.
"""
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor


def command(entry, compiler):
    words = shlex.split(entry["command"])
    at = words.index("-o")  # whatever launcher, compiler and output it names
    first = next(i for i, word in enumerate(words) if word.startswith("-"))
    return [compiler] + words[first:at] + ["-fsyntax-only"] + words[at + 2:]


def generate_missing(entries, build):
    """Makes the sources that the build writes."""
    missing = {e["file"] for e in entries if not os.path.exists(e["file"])}
    if missing:
        names = [os.path.relpath(file, os.path.realpath(build)) for file in sorted(missing)]
        subprocess.run(["cmake", "--build", build, "--target", *names], check=True)


def check(entry, compiler):
    done = subprocess.run(command(entry, compiler), cwd=entry["directory"], capture_output=True, text=True)
    print(done.stderr, end="")
    return done.returncode == 0


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__.strip())
    compiler, build, jobs = sys.argv[1:]
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    generate_missing(entries, build)
    different = {tuple(command(e, compiler)): e for e in entries}  # several programs compile one file alike
    with ThreadPoolExecutor(int(jobs)) as pool:
        passed = list(pool.map(lambda e: check(e, compiler), different.values()))
    print(f"{len(passed)} files, {passed.count(False)} with errors")
    sys.exit(not passed or not all(passed))


if __name__ == "__main__":
    main()
