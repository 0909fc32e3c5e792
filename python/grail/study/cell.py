"""The networks of a sweep: a checkpoint that is open, and a cell that is narrowed and measured."""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._native import ffi, lib
from ..bench import bench
from ..errors import ArgumentError, InputOutputError, NumericError, check
from ..model import Model
from ..options import COMPRESS, IMAGES, PLAN, TEXT, new_text, text_of
from .recipe import CHOICES, Cell, Checkpoint, Data, Recipe, options_of
from .results import FORMS, compensation, heals, repairs
from .schema import Json


def _rounded(value: float) -> float | None:
    """Times and errors are less accurate."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _exact(value: float) -> float | None:
    return float(f"{value:.15g}") if math.isfinite(value) else None


def draws(selector: str) -> bool:
    """Whether the seed changes what it chooses."""
    facts = ffi.new("grail_selector_facts *")
    check(lib.grail_selector_describe(selector.encode(), facts))
    return bool(facts.draws)


def _fill(table: Any, texts: dict[str, str], struct: Any, keep: list[Any]) -> None:
    for option in table:
        if option.keyword in texts:
            text = new_text(texts[option.keyword], keep)
            check(lib.grail_option_set(option.row, struct, text))


def settings_json(cell: Cell) -> Json:
    s = cell.settings
    names: Json = {"checkpoint": s.checkpoint, "selector": s.selector, "sparsity": s.sparsity}
    names.update(compensate=compensation(s.variant), repair=repairs(s.variant))
    names.update({"heal": heals(s.variant)} if s.variant >= len(FORMS) else {})
    names.update(samples=s.samples, seed=s.seed, loop="open" if s.open_loop else "closed")
    more = {"calibration": s.calibration, "choices": s.choices}
    return {**names, **{key: text for key, text in more.items() if text is not None}}


class Network:
    """A checkpoint that is open, with what the cells of a thread share: its session keeps
    statistics of the dense network."""

    def __init__(self, recipe: Recipe, c: Checkpoint) -> None:
        self.recipe, self.checkpoint = recipe, c
        self.model = Model(c.path, set=c.settings)
        self.facts = self.model.facts
        c.reads_images = self.facts.reads_images
        self._images: dict[int, Any] = {}

    # -- checks ------------------------------------------------------------------------------------

    def check(self) -> None:
        """What would leave lines without a result."""
        facts, recipe = self.facts, self.recipe
        if facts.reads_images and facts.classes < 2:
            raise ArgumentError(
                f"'{facts.directory}' gives features, not classes; a sweep measures accuracy, "
                "which needs a checkpoint with a classification head"
            )
        if not facts.reads_images and facts.gives_features:
            raise ArgumentError(
                f"'{facts.directory}' is an encoder, which gives hidden states; a sweep of "
                "networks that read text measures perplexity, which needs scores of a next token"
            )
        if not any(data.serves(self.checkpoint) for data in recipe.evaluation):
            reads = self.checkpoint.reads
            raise ArgumentError(f"it reads {reads}, but no evaluation of the recipe does")
        for data in [*recipe.calibration, *recipe.evaluation]:
            if data.serves(self.checkpoint) and data.kind == "images":
                self._check_count(data, data.count, "images were")
            elif data.serves(self.checkpoint):
                try:
                    open(data.path, "rb").close()
                except IsADirectoryError:
                    pass
                except OSError as error:
                    text = f"{data.path}: cannot open the text: {error.strerror}"
                    raise InputOutputError(text) from None

    def _check_count(self, data: Data, count: int, what: str) -> None:
        found = lib.grail_images_count(self._open_images(data))
        if count > found:
            text = f"{count} {what} requested, but '{data.path}' holds {found}"
            raise ArgumentError(f"{text} images" if "samples" in what else text)

    def check_cell(self, cell: Cell) -> None:
        kinds = {site.kind for site in self.model.sites}
        if not kinds & set(self.recipe.choices[cell.choice]["sites"]):
            raise ArgumentError(
                f'checkpoint "{self.checkpoint.name}": the network has none of the kinds of sites '
                "that the recipe cuts"
            )
        data = self.recipe.calibration[cell.calibration]
        if data.kind == "images":
            self._check_count(data, cell.settings.samples, "samples were")

    def notices(self) -> list[str]:
        """What had to be assumed."""
        found = list(self.model.notices)
        data = [*self.recipe.calibration, *self.recipe.evaluation]
        if any(
            d.kind == "images" and "preset" not in d.options and d.serves(self.checkpoint)
            for d in data
        ):
            preparation = ffi.new("grail_preprocessing *")
            check(lib.grail_model_preprocessing(self.model._model, preparation))
            found.append(text_of(preparation.notice) or "")
        return [notice for notice in found if notice]

    # -- samples -----------------------------------------------------------------------------------

    def _source(self, data: Data, keep: list[Any]) -> Any:
        is_text = data.kind == "text"
        source = ffi.new("grail_text_source *" if is_text else "grail_image_source *")
        _fill(TEXT if is_text else IMAGES, data.options, source, keep)
        source.path = new_text(data.path, keep)
        if data.labels is not None:
            source.labels = new_text(data.labels, keep)
        keep.append(source)
        return source

    def _open_images(self, data: Data) -> Any:
        if id(data) not in self._images:
            keep: list[Any] = []
            opened = ffi.new("grail_images **")
            check(lib.grail_images_open(self.model._model, self._source(data, keep), opened))
            self._images[id(data)] = ffi.gc(opened[0], lib.grail_images_close)
        return self._images[id(data)]

    # -- measuring ---------------------------------------------------------------------------------

    def _measure_one(self, data: Data, network: Any, narrow: Any) -> tuple[Json, float]:
        """A narrow network in memory, or where that is None a model."""
        keep: list[Any] = []
        outcomes: list[float] = []
        is_text = data.kind == "text"

        @ffi.callback("int(void *, grail_eval_progress *)", error=1)  # type: ignore[untyped-decorator,unused-ignore]
        def watch(_: Any, now: Any) -> int:
            outcomes.extend(ffi.unpack(now.results, now.count) if now.count else [])
            return 0

        observer = watch if self.recipe.keeps_outcomes else ffi.NULL
        begin = time.monotonic()
        source = self._source(data, keep) if is_text else self._open_images(data)
        out = ffi.new("grail_perplexity *" if is_text else "grail_accuracy *")
        what = "perplexity" if is_text else "accuracy"
        if narrow is None:
            compute = ffi.new("grail_compute *")
            compute.precision = new_text(self._precision, keep)
            call = getattr(lib, f"grail_{what}_measure")
            check(call(network, source, data.count, compute, observer, ffi.NULL, out))
        else:
            call = getattr(lib, f"grail_compression_{what}")
            check(call(narrow, source, data.count, observer, ffi.NULL, out))
        made: Json = {} if data.name is None else {"name": data.name}
        if is_text:
            if not math.isfinite(out.perplexity):
                raise NumericError(
                    f"{data.path}: the mean loss of a token is {out.mean_nll:g}, so that the "
                    "perplexity is no number"
                )
            made.update(perplexity=_exact(out.perplexity), perplexity_error=_rounded(out.error))
            made.update(windows=out.windows, context=out.context)
        else:
            made.update(top1=_exact(out.top1), top5=_exact(out.top5))
            made.update(interval=_rounded(out.interval), images=out.images)
        if is_text or data.name is not None:
            made["data_sha256"] = text_of(out.text_sha256 if is_text else out.data_sha256)
        if outcomes and is_text:
            made["losses"] = [_exact(loss) for loss in outcomes]
        elif outcomes:
            digits = np.packbits(np.array(outcomes) > 0).tobytes().hex()
            made["hits"] = digits[: (len(outcomes) + 3) // 4]
        return made, time.monotonic() - begin if is_text else out.seconds

    @property
    def _precision(self) -> str:
        return str(self.recipe.document.get("precision", "f32"))

    def _measure(self, network: Any, narrow: Any) -> tuple[Json, float]:
        """On everything that is for the checkpoint."""
        made: list[Json] = []
        seconds = 0.0
        for data in self.recipe.evaluation:
            if data.serves(self.checkpoint):
                one, took = self._measure_one(data, network, narrow)
                made.append(one)
                seconds += took
        return (made[0] if "name" not in made[0] else {"evaluations": made}), seconds

    def _latency(self, narrow: Model | None) -> Json:
        """The median of a sample in seconds, in turns with the dense network."""
        if self.recipe.latency is None:
            return {}
        models = [self.model] if narrow is None else [self.model, narrow]
        return {"latency": _rounded(bench(*models, engine=self.recipe.latency)[-1].median)}

    def dense_line(self) -> Json:
        measured, seconds = self._measure(self.model._model, None)
        c, facts = self.checkpoint, self.facts
        names: Json = {"checkpoint": c.name, "path": c.path, "architecture": facts.architecture}
        names.update(parameters=facts.parameters, macs=facts.macs_per_token)
        end = {**self._latency(None), "seconds": {"evaluate": _rounded(seconds)}}
        return {"dense": {**names, **measured, **end}}

    # -- a cell ------------------------------------------------------------------------------------

    def _options(self, cell: Cell, keep: list[Any]) -> Any:
        s, values = cell.settings, self.recipe.choices[cell.choice]
        options = ffi.new("grail_plan_options *")
        keep.append(options)  # its parts do not keep it
        lib.grail_plan_options_init(options)
        o = options.compress
        texts = options_of(values, CHOICES)
        _fill(PLAN, texts, options, keep)
        _fill(COMPRESS, texts, ffi.addressof(o), keep)
        if "limit" in values:
            options.limit = new_text(values["limit"], keep)
        data = self.recipe.calibration[cell.calibration]
        source = self._source(data, keep)
        if data.kind == "text":
            o.read.text = source[0]
        else:
            o.read.images = source
        o.read.session = self.model._session
        o.read.samples, o.read.seed = s.samples, s.seed
        o.cut.selector = new_text(s.selector, keep)
        for kind in values["sites"]:
            lib.grail_compress_sparsity(ffi.addressof(o), kind.encode())[0] = s.sparsity
        o.fit.compensate = new_text(compensation(s.variant), keep)
        o.fit.repair, o.fit.open_loop = int(repairs(s.variant)), int(s.open_loop)
        o.heal.what = new_text(heals(s.variant), keep)
        return options

    def _plans(self, cell: Cell) -> bool:
        values = self.recipe.choices[cell.choice]
        return "limit" in values or "budget" in values

    def bytes_of(self, cell: Cell) -> int:
        """The estimated memory for running and measuring it."""
        keep: list[Any] = []
        o = self._options(cell, keep).compress
        if self._plans(cell):
            o.cut.select = new_text("open", keep)  # statistics of the dense network at all sites
        found = ffi.new("int64_t *")
        model = self.model._model
        check(lib.grail_compress_estimate(model, ffi.addressof(o), found))
        return int(found[0])

    def _plan(self, cell: Cell, options: Any, keep: list[Any]) -> None:
        """Widths that leave the share of the limit that the ratio does not remove."""
        kinds = self.recipe.choices[cell.choice]["sites"]
        options.kinds = new_text(",".join(kinds), keep)
        options.ratio = 1.0 - cell.settings.sparsity
        for kind in kinds:
            field = lib.grail_compress_sparsity(ffi.addressof(options.compress), kind.encode())
            field[0] = 0.0
        made = ffi.new("grail_plan **")
        check(lib.grail_plan_make(options, made))
        keep.append(ffi.gc(made[0], lib.grail_plan_free))
        options.compress.amount.plan_text = lib.grail_plan_text(made[0])

    def cell_line(self, cell: Cell, memory: int) -> Json:
        """Narrows and measures it."""
        keep: list[Any] = []
        options = self._options(cell, keep)
        o = options.compress
        o.run.memory = memory
        with contextlib.ExitStack() as end:
            if self._plans(cell):
                self._plan(cell, options, keep)
            if self.recipe.latency is not None:  # measured as it would be used: written
                directory = end.enter_context(tempfile.TemporaryDirectory(prefix="grail-sweep-"))
                o.output.path = new_text(f"{directory}/cell", keep)
            opened = ffi.new("grail_compression **")
            check(lib.grail_compression_open(ffi.addressof(o), opened))
            end.callback(lib.grail_compression_close, opened[0])
            check(lib.grail_compression_run(opened[0]))
            narrow: Model | None = None
            if self.recipe.latency is not None:
                sealed = ffi.new("const char **")
                check(lib.grail_compression_seal(opened[0], sealed))
                narrow = Model(text_of(sealed[0]) or "", set=self.checkpoint.settings)
            network = None if narrow is None else narrow._model
            measured, seconds = self._measure(network, opened[0] if narrow is None else None)
            line = {"cell": settings_json(cell), **measured, **self._latency(narrow)}
            return {**line, **self._of_run(cell, opened[0], seconds)}

    def _of_run(self, cell: Cell, run: Any, seconds: float) -> Json:
        totals = lib.grail_compression_totals_get(run)
        times = {"calibrate": totals.calibrate_seconds, "compensate": totals.compensate_seconds}
        made: Json = {"parameters": totals.parameters, "macs": totals.macs_per_token}
        made["seconds"] = {key: _rounded(value) for key, value in times.items()}
        made["seconds"]["evaluate"] = _rounded(seconds)
        made.update(peak_bytes=None)
        if cell.settings.variant >= len(FORMS):
            made["healed"] = list(self._healed(run))
            made["seconds"]["heal"] = _rounded(sum(one["seconds"] for one in made["healed"]))
        count = lib.grail_compression_site_count(run)
        made["sites"] = [_site(lib.grail_compression_site(run, i)) for i in range(count)]
        return made

    def _healed(self, run: Any) -> Iterator[Json]:
        training, i = ffi.new("grail_healing *"), 0
        while lib.grail_compression_healing(run, i, training):
            block = training.block if training.block >= 0 else None
            losses = [_rounded(loss) for loss in (training.held_before, training.held_after)]
            one: Json = {"block": block, "steps": training.steps, "held_loss_before": losses[0]}
            yield {**one, "held_loss_after": losses[1], "seconds": _rounded(training.seconds)}
            i += 1


def _site(site: Any) -> Json:
    fits = ("fit_before", "fit_after", "held_before", "held_after")
    errors = {key: _rounded(getattr(site.fit, key)) for key in fits}
    names = {"name": text_of(site.name), "kind": text_of(site.kind)}
    return {**names, "units": site.units, "kept": site.kept, **errors}
