"""The numerics alone, on arrays: sums of activations, the cut, and the fit."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ._native import ffi, lib
from .arrays import Array, check_shape, floats, pointer, view
from .errors import ArgumentError, NumericError, ShapeError, check
from .model import Path
from .options import new_text
from .records import record

__all__ = ["Fitted", "Reducer", "Statistics"]

T = TypeVar("T")

_TARGETS = {
    "usual": lib.GRAIL_FIT_USUAL,
    "local": lib.GRAIL_FIT_LOCAL,
    "dense": lib.GRAIL_FIT_DENSE,
    "mixed": lib.GRAIL_FIT_MIXED,
}
_COPIED = 1 << 22  # elements at once of rows that are no f32, or whose elements are apart
_FALLBACKS = ("none", "lambda raised", "eigenvalues", "bias only", "kept plain")


class Reducer:
    """The map from n units to fewer: some are kept, or all are merged into clusters."""

    def __init__(self, reducer: Any) -> None:
        self._reducer = ffi.gc(reducer, lib.grail_reducer_free)
        self.units: int = lib.grail_reducer_units(reducer)
        self.kept: int = lib.grail_reducer_kept(reducer)
        self.folds: bool = lib.grail_reducer_folds(reducer) != 0
        self.tied: bool = lib.grail_reducer_tied(reducer) != 0

    @classmethod
    def keep(cls, units: int, kept: Sequence[int]) -> Reducer:
        """Keeps these units, in ascending order."""
        made = ffi.new("grail_reducer **")
        chosen = [operator.index(unit) for unit in kept]
        check(lib.grail_reducer_from_selection(units, len(chosen), chosen, made))
        return cls(made[0])

    @classmethod
    def merge(cls, labels: Sequence[int]) -> Reducer:
        """Merges unit j into cluster labels[j]."""
        made = ffi.new("grail_reducer **")
        clusters = [operator.index(label) for label in labels]
        count = max(clusters, default=-1) + 1
        check(lib.grail_reducer_from_labels(len(clusters), count, clusters, made))
        return cls(made[0])

    @property
    def labels(self) -> Any:
        """The place of each unit among the kept, or its cluster; -1: it is removed."""
        labels = np.empty(self.units, np.int64)
        lib.grail_reducer_labels(self._reducer, pointer(labels, "int64_t *"))
        return labels

    @property
    def selection(self) -> Any:
        """The kept units, or those that are merged first into each cluster."""
        labels = self.labels
        return np.array([int(np.argmax(labels == k)) for k in range(self.kept)])

    def narrow(self, rows: Any) -> Any:
        """What makes the units, [n u, ...]: kept rows, or means of merged ones, [K u, ...]."""
        given = floats(rows, "rows")
        features = self._features(given.shape[0] if given.ndim else 0)
        narrow = np.empty((self.kept * features, *given.shape[1:]), np.float32)
        columns = math.prod(given.shape[1:])
        check(
            lib.grail_reducer_narrow_rows(
                self._reducer, 0, features, columns, *_ends(given, narrow)
            )
        )
        return narrow

    def narrow_consumer(self, columns: Any) -> Any:
        """What reads the units, [O, n u, ...], without a fit: kept columns, or sums of merged
        ones."""
        given = floats(columns, "columns")
        if given.ndim < 2:
            raise ShapeError(f"a consumer has two axes or more, not the shape {list(given.shape)}")
        features = self._features(given.shape[1])
        narrow = np.empty((given.shape[0], self.kept * features, *given.shape[2:]), np.float32)
        unit = features * math.prod(given.shape[2:])
        check(
            lib.grail_reducer_merge_columns(
                self._reducer, 0, unit, given.shape[0], *_ends(given, narrow)
            )
        )
        return narrow

    def _features(self, length: int) -> int:
        if length == 0 or length % self.units != 0:
            raise ShapeError(f"an axis of {length} features has no {self.units} units")
        return length // self.units


def _ends(given: Any, made: Any) -> tuple[Any, Any]:
    return pointer(given, "const float *"), pointer(made, "float *")


@dataclass(frozen=True)
class Fitted:
    """A narrowed consumer, [O, K u, ...], the change of its bias, and what the fit did. Errors are
    squared errors divided by the squared target, of the plain cut and of the fit."""

    weight: Any
    bias_change: Any  # None where no bias was fitted
    fallback: str
    alpha: float
    lambda_: float
    condition: float | None
    error_before: float | None
    error_after: float | None
    held_before: float | None
    held_after: float | None
    dense_share: float | None


class Statistics:
    """Second-order sums of what a map reads, over rows that are added: Z[T, width], and with
    `outputs` those of a target Y[T, outputs] that the narrowed map is to aim at."""

    def __init__(self, width: int, outputs: int = 0) -> None:
        made = ffi.new("grail_statistics **")
        check(lib.grail_statistics_create(width, outputs, made))
        self._set(made[0])

    def _set(self, statistics: Any) -> None:
        self._statistics = ffi.gc(statistics, lib.grail_statistics_free)
        self.width: int = lib.grail_statistics_width(statistics)
        self.outputs: int = lib.grail_statistics_outputs(statistics)

    @classmethod
    def load(cls, path: Path) -> Statistics:
        made = ffi.new("grail_statistics **")
        check(lib.grail_statistics_load(new_text(path, []), made))
        statistics = cls.__new__(cls)
        statistics._set(made[0])
        return statistics

    def save(self, path: Path) -> None:
        check(lib.grail_statistics_save(self._statistics, new_text(path, [])))

    def __repr__(self) -> str:
        return f"grail.Statistics({self.width}, {self.outputs}: {self.count} rows)"

    @property
    def count(self) -> int:
        rows: int = lib.grail_statistics_count(self._statistics)
        return rows

    @property
    def weight(self) -> float:
        weight: float = lib.grail_statistics_weight(self._statistics)
        return weight

    def add(self, x: Any, y: Any = None, *, roots: Any = None) -> Statistics:
        """Adds rows: x[..., width], with a target y[..., outputs]; row t counts roots[t]^2 times.
        Arrays of f32 are not copied, others in parts."""
        if (y is None) != (self.outputs == 0):
            raise ShapeError(f"these statistics have {self.outputs} outputs, so y is given or not")
        z = _rows(x, self.width, "x")
        target = None if y is None else _rows(y, self.outputs, "y")
        count = z.shape[0]
        if target is not None and target.shape[0] != count:
            raise ShapeError(f"x has {count} rows, y {target.shape[0]}")
        weights = None if roots is None else np.ascontiguousarray(roots, np.float64)
        if weights is not None:
            check_shape(weights, (count,), "roots")
        rows = [z] if target is None else [z, target]
        step = count if all(map(_is_plain, rows)) else max(1, _COPIED // self.width)
        if count <= step:
            return self._add(rows, slice(0, count), weights)
        sums = Statistics(self.width, self.outputs)  # so that a NaN leaves these as they were
        for first in range(0, count, step):
            try:
                sums._add(rows, slice(first, first + step), weights)
            except NumericError as error:
                text = f"{error.message}, counted from row {first} of x"
                raise NumericError(text, error.fields) from None
        return self.__iadd__(sums)

    def _add(self, given: Sequence[Array], part: slice, weights: Any) -> Statistics:
        roots = None if weights is None else weights[part]
        plain = [_plain(rows, part) for rows in given]
        arrays = [pointer(roots, "const double *")]
        for rows in plain:
            arrays += [pointer(rows, "const float *"), _stride(rows)]
        if len(plain) == 1:
            arrays += [ffi.NULL, 0]
        check(lib.grail_statistics_accumulate_weighted(self._statistics, len(plain[0]), *arrays))
        return self

    def __iadd__(self, other: Statistics) -> Statistics:
        added = _of(Statistics, other, "what is added")
        check(lib.grail_statistics_add(self._statistics, added._statistics))
        return self

    def sums(self) -> dict[str, Any]:
        """All sums in f64: gram [H, H], sum [H], and with a target cross [O, H], target_sum and
        target_square [O]."""
        shapes = {"gram": (self.width, self.width), "sum": (self.width,)}
        if self.outputs > 0:
            shapes["cross"] = (self.outputs, self.width)
            shapes["target_sum"] = shapes["target_square"] = (self.outputs,)
        found = {name: np.empty(shape) for name, shape in shapes.items()}
        sums = ffi.new("grail_sums *", {name: pointer(a, "double *") for name, a in found.items()})
        check(lib.grail_statistics_get(self._statistics, sums))
        return found

    @property
    def gram(self) -> Any:
        return self.sums()["gram"]

    @property
    def mean(self) -> Any:
        return self.sums()["sum"] / (self.weight or 1.0)

    def select(
        self,
        kept: int,
        *,
        consumer: Any,
        producers: Sequence[Any] = (),
        units: int | None = None,
        selector: str = "obs",
        kind: str | None = None,
        groups: int = 1,
        bias: bool = False,
        target: str = "usual",
        seed: int = 0,
        held: Statistics | None = None,
        input_norms: Any = None,
    ) -> Reducer:
        """Chooses the units that stay, or merges them, by a selector as a run does. `consumer` is
        the map that reads them, [O, n u, ...]; `producers` are those that make them, [n u, ...],
        or pairs of such a weight and its bias. `units` is n, where a unit has several features;
        `kind` that of the site, such as "heads", usually "conv" or "ffn" by the consumer's axes.
        "wanda" of convolutions needs input_norms, of what the first producer reads."""
        keep: list[Any] = []
        weight = floats(consumer, "consumer")
        if weight.ndim < 2:
            raise ShapeError(f"a consumer has two axes or more, not {list(weight.shape)}")
        count = weight.shape[1] if units is None else units
        if count < 1 or weight.shape[1] % count != 0:
            raise ShapeError(f"{weight.shape[1]} features are not {count} units")
        site = ffi.new("grail_site *")
        lib.grail_site_init(site)
        site.kind = new_text(kind or ("conv" if weight.ndim > 2 else "ffn"), keep)
        site.units, site.groups = count, groups
        site.bias, site.seed, site.target = int(bias), seed, _target(target)
        columns = ffi.new("grail_unit_columns *")
        columns.weight, columns.outputs = pointer(weight, "const float *"), weight.shape[0]
        columns.features_per_unit = weight.shape[1] // count
        columns.positions = math.prod(weight.shape[2:])
        columns.fit = self._statistics
        columns.held = ffi.NULL if held is None else _of(Statistics, held, "held")._statistics
        site.consumers, site.consumer_count = columns, 1
        rows = ffi.new("grail_unit_rows[]", len(producers) or 1)
        for row, producer in zip(rows, producers):
            _fill_producer(row, producer, count, keep)
        site.producers, site.producer_count = rows, len(producers)
        if input_norms is not None:
            norms = np.ascontiguousarray(input_norms, np.float64)
            if not producers or norms.shape != np.shape(_weight(producers[0]))[1:2]:
                raise ShapeError("input_norms has one number for each input of the first producer")
            site.input_norms = pointer(norms, "const double *")
        made = ffi.new("grail_reducer **")
        names = {"fit": "consumer", "first_scored": "producers"}
        check(lib.grail_select(new_text(selector, keep), site, kept, made), names)
        return Reducer(made[0])

    def fold(self, kept: int, **options: Any) -> Reducer:
        """Merges the units into `kept` clusters; takes what select() takes."""
        return self.select(kept, selector="fold", **options)

    def fit(
        self,
        consumer: Any,
        reducer: Reducer | None = None,
        *,
        held: Statistics | None = None,
        compensate: str = "full",
        selector: str | None = None,
        bias: bool = False,
        alpha: float | str | None = None,
        target: str | None = None,
    ) -> Fitted:
        """Fits the narrowed consumer of a reducer to what the dense one gave, or without a reducer
        a map that was not cut to the target. `compensate` is "full", "grail" (the paper), or "own"
        of a selector; `bias`: the map can store one; `held` are statistics of rows that were held
        out, which alpha "cv" needs. `target` is "usual" (of the statistics, where they have one),
        "local", "dense" or "mixed"."""
        weight = floats(consumer, "consumer")
        if weight.ndim < 2:
            raise ShapeError(f"a consumer has two axes or more, not {list(weight.shape)}")
        options = self._fit_options(compensate, selector, bias, alpha, target, held)
        outputs, features, positions = weight.shape[0], weight.shape[1], math.prod(weight.shape[2:])
        unit = 1 if reducer is None else _of(Reducer, reducer, "reducer")._features(features)
        narrow = features if reducer is None else reducer.kept * unit
        is_shared = positions > 1 and self.width == features  # one map for all kernel positions
        if self.width not in (features, features * positions):
            raise ShapeError(f"consumer reads {features} features, these have {self.width}")
        rows, count = outputs, narrow * positions
        if is_shared:
            weight = weight.reshape(outputs, features, positions).swapaxes(1, 2)
            weight = np.ascontiguousarray(weight)
            rows, count = outputs * positions, narrow
        fitted = np.empty((rows, count), np.float32)
        change = np.zeros(rows) if options.bias != 0 else None
        result = ffi.new("grail_compensate_result *")
        check(
            lib.grail_compensate(
                self._statistics,
                ffi.NULL if held is None else _of(Statistics, held, "held")._statistics,
                ffi.NULL if reducer is None else reducer._reducer,
                unit if is_shared or reducer is None else unit * positions,
                rows,
                pointer(weight, "const float *"),
                options,
                pointer(fitted, "float *"),
                pointer(change, "double *"),
                result,
            )
        )
        if is_shared:
            fitted = fitted.reshape(outputs, positions, narrow).swapaxes(1, 2)
            change = None if change is None else change.reshape(outputs, positions).sum(1)
        shape = (outputs, narrow, *np.shape(view(consumer, "consumer").values)[2:])
        return record(
            Fitted,
            result,
            weight=np.ascontiguousarray(fitted).reshape(shape),
            bias_change=change,
            fallback=_FALLBACKS[result.fallback],
            lambda_=getattr(result, "lambda"),
        )

    def _fit_options(
        self,
        compensate: str,
        selector: str | None,
        bias: bool,
        alpha: float | str | None,
        target: str | None,
        held: Statistics | None,
    ) -> Any:
        keep: list[Any] = []
        options = ffi.new("grail_compensate_options *")
        name = ffi.NULL if selector is None else new_text(selector, keep)
        named = lib.grail_compensate_options_named(new_text(compensate, keep), name, bias, options)
        check(named)
        if target is not None or self.outputs == 0:
            options.target = _target(target or "usual")
        if alpha == "cv" and held is None:
            raise ArgumentError("alpha 'cv' needs held, statistics of rows held out", ("alpha",))
        if alpha is not None:
            options.cross_validate = int(alpha == "cv")
        if alpha is not None and alpha != "cv":
            options.alpha = float(alpha)
        if alpha is None and held is None:
            options.cross_validate = 0
        return options


def _target(target: str) -> int:
    if target not in _TARGETS:
        raise ArgumentError(f"target takes {', '.join(_TARGETS)}, not '{target}'", ("target",))
    number: int = _TARGETS[target]
    return number


def _weight(producer: Any) -> Any:
    """A weight, or that of a pair of it and its bias."""
    return floats(producer[0] if isinstance(producer, tuple) else producer, "a producer")


def _fill_producer(row: Any, producer: Any, units: int, keep: list[Any]) -> None:
    rows, bias = _weight(producer), producer[1] if isinstance(producer, tuple) else None
    if rows.ndim == 0 or rows.shape[0] % units != 0:
        raise ShapeError(f"a producer of the shape {list(rows.shape)} does not make {units} units")
    keep.append(rows)
    row.weight, row.columns = pointer(rows, "const float *"), math.prod(rows.shape[1:])
    row.features_per_unit = rows.shape[0] // units
    row.positions = math.prod(rows.shape[2:])
    if bias is not None:
        keep.append(floats(bias, "a bias"))
        check_shape(keep[-1], (rows.shape[0],), "the bias of a producer")
        row.bias = pointer(keep[-1], "const float *")


def _of(kind: type[T], value: T, what: str) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{what} is a grail.{kind.__name__}, not {type(value).__name__}")
    return value


def _rows(array: Any, width: int, what: str) -> Array:
    found = view(array, what)
    if not found.shape or found.shape[-1] != width:
        raise ShapeError(f"{what} has the shape {list(found.shape)}; its last axis is {width}")
    rows = found.values.reshape(-1, width)
    return Array(found.dtype, rows.shape, rows, found.owner)


def _is_plain(rows: Array) -> bool:
    """Rows of f32 whose elements are neighbours."""
    step, size = rows.values.strides
    is_in_order = size == 4 and step % 4 == 0 and step >= 4 * rows.shape[1]
    return rows.dtype == "F32" and is_in_order and bool(rows.values.flags.aligned)


def _plain(rows: Array, part: slice) -> Any:
    """Some rows as such: themselves, or a copy."""
    some = rows.values[part]
    if _is_plain(rows):
        return some
    return np.require(Array(rows.dtype, some.shape, some, None).floats(), np.float32, ["C", "A"])


def _stride(rows: Any) -> int:
    return int(max(rows.strides[0] // 4, rows.shape[1]))
