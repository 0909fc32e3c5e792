"""The commands grail sweep and grail report."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from typing import Callable

from .errors import StudyError, printable
from .report import write_report


def _run(work: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    try:
        return work(options)
    except StudyError as error:
        print(f"grail: {error}", file=sys.stderr)
    except MemoryError:
        print("grail: out of memory", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 1


def _report(options: argparse.Namespace) -> int:
    r = write_report(options.results, options.output, tsv=options.tsv, svg=options.svg)
    if options.quiet:
        return 0
    if r.cut_line:
        name = printable(options.results)
        warning = f"line {r.cut_line}, the last of '{name}', is incomplete and was ignored"
        print(f"grail: warning: {warning}", file=sys.stderr)
    failed = f"; {r.failed_cells} cells failed" if r.failed_cells else ""
    of = f"{r.cells} cells and {r.checkpoints} checkpoint{'' if r.checkpoints == 1 else 's'}"
    print(f"{printable(options.output)}: {r.figures} figures of {of}{failed}")
    return 0


def report(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="grail report",
        description="Draw the results of a sweep as an HTML page.",
        epilog="The sweep may still be running. The page is one file: it holds the results, draws "
        "them in the browser and loads nothing from the network.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("results", metavar="RESULTS", help="JSON lines that grail sweep wrote")
    add("-o", "--output", metavar="FILE", required=True, help="HTML page to write")
    add("--tsv", metavar="DIR", help="also write the data of every figure as a table into DIR")
    add("--svg", metavar="DIR", help="also draw every figure into DIR; needs node or Chromium")
    add("--quiet", action="store_true", help="print only errors")
    return _run(_report, parser.parse_args(arguments))


def _seconds(seconds: float) -> str:
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def _bytes(text: str) -> int:
    match = re.fullmatch(r"([0-9]+)([KMG]?)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected bytes such as 2G, found '{text}'")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]


def _sweep(options: argparse.Namespace) -> int:
    from .sweep import Summary, run_sweep  # needs the library

    def tell(text: str, s: Summary) -> None:
        left = f"; about {_seconds(s.seconds_left)} left" if s.found + s.done < s.cells else ""
        if not options.quiet:
            print(printable(text) + (left if s.done else ""), file=sys.stderr, flush=True)

    names, output, s = options.checkpoints, printable(options.output), Summary()
    given = {key: getattr(options, key) for key in ("jobs", "memory", "threads", "precision")}
    given["checkpoints"] = None if names is None else names.split(",")
    try:
        run_sweep(
            options.recipe, options.output, dry_run=options.dry_run, tell=tell, summary=s, **given
        )
    except KeyboardInterrupt:
        command = shlex.join(["grail", "sweep", *options.words])
        done = f"{s.found + s.done - s.failed} of {s.cells} cells are in '{output}'"
        print(f"grail: interrupted; {done}; continue the sweep with:\n  {command}", file=sys.stderr)
        raise
    if options.json:
        document = {"results": options.output, **vars(s), "estimated_bytes": s.bytes}
        print(json.dumps({k: v for k, v in document.items() if k not in ("bytes", "seconds_left")}))
    elif options.dry_run:
        size = f"the largest needs about {s.bytes / 1e6:.1f} MB of memory"
        print(f"{s.cells} cells: {s.found} done before, {s.cells - s.found} to run; {size}")
    else:
        failed = f", {s.failed} of them failed" if s.failed else ""
        print(
            f"{s.cells} cells: {s.found} done before, {s.done} run now in {_seconds(s.seconds)}",
            end="",
        )
        print(f"{failed}\nresults: {output}")
    if s.failed:
        text = f"{s.failed} of {s.cells} cells failed; '{output}' has the reasons, and the same"
        print(f"grail: {text} command runs these cells again", file=sys.stderr)
    return 1 if s.failed else 0


def sweep(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(
        prog="grail sweep",
        description="Narrow and measure networks at all settings of a recipe.",
        epilog="A cell is one combination of checkpoint, selector, ratio, repair, calibration, "
        "sample count, seed and further choices. Each is narrowed and measured in memory, and is "
        "one line of the results when it ends. The same command continues an interrupted sweep. "
        "grail-recipe(5) describes recipes; grail report draws the results.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("recipe", metavar="RECIPE", help="JSON document that lists what is combined")
    add("-o", "--output", metavar="FILE", required=True, help="file of results, which is continued")
    add("--jobs", metavar="N", type=int, default=1, help="cells that run at the same time (1)")
    add("--memory", metavar="BYTES", type=_bytes, default=0, help="for all of them, such as 2G")
    add("--threads", metavar="N", type=int, default=0, help="of all jobs together (all cores)")
    precisions = ["auto", "f32", "bf16", "bf16-gram", "bf16x3"]
    add("--precision", choices=precisions, help="of products (the recipe's, or f32)")
    add("--checkpoints", metavar="NAMES", help="only the cells of these, separated by commas")
    add("--dry-run", action="store_true", help="check everything and count cells; write nothing")
    add("--quiet", action="store_true", help="print no line for each cell")
    add("--json", action="store_true", help="print the summary as JSON")
    options = parser.parse_args(words)
    options.words = words
    return _run(_sweep, options)


def main() -> int:
    commands = {"sweep": sweep, "report": report}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        print(f"usage: python -m grail.study {'|'.join(commands)} ...", file=sys.stderr)
        return 2
    return commands[sys.argv[1]](sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
