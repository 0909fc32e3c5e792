"""Results of the library as frozen dataclasses. Their fields have the names of the C structs in
include/grail, which say what they mean; what was not measured is None."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, TypeVar

from ._native import ffi
from .errors import ArgumentError
from .options import text_of

__all__ = ["Accuracy", "Answer", "Comparison", "CutSite", "Difference", "Facts", "Fit", "Forecast"]
__all__ += ["GgufFile", "GramFile", "Healing", "Loader", "OnnxFile", "OutputComparison"]
__all__ += ["Perplexity", "Plan", "Preparation", "Region", "Site", "Step", "Totals", "Trial"]

T = TypeVar("T")


def record(kind: type[T], struct: Any, **others: Any) -> T:
    """The dataclass with the values of a struct, but for `others`."""
    values = dict(others)
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        if field.name not in values:
            values[field.name] = _value(getattr(struct, field.name), str(field.type))
    return kind(**values)


def _value(value: Any, annotation: str) -> Any:
    if isinstance(value, ffi.CData):
        if "str" in annotation:
            return text_of(value)
        return tuple(value)
    if "bool" in annotation:
        return value != 0
    if annotation == "float | None" and math.isnan(value):
        return None
    return value


@dataclass(frozen=True)
class Facts:
    """What a model is."""

    directory: str
    architecture: str
    dtype: str
    parameters: int
    bytes: int
    macs_per_token: int
    kv_bytes_per_token: int
    blocks: int
    vocabulary: int
    context: int
    reads_images: bool
    image_side: int
    image_width: int
    channels: int
    preset: str | None
    classes: int
    outputs: int
    inputs: int
    gives_features: bool
    activation: str | None


@dataclass(frozen=True)
class Site:
    """A place where width can be cut."""

    name: str
    kind: str
    block: int
    units: int
    features_per_unit: int
    width: int
    groups: int
    outputs: int
    parameters_per_unit: int


@dataclass(frozen=True)
class Region:
    """Nodes of an ONNX file that are left to ONNX Runtime: the first one, and why."""

    node: str
    reason: str
    nodes: int
    channels: int


@dataclass(frozen=True)
class Preparation:
    """How a model's images are prepared."""

    preset: str
    origin: str | None
    edges: str | None
    resize: int
    crop: int
    interpolation: str | None
    rescale: float
    mean: tuple[float, ...]
    deviation: tuple[float, ...]


@dataclass(frozen=True)
class Fit:
    """How well a consumer fits. Errors are squared errors divided by the squared target."""

    consumer: str | None
    alpha: float | None
    lambda_: float | None
    condition: float | None
    fit_before: float | None
    fit_after: float | None
    held_before: float | None
    held_after: float | None
    dense_share: float | None
    fallback: str
    bias: bool

    @classmethod
    def of(cls, fit: Any) -> Fit:
        return record(cls, fit, lambda_=_value(getattr(fit, "lambda"), "float | None"))


@dataclass(frozen=True)
class CutSite:
    """What happened at a site, or would."""

    name: str
    kind: str
    selector: str
    block: int
    units: int
    kept: int
    width: int
    narrow: int
    parameters_per_unit: int
    tied: bool
    gone: bool
    removed: tuple[int, ...]
    unreached: tuple[int, ...]
    fit: Fit
    fits: tuple[Fit, ...]
    seconds: float
    solve_seconds: float

    @classmethod
    def of(cls, site: Any) -> CutSite:
        return record(
            cls,
            site,
            removed=tuple(site.removed[0 : site.removed_count]),
            unreached=tuple(site.unreached[0 : site.unreached_count]),
            fit=Fit.of(site.fit),
            fits=tuple(Fit.of(site.fits[i]) for i in range(site.fit_count)),
        )


@dataclass(frozen=True)
class Healing:
    """A training that goes on from the closed form."""

    block: int
    last_block: int
    blocks: int
    steps: int
    most_steps: int
    best_step: int
    held_before: float | None
    held_after: float | None
    seen_before: float | None
    seen_after: float | None
    seconds: float
    seconds_left: float | None
    ended: bool
    region: int
    streamed: bool


@dataclass(frozen=True)
class Totals:
    """Sizes of the dense and of the narrowed network, and what was read."""

    dense: Facts
    parameters: int
    bytes: int
    macs_per_token: int
    kv_bytes_per_token: int
    samples: int
    context: int
    calibration_tokens: int
    blocks_done: int
    precision: str
    samples_at_once: int
    drawn_samples: int
    shortfall: str
    calibrate_seconds: float
    compensate_seconds: float


@dataclass(frozen=True)
class Loader:
    """Whether a library opens the result, and why or why not."""

    name: str
    loads: bool
    reason: str


@dataclass(frozen=True)
class Forecast:
    """What a run would take."""

    seconds: float
    heal_seconds: float
    draw_seconds: float
    bytes: int
    samples: int


@dataclass(frozen=True)
class Phase:
    """A part of a time that was divided; without seconds it is left out."""

    name: str
    seconds: float
    samples: int
    tokens: int
    steps: int
    step_samples: int
    trials: int
    would_take: float


@dataclass(frozen=True)
class Schedule:
    """What an effort has chosen, and how a time was divided."""

    effort: str
    choices: str
    time: float
    measured: float
    expected: float
    resumed: bool
    phases: tuple[Phase, ...] = ()


@dataclass(frozen=True)
class Trial:
    """A trial of a search of widths."""

    name: str
    is_alone: bool
    cost: float
    divergence: float | None
    is_best: bool
    tried: int
    most: int
    seconds_left: float


@dataclass(frozen=True)
class Step:
    """Where a call is. `what` is "site" when a site is done, "block" when a block is, "step" within
    one, "training" of a healing, "trial" of a search, or "measure"; `done` is the part of the
    block, or of what is measured."""

    what: str
    block: int = 0
    blocks: int = 0
    done: float = 0.0
    seconds_left: float | None = None
    site: CutSite | None = None
    training: Healing | None = None
    trial: Trial | None = None
    network: str = ""  # that is measured


@dataclass(frozen=True)
class Plan:
    """Widths that were chosen together. `text` is the plan document; compress() takes a Plan."""

    text: str
    budget: str
    limit: str
    formula: str
    dense_cost: float
    cost: float
    most: float
    divergence: float | None
    uniform_divergence: float | None
    uniform_cost: float | None
    tried: int
    trials: int
    stands_in: bool
    seconds: float
    pass_seconds: float
    curve_seconds: float
    reason: str
    ahead: float | None
    ahead_error: float | None

    @property
    def json(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.text)
        return document


@dataclass(frozen=True)
class Perplexity:
    """A perplexity and everything needed to compare it with another."""

    perplexity: float
    mean_nll: float
    error: float
    windows: int
    context: int
    stride: int
    scored_tokens: int
    stream_tokens: int
    text_sha256: str
    tokenizer_sha256: str
    dtype: str
    precision: str
    protocol: str
    overlap_runs: int
    calibration_runs: int
    is_calibration: bool
    window_nll: tuple[float, ...] = dataclasses.field(repr=False)

    def against(self, other: Perplexity) -> Difference:
        """The difference from another model on the same windows of the same tokens."""
        for name in ("text_sha256", "tokenizer_sha256", "windows", "context", "protocol"):
            own, others = getattr(self, name), getattr(other, name)
            if own != others:
                text = f"measures of the same windows can be compared; {name} is {own} and {others}"
                raise ArgumentError(text, (name,))
        apart = [a - b for a, b in zip(self.window_nll, other.window_nll)]
        error = stdev(apart) / math.sqrt(len(apart)) if len(apart) > 1 else None
        return Difference(fmean(apart), error)


@dataclass(frozen=True)
class Difference:
    """How far the mean NLL of windows is apart, with its standard error, which is smaller than each
    one's."""

    mean_nll: float
    error: float | None


@dataclass(frozen=True)
class Accuracy:
    """An accuracy and everything needed to compare it with another."""

    top1: float
    top5: float | None
    interval: float
    low: float
    high: float
    mean_nll: float
    images: int
    classes: int
    data_classes: int
    side: int
    preset: str
    data_sha256: str
    class_notice: str
    dtype: str
    precision: str
    seconds: float
    images_per_second: float
    calibration_images: int
    calibration_found: int
    overlap_images: int
    is_calibration: bool


@dataclass(frozen=True)
class OutputComparison:
    """How one output of two networks differs on the same images."""

    name: str | None
    relative_error: float
    max_abs: float
    mean_kl: float | None
    is_zero: bool


@dataclass(frozen=True)
class Answer:
    """A question whose answer can be checked, and what a network says."""

    question: str
    expected: str
    is_right: bool
    text: str


@dataclass(frozen=True)
class Comparison:
    """How two networks' outputs differ on the same samples."""

    max_abs: float
    mean_kl: float | None
    max_kl: float | None
    top1_agreement: float | None
    compared: int
    overlap_runs: int
    calibration_runs: int
    is_calibration: bool
    relative_error: float | None
    mean_cosine: float | None
    least_cosine: float | None
    pooled: int
    identity_checked: bool
    identity_max_abs: float
    norm_is_cut: bool
    worst: str | None
    outputs: tuple[OutputComparison, ...]


@dataclass(frozen=True)
class GramFile:
    """A file of statistics."""

    matrices: int
    grams: int
    samples: int
    context: int
    bytes: int


@dataclass(frozen=True)
class GgufFile:
    """A GGUF file, or a directory of compressed-tensors."""

    architecture: str | None
    type: str | None
    table: str | None
    group: int
    tensors: int
    bytes: int
    others: int
    shortfall: str


@dataclass(frozen=True)
class OnnxFile:
    """An ONNX file."""

    side: int
    outputs: int
    bytes: int
    split: bool
    converted: bool
