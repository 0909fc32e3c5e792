"""What the page holds: tables of the numbers, which rows each figure shows, and findings."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable
from typing import Any, Callable

from ..results import (
    FORMS,
    NAN,
    SECONDS,
    SELECTORS,
    VARIANTS,
    Cell,
    Numbers,
    compensation,
    heals,
    repairs,
    variant_of,
)
from .aggregate import Aggregate, Group, Section, is_better
from .command import command_of
from .estimate import spread

Row = list[Any]
Json = dict[str, Any]
SLACK = 1e-9  # rounding of a mean must not turn a loss of 1 point into more
LIMITS = {False: (1, 2, 5), True: (1, 5, 10)}  # points of accuracy, or percent of perplexity
SIZES = ["ratio", "removed", "removed_macs", "latency"]
MEASURES = [
    "top1",
    "interval",
    "top5",
    "images",
    "perplexity",
    "perplexity_error",
    "parameters",
    "macs",
]
SETTING = ["network", "selector", "repair", "loop", "samples", "ratio", "setting", "seed"]
SITES = ["units", "kept", "fit_before", "fit_after", "held_before", "held_after"]
COLUMNS = {
    "groups": [
        *(*SETTING[:-1], "measure", "runs", "value", "low", "high", "lost", "lost_low"),
        *("lost_high", "plain", "gain", "gain_low", "gain_high", "top5", *SIZES[1:]),
        *("parameters", "macs", *SECONDS, "peak_bytes", "winner", "shown"),
        *(f"pareto_{size}" for size in SIZES),
    ],
    "sites": ["network", "selector", "repair", "ratio", "site", *SITES],
    "cost": ["network", "repair", *SECONDS, "peak_bytes"],
    "healing": ["network", "repair", "trained", "steps", "loss_before", "loss_after", "seconds"],
    "dense": ["network", "architecture", *MEASURES],
    "cells": [*SETTING, *MEASURES, "total", "peak_bytes"],
    "failures": [*SETTING, "error"],
}


def number(value: float) -> Any:
    """Whole numbers without a point, others with 15 digits; None where it is not finite."""
    if not math.isfinite(value):
        return None
    whole = abs(value) <= 2**53 and value == math.floor(value)
    return int(value) if whole else float(f"{value:.15g}")


def numbers(values: Iterable[float]) -> Row:
    return [number(value) for value in values]


def label(variant: int) -> str:
    parts = [compensation(variant)] if compensation(variant) != "none" else []
    parts += ["REPAIR"] if repairs(variant) else []
    parts += [f"heal {heals(variant)}"] if heals(variant) != "none" else []
    return " + ".join(parts) or "none"


def measure(s: Section) -> str:
    return "perplexity" if s.is_text else "top-1"


# -- tables ----------------------------------------------------------------------------------------


def _front(s: Section, size: int) -> Callable[[float, float], bool]:
    """Which networks of the section no other beats in both size and quality."""
    x_sign, y_sign = 1 if SIZES[size] == "latency" else -1, 1 if s.is_text else -1
    points = [(_sizes(g)[size], g.quality.value) for g in s.groups.values()]
    points.append((s.dense_latency if SIZES[size] == "latency" else 0, s.dense.value))
    front: set[tuple[float, float]] = set()
    best = math.inf
    for x, y in sorted((x_sign * x, y_sign * y) for x, y in points if not math.isnan(x + y)):
        if not front or y < best:
            front.add((x, y))
            best = y
    return lambda x, y: (x_sign * x, y_sign * y) in front


def _sizes(g: Group) -> list[float]:
    return [g.sparsity, g.removed("parameters"), g.removed("macs"), g.latency]


def _is_winner(g: Group) -> bool:
    at = [g.section.at(g.key.selector, v, g.key.ratio) for v in range(VARIANTS)]
    others = [o for o in at if o is not None and o is not g and o.quality.is_known]
    return g.shown and bool(others) and all(is_better(g, other) for other in others)


def _settings(cell: Cell) -> Row:
    s = cell.settings
    loop, ratio = "open" if s.open_loop else "closed", number(s.sparsity)
    return [s.selector, label(s.variant), loop, s.samples, ratio, s.text]


def _group_rows(a: Aggregate) -> Iterable[Row]:
    for s in a.sections:
        fronts = [_front(s, i) for i in range(len(SIZES))]
        for g in s.groups.values():
            sizes = _sizes(g)
            yield [
                *(s.name, *_settings(g.cells[0]), measure(s), len(g.cells)),
                *numbers([*g.quality, *g.lost, g.plain.mean, *g.gained, g.over("top5").mean]),
                *numbers([*sizes[1:], g.over("parameters").mean, g.over("macs").mean]),
                *numbers(g.over(key).mean for key in SECONDS),
                *(number(g.over("peak_bytes").most), _is_winner(g), g.shown),
                *(front(x, g.quality.value) for front, x in zip(fronts, sizes)),
            ]


def _chosen(s: Section, variant: int) -> list[Group]:
    return [g for g in s.groups.values() if g.shown and g.key.variant == variant]


def _cost_rows(a: Aggregate) -> Iterable[Row]:
    for s in a.sections:
        for variant in sorted(s.variants):
            groups = _chosen(s, variant)
            seconds = [spread(g.over(key).mean for g in groups).mean for key in SECONDS]
            peak = spread(g.over("peak_bytes").most for g in groups).most
            if not all(map(math.isnan, [*seconds, peak])):  # further evaluations have none
                yield [s.name, label(variant), *numbers([*seconds, peak])]


def _sum(values: Iterable[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    total = NAN if not known else 0.0
    for value in known:
        total += value
    return total


def _healing_rows(a: Aggregate) -> Iterable[Row]:
    for s in a.sections:
        for variant in sorted(s.variants):
            for trained in ("blocks", "network"):
                of_cells = [
                    [h for h in c.healings if math.isnan(h["block"]) == (trained == "network")]
                    for g in _chosen(s, variant)
                    for c in g.cells
                    if heals(variant) != "none"
                ]
                seconds = spread(_sum(h["seconds"] for h in own) for own in of_cells)
                keys = ("steps", "held_loss_before", "held_loss_after")
                means = [spread(h[key] for own in of_cells for h in own).mean for key in keys]
                if seconds.known > 0:
                    yield [s.name, label(variant), trained, *numbers([*means, seconds.mean])]


def _has_errors(site: Numbers) -> bool:
    """A site that kept all its units has none: nothing was fitted to it."""
    return not all(math.isnan(site[key]) for key in SITES[2:])


def _site_rows(a: Aggregate) -> Iterable[Row]:
    """The network that each selector cut to the ratio nearest to a half, best repaired."""
    for s in a.sections:
        for selector in sorted({key.selector for key in s.groups}):
            found: list[tuple[float, Cell]] = []
            for ratio in s.ratios:
                g = s.at(selector, s.best_variant, ratio)
                for cell in g.cells if g is not None else []:
                    if any(_has_errors(site) for _, site in cell.sites):
                        found.append((abs(cell.settings.sparsity - 0.5), cell))
                        break
            _, chosen = min(found, key=lambda one: one[0], default=(0, None))
            for name, site in chosen.sites if chosen is not None else []:
                if chosen is not None and _has_errors(site):
                    selector_name, repair, _, _, ratio_shown, _ = _settings(chosen)
                    values = numbers(site[key] for key in SITES)
                    yield [s.name, selector_name, repair, ratio_shown, name, *values]


def _measures(m: Numbers) -> Row:
    return numbers(m[key] for key in MEASURES)


def _cell_rows(a: Aggregate, cells: list[Cell]) -> Iterable[Row]:
    for c in cells:
        row = [a.results.checkpoints[c.checkpoint].name, *_settings(c), c.settings.seed]
        if c.error is None:
            total, peak = numbers([c.measures["total"], c.measures["peak_bytes"]])
            yield [*row, *_measures(c.measures), total, peak]
        elif not c.is_further:
            yield [*row, c.error]


def _tables(a: Aggregate) -> Json:
    dense = ([c.name, c.architecture, *_measures(c.measures)] for c in a.results.checkpoints)
    rows = {
        "groups": _group_rows(a),
        "sites": _site_rows(a),
        "cost": _cost_rows(a),
        "healing": _healing_rows(a),
        "dense": dense,
        "cells": _cell_rows(a, a.cells),
        "failures": _cell_rows(a, a.failed),
    }
    return {name: {"columns": COLUMNS[name], "rows": list(of)} for name, of in rows.items()}


# -- figures ---------------------------------------------------------------------------------------


def _sample_curve(s: Section, selector: int) -> list[Group]:
    """Gains against the number of samples: of the setting and ratio that have most of them, then
    that which plots show, then the ratio nearest to a half; of repairs that have two or more."""
    on_curve: dict[tuple[int, int], dict[int, list[Group]]] = {}
    for g in s.groups.values():
        k = g.key
        if k.selector == selector and k.open_loop == s.loop and k.samples > 0 and g.gain.known > 0:
            curve = on_curve.setdefault((k.setting, k.ratio), {})
            curve.setdefault(k.variant, []).append(g)

    def worth(curve: dict[int, list[Group]]) -> tuple[int, bool, float]:
        own = curve.get(s.best_variant, [])
        shown = bool(own) and own[0].key.setting == s.setting
        return len(own), shown, -abs(own[0].sparsity - 0.5) if own else 0.0

    chosen = max(on_curve.values(), key=worth, default={})
    if len(chosen.get(s.best_variant, [])) < 2:
        return []
    return [g for _, own in sorted(chosen.items()) if len(own) > 1 for g in own]


def _figures(a: Aggregate, tables: Json) -> list[Json]:
    figures: list[Json] = []

    def add(kind: str, s: Section | None, rows: Iterable[int], table: str = "groups") -> None:
        name = None if s is None else s.name
        slug = "" if name is None else "-" + re.sub(r"[^a-zA-Z0-9._-]", "-", name)[:40]
        file, listed = f"{len(figures) + 1:02}-{kind}{slug}", list(rows)
        if listed:
            figures.append(
                {"kind": kind, "network": name, "file": file, "table": table, "rows": listed}
            )

    add("tradeoff", None, (g.index for g in a.groups if g.quality.is_known))
    plain = (g for g in a.groups if g.plain.known > 0 and g.over("top1").known > 0)
    add("scatter", None, (g.index for g in plain))
    for s in a.sections:
        groups = list(s.groups.values())
        shown = [g for g in groups if g.shown]
        add("accuracy", s, (g.index for g in shown if g.quality.is_known))
        add("gain", s, (g.index for g in shown if g.gain.known > 0))
        selectors = sorted({g.key.selector for g in groups})
        add("samples", s, (g.index for at in selectors for g in _sample_curve(s, at)))
        for kind in ("sites", "cost"):
            rows = enumerate(tables[kind]["rows"] if groups else [])
            own = (i for i, row in rows if row[0] == s.name)
            add(kind, s, own, kind)
    return figures


# -- findings --------------------------------------------------------------------------------------


def _alike(g: Group, best: Group) -> bool:
    """Equally large, and not better by more than the intervals."""
    same = abs(g.cut - best.cut) < 0.0005
    return same and g.quality.is_known and not is_better(g, best)


def _is_default(g: Group) -> bool:
    """What grail compress does without options for selector, repair, loop and healing."""
    full = variant_of("full", False, "none")
    return (
        g.key.variant == full and g.key.selector == SELECTORS.index("obs") and not g.key.open_loop
    )


def _largest(s: Section, limit: float) -> Group | None:
    """The largest cut that loses at most `limit`. Among equally large ones (to 0.1 %) it is that of
    the defaults where intervals do not tell it from the best; else the one that loses least, and of
    equals the simplest repair."""
    best: Group | None = None
    within = [g for g in s.groups.values() if g.lost.value <= limit + SLACK]
    for g in within:
        if g.cut > 0 and (best is None or _is_larger(g, best)):
            best = g
    chosen = best
    for g in within if best is not None else []:
        if best is not None and _is_default(g) and g.quality.has_interval and _alike(best, g):
            chosen = g if chosen is best or _loses_less(g, chosen) else chosen
    return chosen


def _loses_less(g: Group, other: Group | None) -> bool:
    return other is None or g.lost.value < other.lost.value - SLACK


def _is_larger(g: Group, best: Group) -> bool:
    cut, largest = (math.floor(1000 * one.cut + 0.5) for one in (g, best))
    if cut == largest and abs(g.lost.value - best.lost.value) <= SLACK:
        return g.key.variant < best.key.variant
    return cut > largest if cut != largest else _loses_less(g, best)


def _decision(a: Aggregate, s: Section, limit: float) -> Json:
    g = _largest(s, limit)
    if g is None:
        nearest: Group | None = None
        for other in s.groups.values():
            if other.lost.is_known and other.cut > 0 and _loses_less(other, nearest):
                nearest = other
        return {"limit": limit, "row": None, "nearest": nearest and nearest.index}
    alike = sum(other is not g and _alike(g, other) for other in s.groups.values())
    c = a.results.checkpoints[g.cells[0].checkpoint]
    recipe = a.results.header.get("recipe")
    command = command_of(g, recipe if isinstance(recipe, dict) else {}, c.network, c.path or "")
    row = {"limit": limit, "row": g.index, "nearest": None, "cut": number(g.cut), "alike": alike}
    return {**row, "command": command}


def _network(a: Aggregate, s: Section) -> Json:
    value, low, high, seconds = numbers([*s.dense, s.dense_latency])
    dense: Json = {"value": value, "low": low, "high": high, "latency": seconds}
    for i, size in enumerate(SIZES):
        whole = s.dense_latency if size == "latency" else 0
        dense[f"pareto_{size}"] = _front(s, i)(whole, s.dense.value)
    gains = [g for g in _chosen(s, s.best_variant) if g.gain.mean > 0]
    largest = max(gains, key=lambda g: g.gain.mean, default=None)
    network: Json = {
        "name": s.name,
        "measure": measure(s),
        "setting": next(g.text for g in s.groups.values() if g.key.setting == s.setting),
        "is_architecture": s.is_architecture,
        "checkpoints": len(s.checkpoints),
        "samples": s.samples,
        "loop": "open" if s.loop else "closed",
        "best": label(s.best_variant),
        "dense": dense,
        "largest_gain": largest and largest.index,
    }
    if s.dense.is_known:
        network["decisions"] = [_decision(a, s, limit) for limit in LIMITS[s.is_text]]
    return network


def _compare(a: Aggregate, is_text: bool, better: int, worse: int) -> list[Json]:
    """How often a repair beats another wherever both were measured."""
    gains, apart = [], 0
    for g in a.groups:
        if g.section.is_text == is_text and g.key.variant == better and g.shown:
            other = g.section.at(g.key.selector, worse, g.key.ratio)
            base = NAN if other is None else other.quality.value
            base = g.plain.mean if worse == 0 else base
            gain = 1 - g.quality.value / base if is_text else g.quality.value - base
            if not math.isnan(gain):
                gains.append(gain)
                apart += other is not None and is_better(g, other)
    found: Json = {"measure": "perplexity" if is_text else "top-1"}
    found.update(better=label(better), worse=label(worse), above=sum(gain > 0 for gain in gains))
    found.update({"of": len(gains), "apart": apart})
    return [{**found, "median": number(statistics.median(gains))}] if gains else []


def _comparisons(a: Aggregate) -> list[Json]:
    names = "none+REPAIR none, own none, grail none, grail own, grail+REPAIR grail, full grail"
    pairs = []
    for pair in f"{names}, full+REPAIR full".split(", "):
        parts = [name.partition("+") for name in pair.split(" ")]
        pairs.append([variant_of(name, repair != "", "none") for name, _, repair in parts])
    for variant in range(len(FORMS), VARIANTS):
        plain = variant // len(FORMS) * len(FORMS)
        pairs.append([variant, variant % len(FORMS)])
        pairs += [[variant, plain]] if variant != plain else []
    return [one for text in (False, True) for pair in pairs for one in _compare(a, text, *pair)]


def _facts(a: Aggregate) -> Json:
    header, images = a.results.header, spread(c.measures["images"] for c in a.cells)
    machine = header.get("machine")
    machine = machine if isinstance(machine, dict) else {}
    threads = machine.get("threads")

    def text(value: Any) -> str | None:
        return value if isinstance(value, str) else None

    return {
        "checkpoints": a.networks,
        "cells": sum(not c.is_further for c in a.cells),
        "failed": sum(not c.is_further for c in a.failed),
        "superseded": a.superseded,
        "cut_line": a.results.cut_line,
        "fewest_images": number(images.least),
        "most_images": number(images.most),
        "started": text(header.get("started")),
        "processor": text(machine.get("cpu")),
        "threads": threads if type(threads) is int else 0,
        "version": text(header.get("version")),
    }


def page_data(a: Aggregate) -> Json:
    tables, recipe = _tables(a), a.results.header.get("recipe")
    return {
        "facts": _facts(a),
        "networks": [_network(a, s) for s in a.sections if s.groups],
        "comparisons": _comparisons(a),
        "variants": [label(variant) for variant in range(VARIANTS)],
        "selectors": a.results.selectors,
        "tables": tables,
        "figures": _figures(a, tables),
        "recipe": recipe if isinstance(recipe, dict) else None,
    }
