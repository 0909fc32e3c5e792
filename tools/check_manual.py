#!/usr/bin/env python3
"""Checks that the manual and the program name the same commands, options, values and defaults.

usage: check_manual.py GRAIL
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

import c_source

MANUAL = c_source.ROOT / "docs" / "man"
# Commands without a page; grail(1) describes them.
WITHOUT_PAGE = {"completion", "help"}
# Commands of the package for Python, whose tests compare them with their pages.
OF_PACKAGE = {"sweep", "report"}
DEMO = c_source.ROOT / "demo"
ONE_SITE = "model.layers.0.mlp.down_proj"
# Keys of a plan that no option sets.
NOT_OPTIONS = {"enabled", "fit", "ridge_of", "regional_training"}


def help_text(grail, *arguments):
    """All of it: the first page of a command may be shorter."""
    page = "--help-all" if arguments else "--help"
    run = subprocess.run([grail, *arguments, page], capture_output=True, text=True, check=True)
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


def summaries_of_program(grail, command):
    """What --help says of each option, in one line."""
    parts = re.split(r"^  --([a-z0-9-]+)", help_text(grail, command), flags=re.MULTILINE)[1:]
    return {name: " ".join(text.split("\n\n", 1)[0].split())
            for name, text in zip(parts[::2], parts[1::2])}


def values_of_program(grail):
    """The words that completion offers: {command: {option: words}}."""
    run = subprocess.run([grail, "completion", "bash"], capture_output=True, text=True, check=True)
    values, command = {}, None
    for line in run.stdout.splitlines():
        if re.fullmatch(r"    [a-z]+\)", line):
            command = line.strip(" )")
        offered = re.match(r" +--([a-z0-9-]+)\) COMPREPLY=\(\$\(compgen -W '([^']*)'", line)
        if offered:
            values.setdefault(command, {})[offered[1]] = offered[2].split()
    return values


def entries_of_page(text):
    """What a page says of each option that it describes itself; names in a row share the last text."""
    parts = re.split(r"^\*--([a-z0-9-]+)\*[^\n]*\n", text, flags=re.MULTILINE)[1:]
    bodies = zip(parts[::2], (re.split(r"^#", body, flags=re.MULTILINE)[0] for body in parts[1::2]))
    return {name: " ".join(body.split()) for name, body in bodies
            if body.strip() and "As for *grail-compress*" not in body}


def check_values(page, words, entries):
    """Every word that an option takes is in its entry, or in that of the page it refers to. Numbers and
    lists are examples."""
    for option in sorted(words.keys() & entries.keys()):
        if re.match(r".*\bas for \*grail-", entries[option], re.IGNORECASE):
            continue
        for word in words[option]:
            if "," not in word and not word.isdigit() and f"*{word}*" not in entries[option]:
                yield f"{page}: --{option} does not name {word}"


def check_defaults(page, summaries, words, entries):
    """The default that --help has in brackets at its end, or before a list of names, where it begins
    with a word or a number; the page has "*word* (default)" or "Default: ..."."""
    for option in sorted(summaries.keys() & entries.keys()):
        end = re.search(r"\(([^()]*)\)(:.*)?$", summaries[option])
        first = re.match(r"[^ ;]+", end[1])[0] if end else ""
        entry = entries[option]
        named = re.findall(r"\*([^* ]+)\* (?:\(default\)|by default)", entry)
        for text in re.findall(r"[Dd]efault: (.+?)(?:\. |\.?$)", entry):
            named += re.findall(r"\*([^* ]+)\*|\b([0-9][0-9.e-]*)\b", text)
        named = {name if isinstance(name, str) else "".join(name) for name in named}
        known = set(words.get(option, []))
        if (first in known or re.fullmatch(r"[0-9.e-]+", first)) and first not in named:
            yield f"{page}: the default of --{option} is {first}, the page has {sorted(named)}"
        for name in sorted((named & known) - set(re.findall(r"[\w,-]+", end[1] if end else ""))):
            yield f"{page}: --help names no default {name} of --{option}"


def compensation_of_options(text):
    """Options as grail-plan(5) names them."""
    pairs = dict(re.findall(r"--([a-z-]+) ([a-z0-9.]+)", text))
    alpha = pairs.pop("alpha")
    pairs["alpha"] = "cross-validation" if alpha == "cv" else float(alpha)
    return {name.replace("-", "_"): value for name, value in pairs.items()}


def check_presets(grail, entry):
    """The options that grail-compress(1) gives for `full` and `grail` are what a run records."""
    for preset in ("full", "grail"):
        described = re.search(rf"\*{preset}\*[^.]*? stands for (.*?)\.(?: |$)", entry)
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([grail, "compress", DEMO / "model", "-o", f"{folder}/out", "--calib",
                            DEMO / "calibration.txt", "--samples", "1", "--context", "16", "--sparsity",
                            f"{ONE_SITE}=0.5", "--compensate", preset, "--quiet"],
                           check=True, capture_output=True)
            recorded = json.loads(pathlib.Path(folder, "out", "plan.json").read_text())["compensation"]
        stated = compensation_of_options(described[1]) if described else {}
        for name in sorted(set(stated) | set(recorded) - NOT_OPTIONS):
            if stated.get(name) != recorded.get(name):
                yield (f"grail-compress.1: --compensate {preset} has {name} {recorded.get(name)}, the page "
                       f"{stated.get(name)}")


def check_plan_page(words):
    """grail-plan(5) has every value of an option that a plan records."""
    page = (MANUAL / "grail-plan.5.scd").read_text()
    for option in ("target", "bias", "conv-fit", "ridge", "ridge-scale", "token-weights", "refit",
                   "gqa", "loop", "stream-score", "metric"):
        key = option.replace("-", "_")
        entry = re.search(rf"\*{key}\*(?::|\n)(.*?)(?:\.\s|\n\n|: the )", page, re.DOTALL)
        named = set(re.findall(r'"([a-z-]+)"', entry[1])) if entry else set()
        yield from compare(f"grail-plan.5: {key}", set(words[option]), named)


def compare(what, program, manual):
    problems = [f"{what}: the manual lacks {name}" for name in sorted(program - manual)]
    return problems + [f"{what}: the program has no {name}" for name in sorted(manual - program)]


def check(grail):
    overview = (MANUAL / "grail.1.scd").read_text()
    commands = commands_of_program(grail)
    described = set(re.findall(r"^\*grail ([a-z]+)\*", overview, re.MULTILINE))
    problems = compare("grail.1", commands | OF_PACKAGE, described)
    pages = {p.name[len("grail-"):-len(".1.scd")] for p in MANUAL.glob("grail-*.1.scd")}
    problems += compare("pages", (commands | OF_PACKAGE) - WITHOUT_PAGE, pages)
    values = values_of_program(grail)
    for command in sorted(commands & pages):
        page = (MANUAL / f"grail-{command}.1.scd").read_text()
        problems += compare(f"grail-{command}.1", options_of_program(grail, command),
                            options_of_page(page))
        words, entries = values.get(command, {}), entries_of_page(page)
        problems += check_values(f"grail-{command}.1", words, entries)
        problems += check_defaults(f"grail-{command}.1", summaries_of_program(grail, command), words, entries)
    compress = entries_of_page((MANUAL / "grail-compress.1.scd").read_text())
    problems += check_presets(grail, compress["compensate"])
    problems += check_plan_page(values["compress"])
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
