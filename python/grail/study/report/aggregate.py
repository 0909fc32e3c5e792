"""Sections of the page, and in each groups of cells that differ only in their seed (or checkpoint).

A section is a checkpoint, or an architecture where there are many checkpoints.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Union

from ..errors import StudyError
from ..results import FORMS, HEALS, NAN, Cell, Checkpoint, Numbers, Results
from .estimate import (
    Estimate,
    Spread,
    of_error,
    of_hits,
    of_losses,
    of_runs,
    of_share,
    spread,
)

MOST_CHECKPOINT_SECTIONS, MOST_GROUPS, MOST_RATIOS, MOST_PAIRED_RUNS = 8, 20_000, 1000, 100
STRONGEST = [
    FORMS.index(form)
    for form in (
        *(("full", False), ("grail", False), ("full", True), ("grail", True)),
        *(("own", False), ("own", True), ("none", True), ("none", False)),
    )
]

NO_ESTIMATE, NO_SPREAD = Estimate(), Spread()


def millionths(ratio: float) -> int:
    """Ratios that differ by less count as equal: 0.3 and 3 * 0.1."""
    return math.floor(1e6 * ratio + 0.5)


class Key(NamedTuple):
    """What the cells of a group have in common within their section; the order of groups."""

    selector: int
    variant: int
    open_loop: bool
    setting: int
    samples: int
    ratio: int


@dataclass
class Group:
    key: Key
    section: Section
    cells: list[Cell]  # by checkpoint, then seed
    index: int  # among all groups
    dense: list[Numbers] = field(default_factory=list)  # measures of the cells' dense networks
    quality: Estimate = NO_ESTIMATE  # top-1 or perplexity
    # points of accuracy, or percent of perplexity, that are lost against the dense network
    lost: Estimate = NO_ESTIMATE
    # against the plain cut of the same checkpoint, selector, ratio and seed, or of its lowest seed:
    # top-1 minus its, or the share of its perplexity that is gone
    gained: Estimate = NO_ESTIMATE
    gain: Spread = NO_SPREAD
    plain: Spread = NO_SPREAD

    @property
    def sparsity(self) -> float:
        return self.cells[0].settings.sparsity

    def removed(self, key: str) -> float:
        """The share of the dense network's parameters or multiply-accumulates that is gone."""
        pairs = [(cell.measures[key], dense[key]) for cell, dense in zip(self.cells, self.dense)]
        return spread(1 - left / whole if whole > 0 else NAN for left, whole in pairs).mean

    @cached_property
    def cut(self) -> float:
        """The share of the parameters, or of the units where the parameters were not counted."""
        removed = self.removed("parameters")
        return self.sparsity if math.isnan(removed) else removed

    @property
    def text(self) -> str:
        return self.cells[0].settings.text

    def over(self, key: str) -> Spread:
        return spread(cell.measures[key] for cell in self.cells)

    @property
    def latency(self) -> float:
        return spread(latency(cell.measures) for cell in self.cells).mean

    @cached_property
    def shown(self) -> bool:
        return self.section.at(self.key.selector, self.key.variant, self.key.ratio) is self


@dataclass
class Section:
    base: str
    evaluation: str | None
    is_architecture: bool
    checkpoints: list[Checkpoint] = field(default_factory=list)
    is_text: bool = False
    dense: Estimate = NO_ESTIMATE
    dense_latency: float = NAN
    groups: dict[Key, Group] = field(default_factory=dict)  # in their order
    # what most repaired cells share: plots and tables against the ratio show it
    loop: bool = False
    setting: int = 0
    samples: int = 0
    plain: dict[tuple[int, int, int], list[Group]] = field(default_factory=dict)
    variants: set[int] = field(default_factory=set)

    @property
    def name(self) -> str:
        return self.base if self.evaluation is None else f"{self.base} on {self.evaluation}"

    @cached_property
    def best_variant(self) -> int:
        """The strongest that occurs; a healed one only where all are healed."""
        order = [h * len(FORMS) + form for h in range(len(HEALS)) for form in STRONGEST]
        return next((v for v in order if v != 0 and v in self.variants), 0)

    def at(self, selector: int, variant: int, ratio: int) -> Group | None:
        """The group at the section's own setting. A plain cut that was only measured with other
        samples or in another loop stands in for it: these affect it only through its selector."""
        key = Key(selector, variant, self.loop, self.setting, self.samples, ratio)
        found = self.groups.get(key)
        if found is None and variant == 0:
            for g in self.plain.get((selector, ratio, self.setting), []):
                found = g if found is None or g.key.open_loop == self.loop else found
        return found

    @property
    def ratios(self) -> list[int]:
        return sorted({key.ratio for key, g in self.groups.items() if g.shown})

    def measure_dense(self) -> None:
        """A section whose networks have perplexities and no accuracies reads text."""
        cells = [cell.measures for g in self.groups.values() for cell in g.cells]
        dense = [c.measures for c in self.checkpoints]
        known = {
            key: any(not math.isnan(m[key]) for m in [*dense, *cells])
            for key in ("top1", "perplexity")
        }
        self.is_text = known["perplexity"] and not known["top1"]
        self.dense = _shown_quality(self.is_text, [_quality_of(self.is_text, m) for m in dense])
        self.dense_latency = spread(map(latency, dense)).mean

    def choose_setting(self) -> None:
        """That of most cells; a tie goes to the closed loop, then to what came first in the file,
        then to more samples."""
        counts: dict[tuple[bool, int, int], int] = {}
        for g in self.groups.values():
            if g.key.variant != 0 or self.best_variant == 0:
                place = (g.key.open_loop, -g.key.setting, g.key.samples)
                counts[place] = counts.get(place, 0) + len(g.cells)
        most = 0
        for (loop, setting, samples), count in sorted(counts.items()):
            if count > most or (count == most and loop == self.loop):
                most, self.loop, self.setting, self.samples = count, loop, -setting, samples


def latency(m: Numbers) -> float:
    """Seconds for an image or window: measured for themselves, or those of the evaluation."""
    return m["evaluate"] / (m["images"] or NAN) if math.isnan(m["latency"]) else m["latency"]


Measured = Union[Cell, Checkpoint]


# -- quality ---------------------------------------------------------------------------------------


def _expm1(x: float) -> float:
    return math.inf if x > 709 else math.expm1(x)  # NaN stays NaN


def _quality_of(is_text: bool, m: Numbers) -> Estimate:
    """Perplexities as mean losses, so that averages and differences are of equal relative size."""
    if not is_text:
        return of_share(m["top1"], m["images"], m["interval"])
    return of_error(math.log(m["perplexity"]), m["perplexity_error"] / m["perplexity"])


def _shown_quality(is_text: bool, runs: Iterable[Estimate]) -> Estimate:
    mean = of_runs([run for run in runs if run.is_known])
    return (
        mean.map(lambda x: math.inf if x > 709 else math.exp(x)) if is_text else mean.within(0, 1)
    )


def _are_paired(a: Measured, b: Measured) -> bool:
    return a.outcomes is not None and b.outcomes is not None and len(a.outcomes) == len(b.outcomes)


def _difference(is_text: bool, a: Measured, b: Measured) -> Estimate:
    """a - b, pair by pair where the outcomes of both were kept."""
    apart = _quality_of(is_text, a.measures).minus(_quality_of(is_text, b.measures))
    if not _are_paired(a, b) or not apart.is_known:
        return apart
    assert a.outcomes is not None and b.outcomes is not None
    paired = of_losses(a.outcomes, b.outcomes) if is_text else of_hits(a.outcomes, b.outcomes)
    return paired._replace(value=apart.value)  # what the lines say, without rounding again


def is_better(g: Group, other: Group) -> bool:
    """By more than chance: by the interval of their differences pair by pair where the outcomes of
    all cells were kept, else where their own intervals do not overlap."""
    is_text, pairs = g.section.is_text, list(zip(g.cells, other.cells))
    if len(g.cells) == len(other.cells) <= MOST_PAIRED_RUNS and all(
        (a.checkpoint, a.settings.seed) == (b.checkpoint, b.settings.seed) and _are_paired(a, b)
        for a, b in pairs
    ):
        e = of_runs([_difference(is_text, a, b) for a, b in pairs])
        if e.has_interval:
            return e.high < 0 if is_text else e.low > 0
    return other.quality.is_above(g.quality) if is_text else g.quality.is_above(other.quality)


def _measure_loss(g: Group, dense: list[Checkpoint]) -> None:
    is_text = g.section.is_text
    g.quality = _shown_quality(is_text, [_quality_of(is_text, c.measures) for c in g.cells])
    runs = [
        _difference(True, cell, dense[cell.checkpoint])
        if is_text
        else _difference(False, dense[cell.checkpoint], cell)
        for cell in g.cells
    ]
    lost = of_runs([run for run in runs if run.is_known])
    g.lost = lost.map(lambda x: 100 * (_expm1(x) if is_text else x))


def _measure_gain(g: Group) -> None:
    s, is_text = g.section, g.section.is_text
    plain = s.groups.get(g.key._replace(variant=0))
    if plain is None and g.key.setting == s.setting:
        plain = s.at(g.key.selector, 0, g.key.ratio)
    cuts: dict[tuple[int, int], Cell] = {}
    first: dict[int, Cell] = {}
    for cut in [] if plain is None or g.key.variant == 0 else plain.cells:
        cuts[cut.checkpoint, cut.settings.seed] = first.setdefault(cut.checkpoint, cut) and cut
    runs: list[Estimate] = []
    plains: list[float] = []
    for cell in g.cells:
        against = cuts.get((cell.checkpoint, cell.settings.seed), first.get(cell.checkpoint))
        if against is not None:
            e = _difference(True, against, cell) if is_text else _difference(False, cell, against)
            if e.is_known:
                runs.append(e)
                plains.append(against.measures["perplexity" if is_text else "top1"])
    gone = [run.map(lambda x: -_expm1(-x)) if is_text else run for run in [*runs, of_runs(runs)]]
    g.gain, g.plain, g.gained = spread(run.value for run in gone[:-1]), spread(plains), gone[-1]


# -- the whole file --------------------------------------------------------------------------------


class Aggregate:
    def __init__(self, results: Results) -> None:
        self.results = results
        self.sections: list[Section] = []
        self.networks = sum(not c.is_further for c in results.checkpoints)
        section_of = self._make_sections()
        self.cells: list[Cell] = []  # measured ones, grouped
        self.failed: list[Cell] = []
        self.groups: list[Group] = []
        kept: dict[tuple[int, Key, int, int], Cell] = {}
        for cell in results.cells:
            place = section_of[cell.checkpoint]
            kept[place, _key_of(cell), cell.checkpoint, cell.settings.seed] = cell
        self.superseded = len(results.cells) - len(kept)
        for (place, key, _, _), cell in sorted(kept.items(), key=lambda item: item[0]):
            if cell.error is None:
                self._add(self.sections[place], key, cell)
            else:
                self.failed.append(cell)
        for s in self.sections:
            s.choose_setting()
            s.measure_dense()
            if len(s.ratios) > MOST_RATIOS:
                raise StudyError(f"cannot show more than {MOST_RATIOS} ratios")
        for g in self.groups:
            _measure_loss(g, results.checkpoints)
            _measure_gain(g)

    def _make_sections(self) -> list[int]:
        many = self.networks > MOST_CHECKPOINT_SECTIONS
        places: dict[tuple[str, str | None], int] = {}
        found = []
        for c in self.results.checkpoints:
            base = c.architecture or "unknown architecture" if many else c.name
            evaluation = c.evaluation if many else None
            place = places.setdefault((base, evaluation), len(places))
            if place == len(self.sections):
                self.sections.append(Section(base, evaluation, many))
            self.sections[place].checkpoints.append(c)
            found.append(place)
        return found

    def _add(self, s: Section, key: Key, cell: Cell) -> None:
        self.cells.append(cell)
        g = s.groups.get(key)
        if g is None:
            if len(self.groups) == MOST_GROUPS:
                raise StudyError(f"cannot show more than {MOST_GROUPS} different settings")
            g = s.groups[key] = Group(key, s, [], len(self.groups))
            self.groups.append(g)
            s.variants.add(key.variant)
            if key.variant == 0:
                s.plain.setdefault((key.selector, key.ratio, key.setting), []).append(g)
        g.cells.append(cell)
        g.dense.append(self.results.checkpoints[cell.checkpoint].measures)


def _key_of(cell: Cell) -> Key:
    s = cell.settings
    ratio = millionths(s.sparsity)
    return Key(cell.selector, s.variant, s.open_loop, cell.setting, s.samples, ratio)
