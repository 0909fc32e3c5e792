"""Runs: narrow a model and repair it, choose its widths, heal, round, export, take statistics."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, Union

from . import measure
from ._native import ffi, lib
from .errors import ArgumentError, check, warn
from .measure import Quality
from .model import Model, Path, at_work, inspect, settle_backend
from .options import (
    COMPRESS,
    EFFORT,
    FIELDS,
    IMAGES,
    ONNX,
    PLAN,
    TEXT,
    Given,
    about,
    named,
    names_of,
    new_text,
    text_of,
)
from .records import (
    CutSite,
    Facts,
    Forecast,
    GgufFile,
    GramFile,
    Healing,
    Loader,
    OnnxFile,
    Phase,
    Plan,
    Schedule,
    Totals,
    record,
)
from .result import Result
from .samples import Samples
from .watch import Progress, Watch

__all__ = ["Report", "compress", "export", "gram", "heal", "plan", "quantize"]

_READ = about(COMPRESS, "READ") + TEXT + about(IMAGES, "READ")
_RUN = about(COMPRESS, "RUN")
_HOW = about(COMPRESS, "CUT", "FIT")
_HEAL = about(COMPRESS, "HEAL")
_OUTPUT = about(COMPRESS, "OUTPUT")
_LIMITS = {
    "target_ratio": "params",
    "target_params": "params",
    "target_macs": "macs",
    "target_kv_bytes": "kv-bytes",
    "target_size": "size",
}

Calibration = Union[Samples, Path, "Sequence[Path | tuple[Path, float]]"]
Sparsity = Union[float, str, Mapping[str, float]]


@dataclass(frozen=True, eq=False)
class Report:
    """What a run did, or with dry_run would do. Without an output `result` holds the network."""

    output: FilePath | None
    totals: Totals
    sites: tuple[CutSite, ...]
    healing: tuple[Healing, ...]
    loaders: tuple[Loader, ...]
    notices: tuple[str, ...]
    quality: Quality | None = None
    plan: Plan | None = None  # where the widths were chosen for a limit
    forecast: Forecast | None = None
    schedule: Schedule | None = None  # where an effort or a time was asked for
    result: Result | None = None  # where nothing was written

    @property
    def json(self) -> dict[str, Any]:
        """The document report.json of the result."""
        if self.result is not None:
            found: dict[str, Any] = json.loads(self.result.documents["report.json"])
            return found
        if self.output is None:
            raise ArgumentError("nothing was written, so there is no report.json")
        document: dict[str, Any] = json.loads((self.output / "report.json").read_text())
        return document

    @property
    def ratio(self) -> float:
        """The share of the parameters that is left."""
        return self.totals.parameters / self.totals.dense.parameters


class _Request:
    """A run that is asked for: a grail_compress_options, and what it borrows."""

    def __init__(
        self, model: Model, calib: Any, given: Given, watch: Watch, output: Path | None = None
    ) -> None:
        self.model = model
        self.given = given
        self.watch = watch
        self.keep: list[Any] = []
        self.options = ffi.new("grail_compress_options *")
        lib.grail_compress_options_init(self.options)
        self.options.read.session = model._session
        self.options.run.precision = self.text("auto")
        given.fill(COMPRESS, self.options, self.keep)
        settle_backend(model, self.options.run, output if self.options.output.resume else None)
        watch.observe(self.options.run)
        self.schedule: Any = None
        self.limit: Any = None
        self.samples = None if calib is None else Samples.of(calib, given)
        if self.samples is not None:
            self.samples.fill(model, self.options.read, self.keep)

    def text(self, text: Any) -> Any:
        return ffi.NULL if text is None else new_text(text, self.keep)

    def kinds(self, sites: str | None) -> str:
        """The kinds of sites that one number for the sparsity, or a limit, cuts."""
        if sites is not None and not isinstance(sites, str):
            raise TypeError(f"sites takes a text, not {type(sites).__name__}")
        return sites or ("conv,ffn" if self.model.facts.reads_images else "ffn,heads")

    def cut(self, sparsity: Sparsity, sites: str | None) -> None:
        pairs = _pairs(sparsity, self.kinds(sites))
        if sites is not None and isinstance(sparsity, Mapping):
            raise ArgumentError("sites needs one number for sparsity", ("sites", "sparsity"))
        single = []
        for name, fraction in pairs.items():
            field = lib.grail_compress_sparsity(self.options, self.text(name))
            if field != ffi.NULL:
                field[0] = fraction
            elif sites is not None:
                kinds = names_of(lib.grail_site_kind_at)
                message = f"sites takes {', '.join(kinds)}, not '{name}'"
                raise ArgumentError(message, ("sites",))
            else:
                single.append((name, fraction))
        entries = ffi.new("grail_site_sparsity[]", len(single) or 1)
        self.keep.append(entries)
        for entry, (name, fraction) in zip(entries, single):
            entry.site, entry.sparsity = self.text(name), fraction
        self.options.amount.site_sparsities = entries
        self.options.amount.site_sparsity_count = len(single)

    def take_plan(self, plan: Plan | Path) -> None:
        amount = self.options.amount
        if isinstance(plan, Plan):
            amount.plan_text = self.text(plan.text)
        else:
            amount.plan = self.text(os.fspath(plan))
            amount.chosen = self.text(self.given_fields())

    def given_fields(self) -> str:
        options = self.given.options
        return " ".join(option.field for option in options if option.keyword in self.given.texts)

    def apply_effort(
        self, subject: str, limits: Mapping[str, Any], sites: str | None, output: Path | None
    ) -> None:
        """Sets what an effort or a time decides."""
        effort = ffi.new("grail_effort_options *")
        lib.grail_effort_options_init(effort)
        self.given.fill(EFFORT, effort, self.keep)
        self.limit = ffi.new("grail_plan_options *")
        lib.grail_plan_options_init(self.limit)
        self.given.fill(PLAN, self.limit, self.keep)
        self.limit.kinds = self.text(self.kinds(sites))
        for keyword, most in limits.items():
            name = "ratio" if keyword == "target_ratio" else "most"
            self.limit.limit = self.text(_LIMITS[keyword])
            setattr(self.limit, name, _amount(keyword, most))
        self.options.output.path = self.text(output)
        self.limit.compress = self.options[0]
        made = ffi.new("grail_schedule **")
        made_of = getattr(lib, "GRAIL_SCHEDULE_" + subject)
        given = self.text(self.given_fields())
        self.watch.check(lib.grail_schedule_make(effort, made_of, given, self.limit, made))
        self.schedule = ffi.gc(made[0], lib.grail_schedule_free)
        self.options[0] = self.limit.compress

    def choose(self, keyword: str, output: Path | None = None) -> Plan:
        """Widths for a limit, which are written to a file."""
        options = self.limit
        options.compress = self.options[0]
        options.observer = lib.grail_plan_observed
        options.observer_user = self.watch.handle
        made = ffi.new("grail_plan **")
        self.watch.check(lib.grail_plan_make(options, made), most=keyword, ratio=keyword)
        plan = ffi.gc(made[0], lib.grail_plan_free)
        if output is not None:
            self.watch.check(lib.grail_plan_write(plan, self.text(output)))
        text = text_of(lib.grail_plan_text(plan)) or ""
        return record(Plan, lib.grail_plan_facts_get(plan), text=text)

    def notices(self) -> tuple[str, ...]:
        return self.model._notices_of_run(self.samples is not None and not self.samples.has_preset)

    def run(self, output: Path | None, evaluation: measure.Evaluation | None) -> Report:
        if output is not None:
            self.options.output.path = self.text(output)
        elif not self.given.texts.get("quantize", "none").startswith(("w", "none")):
            message = "quantize makes a GGUF file, which is written to a path alone; give output"
            raise ArgumentError(message, ("quantize",))
        if evaluation is not None:
            evaluation.check(self.model)
        self.options.run.time = lib.grail_schedule_left(self.schedule)
        opened = ffi.new("grail_compression **")
        self.watch.check(lib.grail_compression_open(self.options, opened))
        compression = self.model._owner.hold(opened[0], lib.grail_compression_close)
        is_kept = False
        try:
            report = self._run(compression, output, evaluation)
            is_kept = report.result is not None
            return report
        finally:
            if not is_kept:  # a traceback must not keep the lock of OUTPUT.partial
                ffi.release(compression)

    def _run(
        self, compression: Any, output: Path | None, evaluation: measure.Evaluation | None
    ) -> Report:
        is_dry = self.options.output.dry_run != 0
        notices = self.notices()
        if shortfall := _totals(compression).shortfall:
            warn(shortfall)
            notices += (shortfall,)
        quality = result = None
        if not is_dry:
            self.watch.check(lib.grail_compression_run(compression))
            if at_once := _totals(compression).samples_at_once:
                full = f"the memory of the device was full: at most {at_once} samples ran at once"
                warn(full)
                notices += (full,)
            result = Result(compression, self.model) if output is None else None
            if evaluation is not None:
                quality = self._measure(compression, result, evaluation)
            if output is not None:
                self.watch.check(lib.grail_compression_finish(compression))
                self.watch.check(lib.grail_schedule_finish(self.schedule))
        return Report(
            output=None if output is None or is_dry else FilePath(output),
            totals=_totals(compression),
            sites=_sites(compression),
            healing=_healing(compression),
            loaders=_loaders(compression),
            notices=notices,
            quality=quality,
            forecast=self.forecast(compression) if is_dry else None,
            schedule=_schedule(self.schedule),
            result=result,
        )

    def _measure(
        self, compression: Any, result: Result | None, evaluation: measure.Evaluation
    ) -> Quality:
        """Also for the model card of an output."""
        if result is not None:
            return evaluation.measure_result(result.model(), self)
        directory = ffi.new("const char **")
        self.watch.check(lib.grail_compression_seal(compression, directory))
        sealed = Model(os.fsdecode(ffi.string(directory[0])), set=self.model.set)
        quality = evaluation.measure_result(sealed, self)
        is_healed = self.options.heal.teacher != ffi.NULL
        card = measure.card(evaluation.samples.parts[0][0], quality, is_healed)
        title, text = ffi.new("char[]", b"Quality"), ffi.new("char[]", card)
        self.watch.check(lib.grail_compression_card_add(compression, title, text))
        return quality

    def forecast(self, compression: Any) -> Forecast:
        rates = ffi.new("grail_rates *")
        found = ffi.new("grail_forecast *")
        self.watch.check(lib.grail_rates_measure(self.options, rates))
        check(lib.grail_compression_forecast_at(compression, self.options, rates, found))
        return record(Forecast, found)


def _schedule(schedule: Any) -> Schedule | None:
    facts = lib.grail_schedule_facts_get(schedule)
    phases: list[Phase] = []
    phase = ffi.new("grail_schedule_phase *")
    while lib.grail_schedule_phase_at(schedule, len(phases), phase):
        phases.append(record(Phase, phase))
    made = record(Schedule, facts, resumed=facts.resumed != 0, phases=tuple(phases))
    return made if made.effort or made.time > 0.0 else None


def _pairs(sparsity: Sparsity, kinds: str) -> dict[str, float]:
    """Fractions by kinds or names of sites: 0.3, "ffn=0.3,heads=0.2", {"ffn": 0.3}."""
    if isinstance(sparsity, str) and "=" in sparsity:
        parts = [part.partition("=") for part in sparsity.split(",")]
        names = [name for name, _, _ in parts]
        if len(set(names)) < len(names):
            raise ArgumentError(f"sparsity names a site twice: '{sparsity}'", ("sparsity",))
        sparsity = {name: _fraction(value) for name, _, value in parts}
    if not isinstance(sparsity, Mapping):
        sparsity = dict.fromkeys(kinds.split(","), _fraction(sparsity))
    return {name: _fraction(value) for name, value in sparsity.items()}


def _fraction(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError("sparsity takes a fraction, not bool")
    try:
        return float(value)
    except ValueError:
        message = f"sparsity takes a fraction such as 0.3, not '{value}'"
        raise ArgumentError(message, ("sparsity",)) from None


def _amount(keyword: str, value: Any) -> float:
    """A number, perhaps with a suffix of thousands: "700M", "5B", "4GB"."""
    match = re.fullmatch(r"([0-9.eE+-]+)(?:([KkMGBT])B?)?", str(value))
    try:
        if match is None or isinstance(value, bool):
            raise ValueError
        thousands = {None: 0, "K": 1, "k": 1, "M": 2, "G": 3, "B": 3, "T": 4}[match[2]]
        return float(match[1]) * 1000.0**thousands
    except ValueError:
        message = f"{keyword} takes a number such as 0.7, 700e6 or '700M', not {value!r}"
        raise ArgumentError(message, (keyword,)) from None


def _totals(compression: Any) -> Totals:
    totals = lib.grail_compression_totals_get(compression)
    return record(Totals, totals, dense=record(Facts, totals.dense))


def _sites(compression: Any) -> tuple[CutSite, ...]:
    count = lib.grail_compression_site_count(compression)
    return tuple(CutSite.of(lib.grail_compression_site(compression, i)) for i in range(count))


def _healing(compression: Any) -> tuple[Healing, ...]:
    trainings: list[Healing] = []
    training = ffi.new("grail_healing *")
    while lib.grail_compression_healing(compression, len(trainings), training):
        trainings.append(record(Healing, training))
    return tuple(trainings)


def _loaders(compression: Any) -> tuple[Loader, ...]:
    loaders: list[Loader] = []
    name, loads, reason = ffi.new("const char **"), ffi.new("int *"), ffi.new("const char **")
    while lib.grail_compression_loader(compression, len(loaders), name, loads, reason):
        loaders.append(Loader(text_of(name[0]) or "", loads[0] != 0, text_of(reason[0]) or ""))
    return tuple(loaders)


def _command(name: str, request: _Request, own: Mapping[str, Any]) -> str | None:
    """The command of the program that does the same, for the model card; None: there is none."""
    model, samples = request.model, request.samples
    if model.is_memory or (samples is not None and samples.is_memory):
        return None
    words = ["grail", name, "./" + model.path if model.path.startswith("-") else model.path]
    parts = [] if samples is None else samples.parts
    calib = [path if share == 0 else f"{path}={share:g}" for path, share in parts]
    settings = [f"{key}={value}" for key, value in model.set.items()]
    for keyword, value in {**own, "calib": calib, "set": settings, "type": model.type}.items():
        for one in value if isinstance(value, list) else [value]:
            if one is not None:
                words += ["--" + keyword.replace("_", "-"), str(one)]
    texts = {} if samples is None else dict(samples.given.texts)
    texts.update(request.given.texts)
    for option in request.given.options:
        if option.keyword in texts and option.is_recorded:
            words += ["--" + option.name, *filter(None, [texts[option.keyword]])]
    return " ".join(word if _PLAIN.fullmatch(word) else shlex.quote(word) for word in words)


_PLAIN = re.compile(r"[A-Za-z0-9_\-./,=:+@%]+")


def compress(
    model: Model | Path,
    output: Path | None = None,
    *,
    calib: Calibration | None = None,
    sparsity: Sparsity | None = None,
    plan: Plan | Path | None = None,
    sites: str | None = None,
    eval: Calibration | None = None,
    windows: int | None = None,
    images: int | None = None,
    set: Mapping[str, Any] | None = None,
    type: str | None = None,
    threads: int | None = None,
    progress: Progress = None,
    target_ratio: float | None = None,
    target_params: float | str | None = None,
    target_macs: float | str | None = None,
    target_kv_bytes: float | str | None = None,
    target_size: float | str | None = None,
    **options: Any,
) -> Report:
    """Narrows a model, repairs it, and writes it to the directory `output`.

    How much is cut is said by one of `sparsity` (a fraction, or fractions by kinds or names of
    sites), `plan`, and a limit such as `target_ratio`. `calib` are samples to calibrate on,
    `eval` others to measure the result on. The other options are those of `grail compress`, with
    `_` in place of `-`.
    """
    limits = _given_limits(locals())
    own = {**_own(locals()), **limits}
    if sum(value is not None for value in (sparsity, plan, *limits.values())) != 1:
        raise TypeError(
            "compress() takes exactly one of sparsity, plan and a limit such as target_ratio"
        )
    known = _READ + _HOW + _RUN + PLAN + EFFORT + _HEAL + _OUTPUT
    given = Given("compress", known, options, own)
    opened = inspect(model, set=set, type=type)
    with at_work(opened, threads, progress) as watch:
        request = _Request(opened, calib, given, watch, output)
        evaluation = measure.Evaluation.of(eval, request.samples, windows, images)
        chosen = None
        if plan is not None:
            request.take_plan(plan)
        elif sparsity is not None:
            request.cut(sparsity, sites)
        request.apply_effort("LIMITED" if limits else "RUN", limits, sites, output)
        before = lib.grail_schedule_plan(request.schedule)
        if limits and before != ffi.NULL:
            request.options.amount.plan_text = before
        elif limits:
            chosen = request.choose(next(iter(limits)))
            request.take_plan(chosen)
            kept = request.options.amount.plan_text
            watch.check(lib.grail_schedule_keep_plan(request.schedule, kept))
        recorded = {
            "output": "DIR",
            "sparsity": _sparsity_word(sparsity),
            "plan": None if plan is None else "plan.json",
            "sites": sites,
            "threads": threads,
            **limits,
        }
        command = _command("compress", request, recorded)
        request.options.output.command = request.text(command)
        report = request.run(output, evaluation)
        return report if chosen is None else _with_plan(report, chosen)


def _with_plan(report: Report, plan: Plan) -> Report:
    return Report(**{**vars(report), "plan": plan})


def _sparsity_word(sparsity: Sparsity | None) -> str | None:
    if isinstance(sparsity, Mapping):
        return ",".join(f"{name}={value}" for name, value in sparsity.items())
    return None if sparsity is None else str(sparsity)


def _given_limits(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {key: arguments[key] for key in _LIMITS if arguments[key] is not None}


def _own(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a function that it names itself."""
    return {key: value for key, value in arguments.items() if key not in ("options", "limits")}


def heal(
    model: Model | Path,
    output: Path,
    *,
    teacher: Path,
    calib: Calibration,
    heal: str = "model",
    eval: Calibration | None = None,
    windows: int | None = None,
    images: int | None = None,
    set: Mapping[str, Any] | None = None,
    type: str | None = None,
    threads: int | None = None,
    progress: Progress = None,
    **options: Any,
) -> Report:
    """Trains a narrowed model towards the dense one, `teacher`, without labels. The options are
    those of `grail heal`."""
    own = _own(locals())
    output_options = named(_OUTPUT, "resume", "keep_non_finite")
    values = options if heal == "model" else {"heal": heal, **options}
    known = _READ + _HEAL + _RUN + EFFORT + output_options
    given = Given("heal", known, values, own, assumed=("heal",))
    opened = inspect(model, set=set, type=type)
    with at_work(opened, threads, progress) as watch:
        request = _Request(opened, calib, given, watch, output)
        evaluation = measure.Evaluation.of(eval, request.samples, windows, images)
        if heal == "model":
            request.options.heal.what = request.text(heal)
        request.options.heal.teacher = request.text(os.fspath(teacher))
        request.apply_effort("RUN", {}, None, output)
        recorded = {
            "output": "DIR",
            "teacher": os.fspath(teacher),
            "threads": threads,
        }
        request.options.output.command = request.text(_command("heal", request, recorded))
        return request.run(output, evaluation)


def plan(
    model: Model | Path,
    output: Path | None = None,
    *,
    calib: Calibration | None = None,
    sites: str | None = None,
    set: Mapping[str, Any] | None = None,
    type: str | None = None,
    threads: int | None = None,
    progress: Progress = None,
    target_ratio: float | None = None,
    target_params: float | str | None = None,
    target_macs: float | str | None = None,
    target_kv_bytes: float | str | None = None,
    target_size: float | str | None = None,
    **options: Any,
) -> Plan:
    """Chooses the widths of all sites together under a limit, for compress(plan=...); writes the
    plan to the file `output`, if any. The options are those of `grail plan`."""
    limits = _given_limits(locals())
    own = {**_own(locals()), **limits}
    if len(limits) != 1:
        raise TypeError(f"plan() takes exactly one of {', '.join(_LIMITS)}")
    given = Given("plan", _READ + _HOW + _RUN + PLAN + EFFORT, options, own)
    opened = inspect(model, set=set, type=type)
    with at_work(opened, threads, progress) as watch:
        request = _Request(opened, calib, given, watch)
        request.apply_effort("PLAN", limits, sites, None)
        made = request.choose(next(iter(limits)), output)
        request.notices()
        return made


def quantize(
    model: Model | Path,
    output: Path,
    *,
    type: str,
    calib: Calibration,
    table_type: str | None = None,
    resume: bool = False,
    set: Mapping[str, Any] | None = None,
    threads: int | None = None,
    progress: Progress = None,
    **options: Any,
) -> GgufFile:
    """Writes a language model with weights that are rounded on samples, with error feedback: a
    GGUF file, or for w4a16 and w8a16 a directory. The options are those of `grail quantize`."""
    given = Given("quantize", _READ + _RUN, options, _own(locals()))
    opened = inspect(model, set=set) if set else inspect(model)
    facts = ffi.new("grail_gguf_facts *")
    with at_work(opened, threads, progress) as watch:
        request = _Request(opened, calib, given, watch)
        chosen = ffi.new("grail_quantize_options *")
        chosen.path, chosen.type = request.text(output), request.text(type)
        chosen.table_type, chosen.resume = request.text(table_type), int(resume)
        watch.check(lib.grail_quantize(request.options, chosen, facts))
        request.notices()
        return record(GgufFile, facts)


def gram(
    model: Model | Path,
    output: Path,
    *,
    calib: Calibration | None = None,
    add: Sequence[Path] = (),
    full: bool = False,
    resume: bool = False,
    set: Mapping[str, Any] | None = None,
    threads: int | None = None,
    progress: Progress = None,
    **options: Any,
) -> GramFile:
    """Writes statistics of a dense network to a file; with `add`, the sum of the file of
    statistics `model` and those. The options are those of `grail gram`."""
    if (calib is None) == (len(add) == 0):
        raise TypeError("gram() takes exactly one of calib and add")
    given = Given("gram", _READ + _RUN + named(COMPRESS, "conv_fit"), options, _own(locals()))
    facts = ffi.new("grail_gram_facts *")
    chosen = ffi.new("grail_gram_options *")
    if add:
        if isinstance(model, Model) or full or resume or given.texts or set or threads:
            raise TypeError("gram(add=...) adds files, and takes nothing else")
        keep: list[Any] = []
        paths = [new_text(path, keep) for path in (model, *add)]
        chosen.path = new_text(output, keep)
        check(lib.grail_gram_add(len(paths), paths, chosen, facts), FIELDS)
        return record(GramFile, facts)
    opened = inspect(model, set=set) if set else inspect(model)
    with at_work(opened, threads, progress) as watch:
        request = _Request(opened, calib, given, watch)
        chosen.path, chosen.full = request.text(output), int(full)
        chosen.resume = int(resume)
        watch.check(lib.grail_gram_write(request.options, chosen, facts))
        request.notices()
        return record(GramFile, facts)


def export(
    model: Model | Path,
    output: Path,
    *,
    to: str | None = None,
    type: str | None = None,
    table_type: str | None = None,
    set: Mapping[str, Any] | None = None,
    **options: Any,
) -> GgufFile | OnnxFile:
    """Writes an image network as an ONNX file, a language model as a GGUF file. The options are
    those of `grail export`."""
    given = Given("export", ONNX, options, _own(locals()))
    if to not in (None, "onnx", "gguf"):
        raise ArgumentError(f"to takes onnx or gguf, not '{to}'", ("to",))
    opened = inspect(model, set=set) if set else inspect(model)
    keep: list[Any] = []
    path = new_text(output, keep)
    with at_work(opened) as watch:
        opened._notices_of_run(False)
        if to == "gguf" or (to is None and not opened.facts.reads_images):
            chosen = ffi.new("grail_gguf_options *")
            chosen.type = ffi.NULL if type is None else new_text(type, keep)
            chosen.table_type = ffi.NULL if table_type is None else new_text(table_type, keep)
            gguf = ffi.new("grail_gguf_facts *")
            watch.check(lib.grail_gguf_write(opened._model, path, chosen, gguf))
            return record(GgufFile, gguf)
        shape = ffi.new("grail_onnx_options *")
        given.fill(ONNX, shape, keep)
        onnx = ffi.new("grail_onnx_facts *")
        watch.check(lib.grail_onnx_write(opened._model, path, shape, onnx))
        return record(OnnxFile, onnx)
