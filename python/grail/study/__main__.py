"""The commands grail sweep and grail report."""

from __future__ import annotations

import argparse
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


def main() -> int:
    commands = {"report": report}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        print(f"usage: python -m grail.study {'|'.join(commands)} ...", file=sys.stderr)
        return 2
    return commands[sys.argv[1]](sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
