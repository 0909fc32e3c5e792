"""The recipe of a sweep (grail-recipe(5)), and its cells."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .errors import StudyError
from .results import FORMS, SELECTORS, Settings, parse_json, variant_of
from .schema import Json, Schema

LARGEST, MOST_CELLS, MOST_CHOICES = 1 << 20, 100_000, 1000
_SCHEMA = Schema("recipe.schema.json")
_GRID = _SCHEMA.root["$defs"]["grid"]["properties"]
CHOICES = [key for key in _GRID if "anyOf" in _GRID[key]]
"""The choices of a recipe or grid: one value or several, which are combined. The names of options
with _ for -, in the order of the library's tables."""
PLAN = ["budget", "heads_removed", "uniform_widths", "uniform_heads", "drop_sublayers", "tries"]
SOURCE = {
    "text": ["field", "protocol", "context", "window_bos"],
    "images": ["preset", "split", "size", "mean", "std"],
}
_USUAL = {"align": 1, "metric": "plain", "precision": "f32"}  # those of the command are others
_AXES = ["selectors", "sparsities", "compensate", "heal", "samples", "seeds"]
_FALLBACK: Json = {"heal": ["none"], "samples": [128], "seeds": [0]}


def text_of(value: Any) -> str:
    """A value of JSON as an option takes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.12g}"
    return ",".join(map(text_of, value)) if isinstance(value, list) else str(value)


def options_of(values: Json, keys: list[str]) -> dict[str, str]:
    """The texts of options; that of a flag is empty. 0 stands for what the library chooses."""
    texts = {}
    for key in keys:
        value = values.get(key, _USUAL.get(key))
        if value is True:
            texts[key] = ""
        elif key == "align" and value == 0:
            texts[key] = "auto"
        elif value is not None and value is not False and (value or key in ("alpha", *PLAN[1:2])):
            texts[key] = "cv" if value == "cross-validation" else text_of(value)
    return texts


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@dataclass
class Checkpoint:
    name: str
    path: str
    settings: Json
    reads_images: bool | None = None  # known when it is open

    @property
    def reads(self) -> str:
        return "images" if self.reads_images else "text"


@dataclass
class Data:
    """Images or texts to calibrate on or to measure with."""

    name: str | None
    kind: str
    path: str
    labels: str | None
    count: int  # images or windows of an evaluation; 0: all
    checkpoints: list[str]
    options: dict[str, str]

    def serves(self, c: Checkpoint) -> bool:
        return c.name in self.checkpoints and (c.reads_images is None or c.reads == self.kind)


@dataclass(frozen=True)
class Cell:
    """One narrowing. Cells of equal `shared` have the network and its samples in common."""

    settings: Settings
    order: tuple[Any, ...]
    checkpoint: int
    calibration: int
    choice: int

    @property
    def shared(self) -> tuple[Any, ...]:
        return self.order[:5]

    def __str__(self) -> str:
        s = self.settings
        form, repairs = FORMS[s.variant % len(FORMS)]
        parts = [] if form == "none" else [form]
        parts += ["repair"] if repairs else []
        heal = _SCHEMA.root["$defs"]["heal"]["enum"][s.variant // len(FORMS)]
        made = "+".join(parts) or ("none" if heal == "none" else "")
        made = " + ".join(part for part in (made, heal != "none" and f"heal {heal}") if part)
        of = f" of {s.calibration}" if s.calibration is not None else ""
        end = (", open loop" if s.open_loop else "") + (f", {s.choices}" if s.choices else "")
        ratio = f"{100 * s.sparsity:g} %"
        drawn = f"{s.samples} samples{of}, seed {s.seed}"
        return f"{s.checkpoint}, {s.selector}, {ratio}, {made}, {drawn}{end}"


class Recipe:
    """A recipe whose values are checked. `precision` takes the place of the document's."""

    def __init__(self, path: str, precision: str | None = None) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                text = file.read(LARGEST + 1)
        except OSError as error:
            raise StudyError(f"cannot open '{path}': {error.strerror}") from None
        if len(text) > LARGEST:
            raise StudyError(f"{path}: more than {LARGEST} bytes, too many for a recipe")
        self.document: Json = parse_json(path, text)
        if precision is not None and isinstance(self.document, dict):
            self.document = {k: v for k, v in self.document.items() if k != "precision"}
            if precision != _USUAL["precision"]:
                self.document["precision"] = precision
        _SCHEMA.check(path, self.document)
        self.checkpoints = [self._checkpoint(c) for c in self.document["checkpoints"]]
        self._check_names("checkpoints", self.checkpoints)
        self.calibration = self._data("calibration")
        self.evaluation = self._data("evaluation")
        self.latency: str | None = self.document.get("latency")
        self.keeps_outcomes: bool = self.document.get("outcomes", False)
        self.choices: list[Json] = []
        self._choice_texts: dict[str, int] = {}
        grids = self.document.get("grids", [self.document])
        self.grids = [
            (self._where(i), grid, self._choices(i, grid)) for i, grid in enumerate(grids)
        ]

    def _fail(self, where: str, text: str) -> StudyError:
        return StudyError(f"{self.path}: {where}{': ' if where else ''}{text}")

    def _where(self, grid: int) -> str:
        return f"grids[{grid}]" if "grids" in self.document else ""

    # -- what it names -----------------------------------------------------------------------------

    def _at(self, path: str) -> str:
        """Relative paths begin at the recipe."""
        return os.path.join(os.path.dirname(self.path), path)

    def _checkpoint(self, found: Json) -> Checkpoint:
        return Checkpoint(found["name"], self._at(found["path"]), found.get("settings", {}))

    def _check_names(self, key: str, entries: list[Any]) -> None:
        names = [entry.name for entry in entries]
        for i, name in enumerate(names):
            if name is None and len(names) > 1:
                raise self._fail(f"{key}[{i}]", '"name" is missing')
            if names.index(name) < i:
                raise self._fail(f"{key}[{i}]", f'the name "{name}" is used before')

    def _data(self, key: str) -> list[Data]:
        known = [c.name for c in self.checkpoints]
        made = []
        for i, found in enumerate(_listed(self.document[key])):
            where = f"{key}[{i}]" if isinstance(self.document[key], list) else key
            kind = found.get("kind", "images")
            counts = "images" if kind == "images" else "windows"
            if key == "calibration" and found.get(counts):
                text = f'"{counts}" is a key of "evaluation"; give the number of calibration '
                raise self._fail(where, text + 'samples in "samples"')
            if isinstance(self.document[key], list) and "name" not in found:
                raise self._fail(where, '"name" is missing')
            labels = self._at(found["labels"]) if "labels" in found else None
            names = found.get("checkpoints", known)
            self._check_known(f"{where}.checkpoints", names, known)
            options = options_of(found, SOURCE[kind])
            path, count = self._at(found["path"]), found.get(counts, 0)
            made.append(Data(found.get("name"), kind, path, labels, count, names, options))
        self._check_names(key, made)
        return made

    def _check_known(self, where: str, names: list[str], known: list[Any]) -> None:
        for i, name in enumerate(names):
            if name not in known:
                raise self._fail(f"{where}[{i}]", f'the recipe has no such name as "{name}"')

    # -- choices -----------------------------------------------------------------------------------

    def _varies(self, key: str) -> bool:
        own = key != "sites" and len(_listed(self.document.get(key))) > 1
        return own or any(key in grid for grid in self.document.get("grids", []))

    def _add_choice(self, values: Json) -> int:
        key = repr(sorted(values.items()))
        index = self._choice_texts.setdefault(key, len(self.choices))
        if index == len(self.choices):
            self.choices.append(values)
        return index

    def _choices(self, number: int, grid: Json) -> list[tuple[int, int]]:
        """The combinations of a grid, each with that of its cells that are not healed."""
        given = {k: _listed(grid.get(k, self.document.get(k))) for k in CHOICES}
        given = {key: values for key, values in given.items() if values != [None]}
        if math.prod(map(len, given.values())) > MOST_CHOICES:
            text = f"the arrays of choices make more than {MOST_CHOICES} combinations; shorten them"
            raise self._fail(self._where(number), text)
        made = []
        for combined in itertools.product(*reversed(given.values())):
            values = dict(zip(given, reversed(combined)))
            values["sites"] = self._axis(self._where(number), grid, "sites")
            idle = [key for key in PLAN if key in values]
            if idle and "limit" not in values and "budget" not in values:
                text = f'"{idle[0]}" has no effect without "limit" or "budget"'
                raise self._fail(self._where(number), text)
            healing = [k for k in values if k.startswith("heal_") and self._varies(k)]
            unhealed = {key: value for key, value in values.items() if key not in healing}
            made.append((self._add_choice(values), self._add_choice(unhealed)))
        return made

    def choice_text(self, choice: int) -> str | None:
        """The keys that vary within the recipe: "align=32 target=local"."""
        values = self.choices[choice]
        keys = [key for key in ["sites", *CHOICES] if key in values and self._varies(key)]
        return " ".join(f"{key}={text_of(values[key])}" for key in keys) or None

    # -- cells -------------------------------------------------------------------------------------

    def _axis(self, where: str, grid: Json, key: str) -> list[Any]:
        values = grid.get(key, self.document.get(key, _FALLBACK.get(key)))
        if values is None:
            raise self._fail(where, f'"{key}" is missing')
        if key == "sparsities":
            values = [float(f"{value:.12g}") + 0.0 for value in values]
            if len(set(values)) < len(values):
                raise self._fail(where, '"sparsities" repeats an entry')
        return list(values)

    def _named(self, where: str, grid: Json, key: str, known: list[Any]) -> list[int]:
        own = known if grid is self.document else grid.get(key, known)
        self._check_known(f"{where}.{key}", own, known)
        return [known.index(name) for name in own]

    def _grid_cells(
        self, where: str, grid: Json, choices: list[tuple[int, int]], draws: Callable[[str], bool]
    ) -> Iterator[Cell]:
        checkpoints = self._named(where, grid, "checkpoints", [c.name for c in self.checkpoints])
        calibrations = self._named(where, grid, "calibration", [d.name for d in self.calibration])
        axes = [self._axis(where, grid, key) for key in _AXES]
        if math.prod(map(len, [checkpoints, calibrations, *axes, choices])) > MOST_CELLS:
            text = f"the lists make more than {MOST_CELLS} combinations; shorten the lists"
            raise self._fail(where, text)
        is_open = grid.get("loop", self.document.get("loop")) == "open"
        every_seed = self.document.get("repeat") == "calibration"
        for at in checkpoints:
            c = self.checkpoints[at]
            own = [i for i in calibrations if self.calibration[i].serves(c)]
            if not own:
                reads = "" if c.reads_images is None else f"; it reads {c.reads}"
                text = f'none of the calibrations is for checkpoint "{c.name}"{reads}'
                raise self._fail(where, text)
            for calibration, pair, *values in itertools.product(own, choices, *axes):
                selector, sparsity, form, heal, samples, seed = values
                if seed != axes[-1][0] and not every_seed and not draws(selector):
                    continue  # the same network again
                kind, _, repair = form.partition("+")
                kind, repair = ("none", "repair") if kind == "repair" else (kind, repair)
                variant = variant_of(kind, repair != "", heal)
                choice = pair[1] if heal == "none" else pair[0]
                names = (self.calibration[calibration].name, self.choice_text(choice))
                drawn = (samples, seed, is_open)
                s = Settings(c.name, selector, sparsity, variant, *drawn, *names)
                cut = (SELECTORS.index(selector), sparsity, variant)
                order = (at, is_open, calibration, samples, seed, choice, *cut)
                yield Cell(s, order, at, calibration, choice)

    def cells(self, draws: Callable[[str], bool]) -> list[Cell]:
        """All cells of all grids, each once, in an order in which neighbours share work. `draws`
        tells whether the seed changes what a selector chooses."""
        made: dict[tuple[Any, ...], Cell] = {}
        for where, grid, choices in self.grids:
            for cell in self._grid_cells(where, grid, choices, draws):
                made.setdefault(cell.order, cell)
        if len(made) > MOST_CELLS:
            raise self._fail("", f"the lists make more than {MOST_CELLS} cells; shorten the lists")
        return sorted(made.values(), key=lambda cell: cell.order)
