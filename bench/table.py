#!/usr/bin/env python3
"""Prints figures of a sweep as a Markdown table: perplexity, or top-1 in %.

usage: table.py RESULTS [--where CONDITION...] --rows CONDITION... --columns COLUMN... [--digits N]

A condition is KEY=VALUE. KEY is a setting of a cell (checkpoint, selector, sparsity, compensate, heal, samples, seed, loop,
calibration), the name of an "evaluation", or a key of the cell's "choices"; KEY= is a cell whose choices lack it. Rows are
all combinations of KEY=VALUE/VALUE..., and --rows may be given again for more rows of the same keys.

A column is "TITLE: CONDITION...", or "TITLE: WHAT CONDITION..." where WHAT is
    value       the cell's figure; this is usual
    dense       the dense network's figure
    parameters  of the cell's network
    seconds     by the clock, of passes and fits, without evaluations: the sum of the next two
    passes      seconds of running the network and taking statistics
    fits        seconds of choosing units, solving and merging
    memory      the peak in MB, without mapped weights
    seen, held  relative error of the fits on the samples they see and on those held out, the mean over what is cut
    share       the share of what a base lost against the dense network (of log-perplexity, or top-1) that the cell takes
                back: "TITLE: share CONDITION... from CONDITION...", those of the base
    both        the figure, and that share in brackets
    paired      both, and half the width of the 95 % interval of the difference from the base, window by window, in
                percent of the perplexity
    empty       nothing

Figures from 1,000 on are whole numbers, others have --digits digits behind the point.

The conditions of --where, a row and a column must leave exactly one cell and one evaluation; of the same key a column's
counts before a row's, and a row's before those of --where. With seed=mean they may leave cells that differ in the seed
alone, and the figure is their mean.
"""

import argparse
import itertools
import json
import math
import shlex
import statistics
import sys

SETTINGS = ("checkpoint", "selector", "sparsity", "compensate", "heal", "samples", "seed", "loop", "calibration", "evaluation")
HEADINGS = {"checkpoint": "network", "sparsity": "removed", "evaluation": "text"}
SECONDS = {"seconds": ("calibrate", "compensate"), "passes": ("calibrate",), "fits": ("compensate",)}
KINDS = ("value", "dense", "parameters", *SECONDS, "memory", "seen", "held", "share", "both", "paired", "empty")
WITH_BASE = ("share", "both", "paired")


class Refused(Exception):
    """What is asked for is wrong, or not in the results."""


def text_of(value):
    return f"{value:g}" if isinstance(value, float) else str(value)


def settings_of(cell):
    """The settings of a line of results as texts, choices among them."""
    found = {key: text_of(cell[key]) for key in SETTINGS if key in cell}
    repairs = [name for name, done in ((cell["compensate"], cell["compensate"] != "none"), ("repair", cell.get("repair"))) if done]
    found["compensate"] = "+".join(repairs) or "none"
    found.setdefault("heal", "none")
    found.update(choice.split("=", 1) for choice in cell.get("choices", "").split())
    return found


def figures_of(line):
    """{name of evaluation: line or part of it that holds its figures}; the only one has the name ""."""
    return {e["name"]: e for e in line["evaluations"]} if "evaluations" in line else {"": line}


def read(path):
    """({checkpoint: dense line}, cells: (settings, line)). The later line of a cell that is there twice counts."""
    dense, cells = {}, {}
    with open(path, encoding="utf-8") as lines:
        for number, text in enumerate(lines, 1):
            try:
                line = json.loads(text)
            except ValueError as error:
                raise Refused(f"{path}:{number}: not a line of results: {error}") from None
            if "dense" in line:
                dense[line["dense"]["checkpoint"]] = line["dense"]
            elif "cell" in line:
                settings = settings_of(line["cell"])
                cells[tuple(sorted(settings.items()))] = settings, line
    if not cells:
        raise Refused(f"{path}: holds no cells of a sweep")
    return dense, list(cells.values())


def conditions_of(words):
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise Refused(f'"{word}" is no condition KEY=VALUE')
        if key in found:
            raise Refused(f'"{key}" stands twice in "{" ".join(words)}"')
        found[key] = value
    return found


def figure_of(e):
    return e["perplexity"] if "perplexity" in e else 100 * e["top1"]


class Column:
    def __init__(self, text):
        self.title, colon, rest = text.partition(": ")
        words = shlex.split(rest)
        self.kind = words.pop(0) if words and "=" not in words[0] else "value"
        if not colon or self.kind not in KINDS:
            raise Refused(f'column "{text}": expected "TITLE: [WHAT] CONDITION...", where WHAT is one of {", ".join(KINDS)}')
        if ("from" in words) != (self.kind in WITH_BASE):
            raise Refused(f'column "{text}": a base (from CONDITION...) belongs to {", ".join(WITH_BASE)}, and only to them')
        end = words.index("from") if "from" in words else len(words)
        self.given, self.base = conditions_of(words[:end]), conditions_of(words[end + 1:])


class Table:
    def __init__(self, path, where, digits):
        self.path, self.where, self.digits = path, conditions_of(where), digits
        self.dense, self.cells = read(path)
        self.keys = set(SETTINGS).union(*(settings for settings, _ in self.cells))

    def lines(self, wanted):
        """The lines of the only cell that meets the conditions, or of each of its seeds with seed=mean."""
        unknown = wanted.keys() - self.keys
        if unknown:
            raise Refused(f"{self.path}: no cell has the key {', '.join(sorted(unknown))}; there are {', '.join(sorted(self.keys))}")
        given = {key: value for key, value in wanted.items() if key != "evaluation" and (key, value) != ("seed", "mean")}
        asked = " ".join(f"{key}={value}" for key, value in given.items())
        found = [(s, line) for s, line in self.cells if all(s.get(key, "") == value for key, value in given.items())]
        if not found:
            raise Refused(f"{self.path}: no cell has {asked}")
        values = {key: sorted({s.get(key, "") for s, _ in found}) for key in self.keys}
        apart = "; ".join(f"{key}={'/'.join(several)}" for key, several in sorted(values.items())
                          if len(several) > 1 and (key, wanted.get(key)) != ("seed", "mean"))
        if apart:
            raise Refused(f"{self.path}: {len(found)} cells have {asked}; say which: {apart}")
        for _, line in found:
            if "error" in line:
                raise Refused(f"{self.path}: the cell with {asked} failed: {line['error']}")
        return [line for _, line in found]

    def line(self, wanted):
        """The line of the only cell that meets the conditions."""
        found = self.lines(wanted)
        if len(found) > 1:
            raise Refused(f"{self.path}: {len(found)} seeds; only a figure by itself is a mean of seeds")
        return found[0]

    def evaluation(self, line, wanted):
        named = figures_of(line)
        name = wanted.get("evaluation", "" if len(named) != 1 else next(iter(named)))
        if name not in named:
            raise Refused(f'{self.path}: no evaluation "{name}" there; evaluation={"/".join(named)}')
        return named[name]

    def dense_of(self, wanted):
        name = wanted.get("checkpoint") or (next(iter(self.dense)) if len(self.dense) == 1 else "")
        if name not in self.dense:
            raise Refused(f'{self.path}: no dense network "{name}"; checkpoint={"/".join(self.dense)}')
        return self.evaluation(self.dense[name], wanted)

    def shown(self, value):
        return f"{value:.{self.digits}f}" if value < 1000 else f"{value:,.0f}"

    def share(self, e, base, dense):
        """What part of the loss of the base the figures `e` take back."""
        value = [math.log(x["perplexity"]) if "perplexity" in x else -x["top1"] for x in (dense, base, e)]
        if value[1] <= value[0]:
            raise Refused(f"{self.path}: the base of a share lost nothing against the dense network")
        return f"{100 * (value[1] - value[2]) / (value[1] - value[0]):.0f} %"

    def width(self, e, base):
        """Half the 95 % interval of the mean difference of losses, in percent; normal, since windows are many."""
        if len(e.get("losses", [])) < 2 or len(e["losses"]) != len(base.get("losses", [])):
            raise Refused(f"{self.path}: pairs need the losses of the same windows in both cells")
        apart = [one - other for one, other in zip(e["losses"], base["losses"])]
        return f"±{100 * 1.96 * statistics.stdev(apart) / math.sqrt(len(apart)):.1f}"

    def compared(self, kind, e, wanted, given):
        """The figures `e` beside those of a base."""
        line = self.line(given)
        base = self.evaluation(line, {"evaluation": wanted["evaluation"], **given} if "evaluation" in wanted else given)
        share = self.share(e, base, self.dense_of({**wanted, **given, "checkpoint": line["cell"]["checkpoint"]}))
        if kind == "share":
            return share
        value = self.shown(figure_of(e))
        return f"{value} ({share})" if kind == "both" else f"{value}, {share} ({self.width(e, base)})"

    def error(self, line, key):
        """The mean over the sites that are cut."""
        errors = [site[key] for site in line.get("sites", []) if site["kept"] < site["units"]]
        if not errors or None in errors:
            raise Refused(f"{self.path}: a cell without repair has no errors of fits")
        return f"{sum(errors) / len(errors):.3f}"

    def entry(self, column, row):
        wanted = {**self.where, **row, **column.given}
        if column.kind == "empty":
            return ""
        if column.kind == "dense":
            return self.shown(figure_of(self.dense_of(wanted)))
        if column.kind == "value":
            return self.shown(statistics.fmean(figure_of(self.evaluation(line, wanted)) for line in self.lines(wanted)))
        line = self.line(wanted)
        if column.kind == "parameters":
            return f"{line['parameters']:,}"
        if column.kind in SECONDS:
            return f"{sum(line['seconds'][part] for part in SECONDS[column.kind]):.1f}"
        if column.kind == "memory":
            return f"{line['peak_bytes'] / 1e6:,.0f}"
        if column.kind in ("seen", "held"):
            return self.error(line, "fit_after" if column.kind == "seen" else "held_after")
        return self.compared(column.kind, self.evaluation(line, wanted), wanted, {**self.where, **row, **column.base})


def rows_of(groups):
    """All combinations of the values of each group of conditions; all groups have the same keys."""
    rows = []
    for group in groups:
        given = conditions_of(group)
        rows += [dict(zip(given, values)) for values in itertools.product(*(values.split("/") for values in given.values()))]
        if list(rows[0]) != list(rows[-1]):
            raise Refused(f"rows have {', '.join(rows[0])}, and others {', '.join(rows[-1])}")
    return rows


def shown(key, value):
    return f"{100 * float(value):g} %" if key == "sparsity" else value or "usual"


def arguments(words):
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False, allow_abbrev=False)
    parser.add_argument("results")
    parser.add_argument("--where", nargs="+", default=[])
    parser.add_argument("--rows", nargs="+", action="append", required=True)
    parser.add_argument("--columns", nargs="+", required=True)
    parser.add_argument("--digits", type=int, default=3)
    return parser.parse_args(words)


def lines(words):
    """The lines of the table that the arguments ask for."""
    given = arguments(words)
    table = Table(given.results, given.where, given.digits)
    rows = rows_of(given.rows)
    columns = [Column(text) for text in given.columns]
    titles = [*(HEADINGS.get(key, key) for key in rows[0]), *(column.title for column in columns)]
    made = [[*(shown(key, value) for key, value in row.items()), *(table.entry(column, row) for column in columns)] for row in rows]
    return ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles), *("| " + " | ".join(entries) + " |" for entries in made)]


def main():
    try:
        print("\n".join(lines(sys.argv[1:])))
    except (Refused, OSError) as error:
        print(f"table.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
