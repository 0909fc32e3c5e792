"""Measuring: perplexity, accuracy, and how two networks differ."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Union

from ._native import ffi, lib
from .errors import ArgumentError, UnsupportedError, check, warn
from .model import Model, Path, at_work, inspect, settle_backend
from .options import COMPRESS, FIELDS, IMAGES, TEXT, Given, named, new_backend, new_text
from .records import Accuracy, Answer, Comparison, OutputComparison, Perplexity, record
from .samples import Samples
from .watch import Progress, Watch

__all__ = ["Quality", "eval", "verify"]

_COMPUTE = named(COMPRESS, "backend", "precision")

Measure = Union[Perplexity, Accuracy, Comparison]


@dataclass(frozen=True)
class Quality:
    """The dense network, what was before the repair, and the result, on the same samples. `before`
    is the plain cut (None where units were folded), or what was healed. Networks of images that are
    no classifiers, or whose images have no classes, are compared with the dense one, which has no
    measure of its own then. A model with a chat template also answers questions, dense and narrow.
    """

    dense: Measure | None
    before: Measure | None
    result: Measure
    answers: tuple[tuple[Answer, Answer], ...] = ()

    @property
    def seen(self) -> str:
        """What the samples hold of those that a network was calibrated on; "": nothing."""
        measures = [one for one in (self.dense, self.before, self.result) if one is not None]
        most = max(measures, key=_seen_share)
        share = _seen_share(most)
        if isinstance(most, Accuracy) and 0 < most.overlap_images < most.images:
            return _some_images(most.overlap_images, most.images)
        if isinstance(most, Comparison) and 0 < most.overlap_runs < most.compared:
            return _some_images(most.overlap_runs, most.compared)
        found = most.overlap_images if isinstance(most, Accuracy) else 0
        found = most.overlap_runs if isinstance(most, Comparison) else found
        if share >= 1.0 or found > 0:
            return "the network was calibrated on this data, so it says little about other data"
        if share > 0.0:
            return (
                f"{100 * share:.1f} % of the recorded calibration text is in this data, so it says "
                "less about other data"
            )
        return ""


def _some_images(found: int, measured: int) -> str:
    return (
        f"the network was calibrated on {found} of the {measured} images, "
        "so it says less about other images"
    )


def _seen_share(measured: Measure) -> float:
    """The share of the recorded calibration samples that was measured on."""
    if isinstance(measured, Accuracy):
        found, recorded = measured.calibration_found, measured.calibration_images
    else:
        found, recorded = measured.overlap_runs, measured.calibration_runs
    of_images = isinstance(measured, (Accuracy, Comparison))
    if measured.is_calibration and not (of_images and recorded > 0):
        return 1.0
    return found / recorded if recorded > 0 else 0.0


def compare_outputs(
    dense: Model,
    narrow: Model,
    source: Any,
    most: int,
    compute: Any,
    watch: Watch,
    *,
    of_cut: bool,
) -> Comparison:
    count = dense.facts.outputs
    outputs = ffi.new("grail_output_comparison[]", count)
    out = ffi.new("grail_comparison *")
    settings = (source, most, compute, lib.grail_eval_observed, watch.handle)
    networks = (dense._model, narrow._model, int(of_cut))
    watch.check(lib.grail_verify_outputs(*networks, *settings, outputs, out), path="data")
    each = tuple(record(OutputComparison, outputs[i]) for i in range(count))
    return record(Comparison, out, outputs=each)


class _Compute:
    """A grail_compute of the options that a function has."""

    def __init__(self, given: Given, usual: str | None) -> None:
        self.keep: list[Any] = []
        self.struct = ffi.new("grail_compute *")
        for name, text in {"backend": "cpu", "precision": usual, **given.texts}.items():
            if name in ("backend", "precision") and text is not None:
                new = new_backend if name == "backend" else new_text
                setattr(self.struct, name, new(text, self.keep))


@dataclass
class Evaluation:
    """What is measured: all samples of some kind, or `most` of them."""

    samples: Samples
    windows: int | None
    images: int | None

    @classmethod
    def of(
        cls, data: Any, like: Samples | None, windows: int | None, images: int | None
    ) -> Evaluation | None:
        """The samples of an argument; a path is read as `like` is."""
        if data is None:
            if windows is not None or images is not None:
                raise TypeError("windows and images are of eval, and without it have no effect")
            return None
        if not isinstance(data, Samples) and like is not None:
            texts = {name: text for name, text in like.given.texts.items() if name != "split"}
            given = Given("eval", TEXT + IMAGES, {}, {"eval": data})
            given.texts.update(texts)
            data = Samples.of(data, given)
        elif not isinstance(data, Samples):
            data = Samples.of(data, Given("eval", (), {}))
        return cls(data, windows, images)

    def _most(self, of_images: bool) -> int:
        most, other = (self.images, self.windows) if of_images else (self.windows, self.images)
        names = ("images", "windows") if of_images else ("windows", "images")
        if other is not None:
            raise ArgumentError(f"{names[1]} applies only to networks that read them", (names[1],))
        if most is not None and (isinstance(most, bool) or most < 1):
            raise ArgumentError(f"{names[0]} takes an integer of at least 1, not {most}", names[:1])
        return most or 0

    def _source(self, model: Model, keep: list[Any]) -> Any:
        if len(self.samples.parts) != 1:
            raise ArgumentError("give one path to measure on")
        source = ffi.new("grail_text_source *")
        self.samples.fill_text(model, source[0], keep)
        return source

    def _images(self, model: Model, keep: list[Any]) -> Any:
        opened = ffi.new("grail_images **")
        source = self.samples.new_images(keep)
        check(lib.grail_images_open(model._model, source, opened), {**FIELDS, "path": "data"})
        return ffi.gc(opened[0], lib.grail_images_close)

    def _compares(self, model: Model) -> bool:
        """Whether outputs are compared with the dense network's: of no classifier, or of images
        without classes."""
        facts = model.facts
        if not facts.reads_images:
            return False
        images = self._images(model, [])
        return facts.classes < 2 or facts.outputs > 1 or lib.grail_images_labelled(images) == 0

    def check(self, model: Model) -> None:
        """Reads and checks the samples, before a long run."""
        keep: list[Any] = []
        self.samples.check(model)
        most = self._most(model.facts.reads_images)
        if self._compares(model):
            return
        if model.facts.reads_images:
            accuracy = ffi.new("grail_accuracy *")
            images = self._images(model, keep)
            check(lib.grail_accuracy_describe(model._model, images, most, accuracy), FIELDS)
        else:
            found = ffi.new("grail_perplexity *")
            source = self._source(model, keep)
            check(lib.grail_perplexity_describe(model._model, source, most, found), FIELDS)

    def measure(
        self, model: Model, compute: Any, watch: Watch, cut: Model | None = None
    ) -> Measure:
        """The model, or with `cut` that model without the units that `cut` has lost."""
        self.samples.check(model)
        keep: list[Any] = []
        is_image = model.facts.reads_images
        networks = [model._model] if cut is None else [model._model, cut._model]
        data = self._images(model, keep) if is_image else self._source(model, keep)
        out = ffi.new("grail_accuracy *" if is_image else "grail_perplexity *")
        call = getattr(
            lib,
            ("grail_accuracy_" if is_image else "grail_perplexity_")
            + ("measure" if cut is None else "of_cut"),
        )
        arguments = (data, self._most(is_image), compute, lib.grail_eval_observed, watch.handle)
        watch.results = []
        watch.check(call(*networks, *arguments, out), path="data")
        if is_image:
            return record(Accuracy, out)
        return record(Perplexity, out, window_nll=tuple(watch.results))

    def compare(
        self, dense: Model, narrow: Model, compute: Any, watch: Watch, *, of_cut: bool
    ) -> Comparison:
        """The outputs of a narrow network beside those of the dense one; with `of_cut` those of
        the dense one without the units that the narrow one has lost."""
        self.samples.check(dense)
        keep: list[Any] = []
        source = self.samples.new_images(keep)
        call = (dense, narrow, source, self._most(True), compute, watch)
        return compare_outputs(*call, of_cut=of_cut)

    def _ask(self, model: Model, compute: Any, watch: Watch) -> list[Answer]:
        """Questions to a model that answers."""
        keep: list[Any] = []
        out = ffi.new("grail_answers *")
        source = self._source(model, keep)
        call = (model._model, source, compute, lib.grail_eval_observed, watch.handle, out)
        watch.check(lib.grail_answers_measure(*call))
        if notice := ffi.string(out.notice).decode(errors="replace"):
            warn(f"eval: {notice}")
        return [record(Answer, out.items[i]) for i in range(out.count)]

    def measure_result(self, result: Model, request: Any) -> Quality:
        """Measures the result of a run and the networks that it came from."""
        watch: Watch = request.watch
        model: Model = request.model
        compute = ffi.new("grail_compute *")
        compute.backend = request.options.run.backend
        compute.precision = request.options.run.precision
        teacher = request.options.heal.teacher
        healed = teacher != ffi.NULL
        dense = Model(os.fsdecode(ffi.string(teacher)), set=model.set) if healed else model

        compared = self._compares(dense)

        def measured(network: str, *networks: Model) -> Measure:
            watch.network = network
            if compared:
                narrow, of_cut = networks[-1], len(networks) > 1
                return self.compare(dense, narrow, compute, watch, of_cut=of_cut)
            return self.measure(networks[0], compute, watch, *networks[1:])

        of_dense = None if compared else measured("dense", dense)
        before: Measure | None
        try:
            before = measured("narrow", model) if healed else measured("plain cut", dense, result)
        except UnsupportedError:  # folded: the cut alone is no network of its own
            before = None
        of_result = measured("result", result)
        answers: tuple[tuple[Answer, Answer], ...] = ()
        if isinstance(of_result, Perplexity):
            said = [self._ask(network, compute, watch) for network in (dense, result)]
            answers = tuple(zip(*said))
        quality = Quality(of_dense, before, of_result, answers)
        if seen := quality.seen:
            warn(f"eval: {seen}")
        return quality


def _row(what: str, measured: Measure | None) -> str:
    if measured is None:
        return ""
    if isinstance(measured, Accuracy):
        return f"| {what} | {100 * measured.top1:.2f} +- {100 * measured.interval:.2f} |\n"
    if isinstance(measured, Comparison):
        worst = (measured.worst or "output").replace("`", "'")
        same = measured.top1_agreement
        share = "" if same is None else f" {100 * same:.1f} |"
        return f"| {what} | {measured.relative_error:.4g} | `{worst}` |{share}\n"
    return f"| {what} | {measured.perplexity:.4f} +- {measured.error:.4f} |\n"


def _answers(quality: Quality) -> str:
    if not quality.answers:
        return ""
    right = [sum(answer.is_right for answer in said) for said in zip(*quality.answers)]
    text = f"\nAnswers, of which {right[0]} of the dense network and {right[1]} of this one are "
    text += "right:\n\n"
    for before, after in quality.answers:
        text += f"- {before.question}\n"
        for network, answer in (("dense network", before), ("this network", after)):
            said = " ".join(answer.text.split()).replace("`", "'") or "(nothing)"
            text += f"  - {network}: `{said}`\n"
    return text


def card(path: str, quality: Quality, healed: bool) -> bytes:
    """The section of a model card."""
    measure = "top-1 accuracy, %" if isinstance(quality.result, Accuracy) else "perplexity"
    columns = f"| | {measure} |\n|---|---|\n"
    if isinstance(quality.result, Comparison):
        columns = "| | relative error | output |\n|---|---|---|\n"
        if quality.result.top1_agreement is not None:
            columns = "| | relative error | output | same class, % |\n|---|---|---|---|\n"
    name = os.path.basename(path.rstrip("/")).replace("`", "'")
    before = "before it was healed" if healed else "the same units removed, nothing repaired"
    text = (
        f"On `{name}`:\n\n{columns}"
        + _row("dense network", quality.dense)
        + _row(before, quality.before)
        + _row("this network", quality.result)
        + _answers(quality)
        + (f"\nNote: {quality.seen}.\n" if quality.seen else "")
    )
    return text.encode()


def eval(
    model: Model | Path,
    data: Samples | Path,
    *,
    windows: int | None = None,
    images: int | None = None,
    set: Mapping[str, Any] | None = None,
    threads: int | None = None,
    progress: Progress = None,
    **options: Any,
) -> Measure:
    """The perplexity of a model that reads text, or the accuracy of one that reads images. The
    options are those of `grail eval`."""
    given = Given("eval", TEXT + IMAGES + _COMPUTE, options, {"data": data, "windows": windows})
    opened = inspect(model, set=set) if set else inspect(model)
    compute = _Compute(given, "auto")
    with at_work(opened, threads, progress) as watch:
        settle_backend(opened, compute.struct)
        samples = Samples.of(data, given)
        measured = Evaluation(samples, windows, images).measure(opened, compute.struct, watch)
        opened._notices_of_run(not samples.has_preset)
        return measured


def verify(
    dense: Model | Path,
    narrow: Model | Path,
    data: Samples | Path | None = None,
    *,
    windows: int | None = None,
    images: int | None = None,
    set: Mapping[str, Any] | None = None,
    threads: int | None = None,
    **options: Any,
) -> Comparison:
    """How the outputs of a narrow model differ from those of its dense model, on samples or on
    random ones. The options are those of `grail verify`."""
    table = named(TEXT, "field", "protocol", "context") + IMAGES + _COMPUTE
    given = Given("verify", table, options, {"data": data})
    first = inspect(dense, set=set) if set else inspect(dense)
    second = inspect(narrow, set=set) if set else inspect(narrow)
    compute = _Compute(given, None)
    out = ffi.new("grail_comparison *")
    keep: list[Any] = []
    if data is None and not (windows is None and images is None):
        raise TypeError("windows and images are of data, and without it have no effect")
    one, other = sorted((first, second), key=id)  # so that two calls cannot wait for each other
    with one._lock, other._lock, at_work(first, threads) as watch:
        settle_backend(first, compute.struct)
        is_image = first.facts.reads_images
        source = ffi.new("grail_image_source *" if is_image else "grail_text_source *")
        most = 256 if is_image else 4
        if data is not None:
            samples = Samples.of(data, given)
            samples.check(first)
            evaluation = Evaluation(samples, windows, images)
            most = evaluation._most(is_image) or most
            source = samples.new_images(keep) if is_image else evaluation._source(first, keep)
        if is_image:
            call = (first, second, source, most, compute.struct, watch)
            return compare_outputs(*call, of_cut=False)
        settings = (source, most, compute.struct, lib.grail_eval_observed, watch.handle)
        status = lib.grail_verify(first._model, second._model, *settings, out)
        watch.check(status, path="data")
        return record(Comparison, out, outputs=())
