#!/usr/bin/env python3
"""Checks what bench/table.py prints of results of a sweep, and what it refuses."""

import json
import math
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))

import table  # noqa: E402

TEXT = [
    {"recipe": {}},
    {"dense": {"checkpoint": "net", "evaluations": [{"name": "a b", "perplexity": 2.0}, {"name": "c", "perplexity": 4.0}]}},
]
IMAGES = [{"dense": {"checkpoint": "cnn", "top1": 0.9}}]


def cell(perplexity, **settings):
    own = {"checkpoint": "net", "selector": "obs", "sparsity": 0.3, "compensate": "full", "repair": False, "samples": 128, "seed": 0,
           "loop": "closed", "choices": "sites=ffn,heads target=local"} | settings
    # Losses of windows, whose differences have the standard error 0.01 where cells of heal=none and others meet.
    losses = [math.log(perplexity) + (apart if own.get("heal") else 0.0) for apart in (-0.01, 0.01)]
    named = [{"name": "a b", "perplexity": perplexity, "losses": losses}, {"name": "c", "perplexity": 2 * perplexity}]
    fits = None if own["compensate"] == "none" else 0.25
    sites = [{"units": 8, "kept": 8, "fit_after": None, "held_after": None}] + [
        {"units": 8, "kept": kept, "fit_after": fits and fits / kept, "held_after": fits} for kept in (1, 5)]
    seconds = {"calibrate": 1.25, "compensate": 0.5, "evaluate": 100.0, "total": 102.0}
    return {"cell": own, "evaluations": named, "parameters": 1234567, "seconds": seconds, "peak_bytes": 2499600000, "sites": sites}


def image_cell(top1, **settings):
    own = {"checkpoint": "cnn", "selector": "obs", "sparsity": 0.5, "compensate": "full", "repair": False, "samples": 8, "seed": 0}
    return {"cell": own | settings, "top1": top1, "parameters": 10}


TEXT += [
    cell(32.0, compensate="none", choices="sites=ffn,heads"),
    cell(9.0),
    cell(8.0),  # again: the later counts
    cell(4.0, heal="block,model"),
    cell(64.0, sparsity=0.5, compensate="none", choices="sites=ffn,heads"),
    cell(16.0, sparsity=0.5),
    {"cell": cell(1.0, sparsity=0.7)["cell"], "error": "out of memory"},
]
IMAGES += [image_cell(0.1, compensate="none"), image_cell(0.5), image_cell(0.7, compensate="none", repair=True)]

ROWS = ["--rows", "sparsity=0.3"]
PRINTED = [
    (TEXT, ["--rows", "sparsity=0.3/0.5", "evaluation=c", "--columns", "plain: compensate=none", "full: target=local heal=none"],
     ["| removed | text | plain | full |", "|---|---|---|---|", "| 30 % | c | 64.000 | 16.000 |", "| 50 % | c | 128.000 | 32.000 |"]),
    (TEXT, ["--where", "evaluation=a b", "--digits", "1", *ROWS, "--columns", "d: dense", "plain: compensate=none target=",
            "full: both heal=none target=local from compensate=none target=", "healed: share heal=block,model from heal=none target=local",
            "size: parameters heal=block,model", "none: empty"],
     ["| removed | d | plain | full | healed | size | none |", "|---|---|---|---|---|---|---|",
      "| 30 % | 2.0 | 32.0 | 8.0 (50 %) | 50 % | 1,234,567 |  |"]),
    (TEXT, ["--rows", "evaluation=c", "sparsity=0.3", "--rows", "evaluation=a b", "sparsity=0.5", "--columns",
            "plain: compensate=none"],
     ["| text | removed | plain |", "|---|---|---|", "| c | 30 % | 64.000 |", "| a b | 50 % | 64.000 |"]),
    (TEXT, ["--where", "sparsity=0.3", "evaluation=c", "heal=none", "--rows", "compensate=none", "target=", "--rows", "compensate=full",
            "target=local", "--columns", "perplexity: value"],
     ["| compensate | target | perplexity |", "|---|---|---|", "| none | usual | 64.000 |", "| full | local | 16.000 |"]),
    (TEXT, [*ROWS, "--columns", "s: seconds compensate=none", "seen: seen heal=none target=local", "held: held heal=none target=local"],
     ["| removed | s | seen | held |", "|---|---|---|---|", "| 30 % | 1.8 | 0.150 | 0.250 |"]),
    (TEXT, [*ROWS, "--columns", "passes: passes compensate=none", "fits: fits compensate=none", "MB: memory compensate=none"],
     ["| removed | passes | fits | MB |", "|---|---|---|---|", "| 30 % | 1.2 | 0.5 | 2,500 |"]),
    (TEXT, ["--where", "evaluation=a b", "heal=none", "target=local", *ROWS, "--columns",
            "healed: paired heal=block,model from compensate=full", "itself: paired compensate=full from compensate=full"],
     ["| removed | healed | itself |", "|---|---|---|", "| 30 % | 4.000, 50 % (±2.0) | 8.000, 0 % (±0.0) |"]),
    ([*IMAGES, image_cell(0.6, seed=1), image_cell(0.3, seed=2, samples=4)],
     ["--digits", "1", "--where", "seed=mean", "--rows", "samples=8/4", "--columns", "full: compensate=full"],
     ["| samples | full |", "|---|---|", "| 8 | 55.0 |", "| 4 | 30.0 |"]),
    (IMAGES, ["--digits", "1", "--rows", "checkpoint=cnn", "--columns", "dense: dense", "plain: compensate=none",
              "repaired: compensate=repair", "full: share compensate=full from compensate=none"],
     ["| network | dense | plain | repaired | full |", "|---|---|---|---|---|", "| cnn | 90.0 | 10.0 | 70.0 | 50 % |"]),
]
REFUSED = [
    ("an unknown key", TEXT, [*ROWS, "--columns", "x: colour=red evaluation=c"], "no cell has the key colour; there are calibration, checkpoint, compensate"),
    ("a missing cell", TEXT, ["--rows", "sparsity=0.4", "--columns", "x: evaluation=c"], "no cell has sparsity=0.4"),
    ("several cells", TEXT, [*ROWS, "--columns", "x: compensate=full evaluation=c"], "2 cells have sparsity=0.3 compensate=full; say which: heal="),
    ("several evaluations", TEXT, [*ROWS, "--columns", "x: compensate=none"], "evaluation=a b/c"),
    ("an unknown evaluation", TEXT, [*ROWS, "--columns", "x: compensate=none evaluation=d"], 'no evaluation "d"'),
    ("a cell that failed", TEXT, ["--rows", "sparsity=0.7", "--columns", "x: evaluation=c"], "failed: out of memory"),
    ("no condition", TEXT, [*ROWS, "--columns", "x: compensate=none c"], '"c" is no condition'),
    ("a key twice", TEXT, [*ROWS, "--columns", "x: heal=none heal=block"], '"heal" stands twice'),
    ("no title", TEXT, [*ROWS, "--columns", "compensate=none"], 'expected "TITLE: [WHAT] CONDITION..."'),
    ("an unknown kind", TEXT, [*ROWS, "--columns", "x: mean compensate=none"], "WHAT is one of value, dense, "),
    ("a share of nothing", TEXT, [*ROWS, "--columns", "x: share heal=none"], "a base (from CONDITION...) belongs to"),
    ("a base without a share", TEXT, [*ROWS, "--columns", "x: heal=none from heal=none"], "a base (from CONDITION...) belongs to"),
    ("rows of other keys", TEXT, [*ROWS, "--rows", "seed=0", "--columns", "x: dense"], "rows have sparsity, and others seed"),
    ("a dense network that is not there", TEXT, ["--rows", "checkpoint=other", "--columns", "x: dense"], 'no dense network "other"'),
    ("a base that lost nothing", [TEXT[1] | {"dense": {"checkpoint": "net", "evaluations": [{"name": "c", "perplexity": 99.0}]}}, *TEXT[2:]],
     [*ROWS, "--columns", "x: share evaluation=c heal=none target=local from compensate=none target="], "lost nothing"),
    ("pairs without losses", TEXT, [*ROWS, "--columns", "x: paired evaluation=c heal=none target=local from compensate=none target="],
     "pairs need the losses"),
    ("a mean of several settings", TEXT, [*ROWS, "--columns", "x: seed=mean compensate=full evaluation=c"], "say which: heal="),
    ("a share of seeds", [*IMAGES, image_cell(0.6, seed=1)],
     ["--rows", "samples=8", "--columns", "x: share compensate=full seed=mean from compensate=none"], "2 seeds"),
    ("errors without a fit", TEXT, [*ROWS, "--columns", "x: seen compensate=none"], "without repair has no errors of fits"),
    ("results without cells", TEXT[:2], [*ROWS, "--columns", "x: dense"], "holds no cells"),
]


def lines_of(documents, words):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "results.jsonl"
        path.write_text("".join(json.dumps(d) + "\n" for d in documents))
        return table.lines([str(path), *words])


def faults():
    for documents, words, expected in PRINTED:
        found = lines_of(documents, words)
        if found != expected:
            yield f"{words}: printed {found}, expected {expected}"
    for what, documents, words, expected in REFUSED:
        try:
            yield f"{what}: printed {lines_of(documents, words)}"
        except table.Refused as error:
            if expected not in str(error):
                yield f"{what}: said {error}, expected {expected}"
    try:
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write("not a line\n")
            file.flush()
            yield f"a broken file: printed {table.lines([file.name, *ROWS, '--columns', 'x: dense'])}"
    except table.Refused as error:
        if ":1: not a line of results" not in str(error):
            yield f"a broken file: said {error}"


def main():
    found = list(faults())
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
