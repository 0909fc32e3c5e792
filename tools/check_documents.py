#!/usr/bin/env python3
"""Checks that what the documents name exists: files, functions and keys in code spans, and the commands and
options of command lines. Checks, too, that no sentence of ours begins with 'of', in any text.

usage: check_documents.py GRAIL
"""

import re
import subprocess
import sys

import c_source
import check_manual

SOURCES = ("src", "cli", "include", "tests", "fuzz", "bench", "tools", "examples", "cmake", "demo", "notebooks", "python")
# A name in capitals stands for the reader's own: src/arch/decoder_NAME.c.
PLACEHOLDER = re.compile(r"[A-Z]{4,}")
# Other projects have them, or a run makes them.
FOREIGN = {"convert_hf_to_gguf.py", "pytorch_resnet_cifar10", "OMP_STACKSIZE", "demo/out/report.html"}
# What a span that is a path to a file of ours begins or ends with.
PATH = re.compile(r"^(?!_)[\w./-]*(?:/[\w.-]*|\.(?:c|h|py|sh|awk|scd|cmake))$")
# Texts of ours, with their comments and messages.
PROSE = re.compile(r"\.(?:c|h|ipynb|md|scd|py|sh|js|css|cmake|map)$|CMakeLists\.txt$")
# A function, a key or a field; a capital letter only where a macro is named.
IDENTIFIER = re.compile(r"^(?:[a-z][a-z0-9]*(?:_[a-z0-9]+)+|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)(?:\(.*\))?$")


def tracked_files():
    run = subprocess.run(["git", "-C", c_source.ROOT, "ls-files"], capture_output=True, text=True)
    if run.returncode == 0:
        return run.stdout.split("\n")
    return [p.relative_to(c_source.ROOT).as_posix() for folder in (*SOURCES, "docs")
            for p in (c_source.ROOT / folder).rglob("*")]


def documents(files):
    return [name for name in files if re.search(r"\.(?:md|scd)$", name)]


def places(files):
    """All paths of files and folders, from every folder on, with and without the ending of C files."""
    known = set()
    for name in files:
        parts = name.split("/")
        for end in range(1, len(parts) + 1):
            for begin in range(end):
                path = "/".join(parts[begin:end])
                known |= {path, re.sub(r"\.[ch]$", "", path)}
    return known


def parts(text):
    """(line, text) of the code blocks, fenced or indented, and of the code spans of the prose."""
    blocks, spans, fenced = [], [], False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            blocks.append((number, line))
        else:
            spans += [(number, span) for span in re.findall(r"`([^`]+)`", line)]
    return blocks, spans


def command_lines(text):
    """The words behind "grail" of every command line, continued lines joined."""
    blocks, spans = parts(text)
    lines = re.sub(r"\\+\n *", " ", "\n".join(line for _, line in blocks)).splitlines()
    for line in lines + [span for _, span in spans]:
        found = re.match(r" *(?:\$ )?(?:build/release/bin/)?grail ([a-z]+(?: [^|;#]*)?)", line)
        if found:
            yield found[1].split()


def check_spans(name, text, known, source):
    for number, span in parts(text)[1]:
        if PLACEHOLDER.search(span) and "/" in span or span in FOREIGN:
            continue
        top = span.split("/")[0]
        if PATH.match(span) and (top in SOURCES or top == "docs" or "/" not in span):
            if span.rstrip("/") not in known:
                yield f"{name}:{number}: there is no file {span}"
        elif IDENTIFIER.match(span) and span.split("(")[0] not in source:
            yield f"{name}:{number}: the sources have no {span}"


def check_commands(name, text, options):
    for words in command_lines(text):
        command = words[0]
        if command not in options:
            yield f"{name}: there is no command 'grail {command}'"
            continue
        for word in words[1:]:
            option = re.match(r"^\[?--([a-z][a-z0-9-]*)", word)
            if option and option[1] not in options[command]:
                yield f"{name}: grail {command} has no --{option[1]}"


def check_options(name, text, options, source):
    """They are those of a command, or of a program of bench/ or tools/, which have the name in a string."""
    every = set().union(*options.values())
    for number, span in parts(text)[1]:
        option = re.match(r"^--([a-z][a-z0-9-]*)(?:[ =].*)?$", span)
        if option and option[1] not in every and not re.search(rf'"(?:--)?{option[1]}"', source):
            yield f"{name}:{number}: no command has --{option[1]}"


def check_sentences(name, text):
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(r"\bOf\b", line):
            yield f"{name}:{number}: begins a sentence with 'of'; name the subject first"


def check(grail):
    files = tracked_files()
    known = places(files)
    source = "\n".join((c_source.ROOT / name).read_text(errors="replace") for name in files
                       if name.split("/")[0] in SOURCES and "." in name and not name.endswith(".md")
                       and (c_source.ROOT / name).is_file() and "/corpus/" not in name)
    source += "\n".join(files)
    commands = check_manual.commands_of_program(grail)
    options = {c: check_manual.options_of_program(grail, c) if c not in check_manual.WITHOUT_PAGE else set()
               for c in commands}
    for command in check_manual.OF_PACKAGE:
        page = check_manual.MANUAL / f"grail-{command}.1.scd"
        options[command] = check_manual.options_of_page(page.read_text())
    options["logits"] = check_manual.options_of_program(grail, "logits")  # not listed
    pages = documents(files)
    problems = []
    for name in files:
        if PROSE.search(name) and (c_source.ROOT / name).is_file():
            problems += check_sentences(name, (c_source.ROOT / name).read_text(errors="replace"))
    for name in pages:
        text = (c_source.ROOT / name).read_text()
        problems += check_spans(name, text, known, source)
        problems += check_commands(name, text, options)
        problems += check_options(name, text, options, source)
    return problems, len(pages)


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    problems, pages = check(sys.argv[1])
    for problem in problems:
        print(problem)
    print(f"{pages} documents, {len(problems)} problems")
    return 1 if problems or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
