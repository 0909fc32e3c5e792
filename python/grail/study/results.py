"""The results of a sweep, JSON lines: a header, then dense networks and cells in any order.

results.schema.json has the keys of a line. A number that is null or missing is NaN here.
"""

from __future__ import annotations

import json
import math
import os
import stat
import zlib
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from .errors import StudyError
from .schema import Json, Schema

NAN = math.nan
VERSION = 2
LARGEST_FILE, LARGEST_LINE = 256 << 20, 4 << 20
MOST_CHECKPOINTS, MOST_SELECTORS, MOST_CELLS = 1024, 32, 200_000
FORMS = [(name, repairs) for name in ("none", "grail", "full", "own") for repairs in (False, True)]
HEALS = ["none", "block", "model", "block,model"]
VARIANTS = len(FORMS) * len(HEALS)
"""A variant is a form, and behind the forms the same again for each way to heal."""
SELECTORS: list[str] = Schema("recipe.schema.json").root["$defs"]["selector"]["enum"]
"""In the order of pages; those that are not among them follow."""
QUALITY = [
    "top1",
    "top5",
    "interval",
    "images",
    "perplexity",
    "perplexity_error",
    "windows",
    "context",
]
SIZES = ["latency", "parameters", "macs", "peak_bytes"]
SECONDS = ["calibrate", "compensate", "heal", "evaluate", "total"]
SITE = ["units", "kept", "fit_before", "fit_after", "held_before", "held_after"]
HEALING = ["block", "steps", "held_loss_before", "held_loss_after", "seconds"]
_LINE = Schema("results.schema.json")

Numbers = dict[str, float]
Outcomes = npt.NDArray[np.float64]


def compensation(variant: int) -> str:
    return FORMS[variant % len(FORMS)][0]


def repairs(variant: int) -> bool:
    return FORMS[variant % len(FORMS)][1]


def heals(variant: int) -> str:
    return HEALS[variant // len(FORMS)]


def variant_of(compensate: str, repair: bool, heal: str) -> int:
    return HEALS.index(heal) * len(FORMS) + FORMS.index((compensate, repair))


class Settings(NamedTuple):
    """What tells the cells of a file apart."""

    checkpoint: str
    selector: str
    sparsity: float
    variant: int
    samples: int
    seed: int
    open_loop: bool
    calibration: str | None
    choices: str | None

    @property
    def text(self) -> str:
        """Those of calibration and choices."""
        parts = ["" if self.calibration is None else f"of {self.calibration}", self.choices or ""]
        return ", ".join(part for part in parts if part)


@dataclass
class Checkpoint:
    """A network on one evaluation: those that were measured on several texts are as many."""

    name: str
    network: str
    evaluation: str | None
    is_further: bool
    first: tuple[int, str, Numbers] | None = None  # line, data and windows that it was measured on
    architecture: str | None = None  # None: nothing is said of the dense network
    path: str = ""
    measures: Numbers = field(default_factory=lambda: _numbers({}, QUALITY + SIZES + SECONDS))
    outcomes: Outcomes | None = None


@dataclass
class Cell:
    """A cell on one evaluation; further ones have no sites, trainings, times and memory."""

    checkpoint: int
    selector: int
    setting: int
    settings: Settings
    is_further: bool
    error: str | None = None
    measures: Numbers = field(default_factory=dict)
    outcomes: Outcomes | None = None
    sites: list[tuple[str, Numbers]] = field(default_factory=list)
    healings: list[Numbers] = field(default_factory=list)


# -- a line ----------------------------------------------------------------------------------------


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text[:40]} is not a number that JSON has, or out of range")


def _integer(text: str) -> int:
    return int(text) if len(text) < 20 and abs(int(text)) < 2**63 else _refuse(text)


def _real(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _unique(pairs: list[tuple[str, Any]]) -> Json:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("an object has a key twice")
    return made


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_refuse, parse_int=_integer, parse_float=_real
)


def parse_json(where: str, text: bytes) -> Any:
    """Strict JSON: no key twice, no NaN, no number out of range."""
    try:
        return _DECODER.decode(text.decode())
    except (ValueError, RecursionError) as error:
        raise StudyError(f"{where}: not valid JSON: {error}") from None


def _numbers(found: Json, keys: list[str]) -> Numbers:
    return {key: NAN if found.get(key) is None else float(found[key]) for key in keys}


def _outcomes(where: str, found: Json) -> Outcomes | None:
    """For each image 1 where it was right, else 0, or of each window its mean loss."""
    losses, hits, images = found.get("losses"), found.get("hits"), found.get("images") or 0
    if losses is not None:
        if len(losses) != found.get("windows"):
            raise StudyError(f'{where}: "losses" has not as many numbers as "windows" says')
        return np.array(losses, dtype=np.float64)
    if hits is None:
        return None
    if images < 1 or len(hits) != math.ceil(images / 4) or set(hits) - set("0123456789abcdef"):
        raise StudyError(f'{where}: "hits" does not have a hexadecimal digit for every four images')
    packed = np.frombuffer(bytes.fromhex(hits + len(hits) % 2 * "0"), dtype=np.uint8)
    return np.unpackbits(packed)[: int(images)].astype(np.float64)


_CHECKSUM = b',"crc32":"'
_END = len(_CHECKSUM) + len('01234567"}')


def checksum_is_right(text: bytes) -> bool | None:
    """None where the line does not end with a checksum."""
    body, end = text[:-_END], text[-_END:]
    if len(end) < _END or not end.startswith(_CHECKSUM) or not end.endswith(b'"}'):
        return None
    return end[len(_CHECKSUM) : -2] == b"%08x" % zlib.crc32(body)


def line_text(document: Json) -> bytes:
    """A line with its checksum and its end."""
    body = json.dumps(document, separators=(",", ":"), allow_nan=False).encode()[:-1]
    return body + _CHECKSUM + b'%08x"}\n' % zlib.crc32(body)


def settings_of(found: Json) -> Settings:
    """The line of a cell that fits the schema."""
    variant = variant_of(
        found["compensate"], bool(found.get("repair")), found.get("heal") or "none"
    )
    names = (found["checkpoint"], found["selector"], float(found["sparsity"]))
    drawn = (found.get("samples") or 0, found.get("seed") or 0, found.get("loop") == "open")
    return Settings(*names, variant, *drawn, found.get("calibration"), found.get("choices"))


# -- the file --------------------------------------------------------------------------------------


class Results:
    """What a file of results says; `cut_line` numbers an incomplete last line that is left out."""

    def __init__(self) -> None:
        self.version = 0
        self.header: Json = {}
        self.checkpoints: list[Checkpoint] = []
        self.settings: dict[tuple[str | None, str | None], int] = {(None, None): 0}
        self.selectors: list[str] = list(SELECTORS)
        self.cells: list[Cell] = []
        self.cut_line = 0
        self._places: dict[tuple[str, str | None], int] = {}

    def _checkpoint(self, where: str, network: str, evaluation: str | None) -> int:
        place = self._places.setdefault((network, evaluation), len(self.checkpoints))
        if place == len(self.checkpoints):
            if place == MOST_CHECKPOINTS:
                raise StudyError(f"{where}: the file has more than {MOST_CHECKPOINTS} checkpoints")
            name = network if evaluation is None else f"{network} on {evaluation}"
            further = any(c.network == network for c in self.checkpoints)
            self.checkpoints.append(Checkpoint(name, network, evaluation, further))
        return place

    def _measured(self, number: int, network: str, found: Json) -> list[tuple[int, Checkpoint]]:
        """The checkpoints of a line's evaluations; the numbers of one are on the same data."""
        where, names, made = f"line {number}", set(), []
        for one in found.get("evaluations") or [found]:
            name = None if one is found else one["name"]
            if name in names:
                raise StudyError(f'{where}: two evaluations have the name "{name}"')
            names.add(name)
            at = self._checkpoint(where, network, name)
            c, windows = self.checkpoints[at], _numbers(one, ["windows", "context"])
            if one.get("data_sha256") is not None:
                c.first = c.first or (number, one["data_sha256"], windows)
                line, sha256, then = c.first
                if one["data_sha256"] != sha256 or (windows["windows"] >= 0 and windows != then):
                    raise StudyError(
                        f'{where}: "{c.name}" was measured on other data, or on other windows of '
                        f"it, than line {line} says; measure all of them again on the same data, "
                        "or give the evaluations names of their own"
                    )
            made.append((at, c))
        return made

    def _add_dense(self, number: int, found: Json) -> None:
        whole = _numbers({**found, **(found.get("seconds") or {})}, SIZES + SECONDS)
        evaluations = found.get("evaluations") or [found]
        for one, (_, c) in zip(evaluations, self._measured(number, found["checkpoint"], found)):
            c.architecture, c.path = found.get("architecture") or "", found.get("path") or ""
            c.measures = {**whole, **_numbers(one, QUALITY)}
            c.outcomes = _outcomes(f"line {number}", one)

    def _new_cell(self, where: str, at: int, s: Settings, further: bool) -> Cell:
        if len(self.cells) == MOST_CELLS:
            raise StudyError(f"{where}: the file has more than {MOST_CELLS} cells")
        if s.selector not in self.selectors:
            if len(self.selectors) == MOST_SELECTORS:
                raise StudyError(f"{where}: the file has more than {MOST_SELECTORS} selectors")
            self.selectors.append(s.selector)
        setting = self.settings.setdefault((s.calibration, s.choices), len(self.settings))
        self.cells.append(Cell(at, self.selectors.index(s.selector), setting, s, further))
        return self.cells[-1]

    def _add_cell(self, number: int, found: Json) -> None:
        where, settings = f"line {number}", settings_of(found["cell"])
        network = settings.checkpoint
        if found.get("error") is not None:
            # in all evaluations, so that a later line of the cell takes its place there
            own = [i for i, c in enumerate(self.checkpoints) if c.network == network]
            for i, at in enumerate(own or [self._checkpoint(where, network, None)]):
                self._new_cell(where, at, settings, i > 0).error = found["error"]
            return
        whole = _numbers({**found, **(found.get("seconds") or {})}, SIZES + SECONDS)
        further = {**whole, **_numbers({}, ["peak_bytes", *SECONDS])}
        evaluations = found.get("evaluations") or [found]
        for i, (at, _) in enumerate(self._measured(number, network, found)):
            cell, one = self._new_cell(where, at, settings, i > 0), evaluations[i]
            cell.measures = {**(further if i > 0 else whole), **_numbers(one, QUALITY)}
            cell.outcomes = _outcomes(where, one)
            if i == 0:
                sites, healed = found.get("sites") or [], found.get("healed") or []
                cell.sites = [(site["name"], _numbers(site, SITE)) for site in sites]
                cell.healings = [_numbers(one, HEALING) for one in healed]

    def _read_header(self, found: Any) -> None:
        version = found.get("grail_results") if isinstance(found, dict) else None
        if type(version) is not int:
            expected = f'{{"grail_results": {VERSION}, ...}}'
            raise StudyError(f"expected {expected}: these are not the results of a sweep")
        if not 1 <= version <= VERSION:
            raise StudyError(
                f"the results have version {version}, but this grail reads versions 1 to {VERSION}"
            )
        self.version, self.header = version, found

    def read_line(self, text: bytes, number: int) -> Json:
        """The document of a line without its end, checked; a header is taken over."""
        where, checksum = f"line {number}", checksum_is_right(text)
        if len(text) > LARGEST_LINE:
            raise StudyError(
                f"{where}: the line has {len(text)} bytes, expected at most {LARGEST_LINE}"
            )
        if checksum is False:
            raise StudyError(f"{where}: does not match its checksum; it was damaged or edited")
        try:
            found = parse_json(where, text)
        except StudyError as error:
            if number > 1 or text.startswith(b'{"grail_results":'):
                raise
            raise StudyError(f"{error}: these are not the results of a sweep") from None
        if number == 1:
            self._read_header(found)
        if checksum is None and self.version == VERSION:
            raise StudyError(f"{where}: has no checksum; it was damaged or edited")
        if number > 1:
            _LINE.check(where, found)
            if "dense" not in found and "cell" not in found:
                raise StudyError(f'{where}: expected an object "dense" or "cell"')
        return dict(found)

    def add_line(self, text: bytes, number: int) -> None:
        found = self.read_line(text, number)
        if number > 1 and "dense" in found:
            self._add_dense(number, found["dense"])
        elif number > 1:
            self._add_cell(number, found)


def is_cut_short(text: bytes) -> bool:
    """Whether a last line lacks its end: a part of a JSON object is never a JSON document."""
    if len(text) > LARGEST_LINE or checksum_is_right(text[:-1]):
        return False
    try:
        parse_json("", text)
    except StudyError:
        return True
    return False


def read_results(path: str) -> Results:
    """Reads a file, of a sweep that may still be running."""
    results, number = Results(), 0
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            info = os.fstat(file.fileno())
            if not stat.S_ISREG(info.st_mode) or info.st_size > LARGEST_FILE:
                raise StudyError(f"not a regular file of at most {LARGEST_FILE} bytes")
            for number, line in enumerate(file, 1):
                if number > 1 and not line.endswith(b"\n") and is_cut_short(line):
                    results.cut_line = number
                else:
                    results.add_line(line[:-1] if line.endswith(b"\n") else line, number)
        if number == 0:
            raise StudyError("the file is empty, expected the results of a sweep")
    except StudyError as error:
        raise StudyError(f"{path}: {error}") from None
    except OSError as error:
        raise StudyError(f"cannot open '{path}': {error.strerror}") from None
    return results
