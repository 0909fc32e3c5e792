"""Measured values with their 95 % intervals (docs/numerics.md, Intervals of the report)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Callable, NamedTuple

import numpy as np

from ..results import NAN, Outcomes

NORMAL_975 = 1.959963984540054
STUDENT_975 = [
    *(12.706205, 4.302653, 3.182446, 2.776445, 2.570582),
    *(2.446912, 2.364624, 2.306004, 2.262157, 2.228139),
]


def _hypot(x: float, y: float) -> float:
    return float(np.hypot(x, y))  # that of the C library in every Python


class Spread(NamedTuple):
    """Mean and range of the values that are not NaN; all NaN when count is 0."""

    mean: float = NAN
    least: float = NAN
    most: float = NAN
    known: int = 0


def spread(values: Iterable[float]) -> Spread:
    known = [value for value in values if not math.isnan(value)]
    mean = known[0] if known else NAN
    for i, value in enumerate(known[1:], 2):
        mean += (value - mean) / i
    return Spread(mean, min(known), max(known), len(known)) if known else Spread()


class Estimate(NamedTuple):
    """All NaN where nothing was measured; low and high are NaN where the interval is unknown."""

    value: float = NAN
    low: float = NAN
    high: float = NAN

    @property
    def is_known(self) -> bool:
        return not math.isnan(self.value)

    @property
    def has_interval(self) -> bool:
        return not math.isnan(self.low) and not math.isnan(self.high)

    def map(self, change: Callable[[float], float]) -> Estimate:
        return Estimate(*map(change, self))

    def within(self, least: float, most: float) -> Estimate:
        if not self.has_interval:
            return self
        return self._replace(low=max(self.low, least), high=min(self.high, most))

    def minus(self, other: Estimate) -> Estimate:
        """A bound: outcomes on the same samples agree more. Newcombe 1998, method 10."""
        value = self.value - other.value
        down = _hypot(self.value - self.low, other.high - other.value)
        up = _hypot(self.high - self.value, other.value - other.low)
        return Estimate(value, value - down, value + up)

    def is_above(self, other: Estimate) -> bool:
        return self.low > other.high  # False where either is NaN


def of_share(share: float, count: float, half: float) -> Estimate:
    """The interval of `count` samples (Wilson 1927), or without a count that of a half width."""
    if math.isnan(share):
        return Estimate()
    if not count >= 1:
        return Estimate(share, share - half, share + half).within(0, 1)
    z, hits = NORMAL_975, share * count
    p = hits / count
    scale = 1 / (1 + z * z / count)
    centre = scale * (p + z * z / (2 * count))
    reach = p * (1 - p) / count + z * z / (4 * count * count)
    half = scale * z * math.sqrt(max(reach, 0))
    low, high = centre - half if hits > 0 else 0.0, centre + half if hits < count else 1.0
    return Estimate(share, low, high).within(0, 1)


def of_error(value: float, error: float) -> Estimate:
    """The 95 % reach of a standard error."""
    return Estimate(value, value - NORMAL_975 * error, value + NORMAL_975 * error)


def student_975(freedom: int) -> float:
    """A quantile of Student's distribution: a table, then the expansion of Cornish and Fisher."""
    if freedom <= len(STUDENT_975):
        return STUDENT_975[freedom - 1]
    z, n = NORMAL_975, float(freedom)
    first = (z**3 + z) / (4 * n)
    second = (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n * n)
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n * n * n)
    return z + first + second + third


def _reach(values: Sequence[float], mean: float) -> float:
    squares, count = 0.0, len(values)
    for value in values:
        squares += (value - mean) * (value - mean)
    return student_975(count - 1) * math.sqrt(squares / (count - 1.0) / count)


def of_runs(runs: list[Estimate]) -> Estimate:
    """The mean of known runs on the same samples: their intervals do not shrink by averaging, and
    how far the runs lie apart is added (Student 1908)."""
    if len(runs) < 2:
        return runs[0] if runs else Estimate()
    mean = down = up = 0.0
    for run in runs:
        mean += run.value / len(runs)
        down += (run.value - run.low) / len(runs)
        up += (run.high - run.value) / len(runs)
    apart = _reach([run.value for run in runs], mean)
    down, up = (0.0 if math.isnan(x) else x for x in (down, up))
    return Estimate(mean, mean - _hypot(down, apart), mean + _hypot(up, apart))


def of_hits(a: Outcomes, b: Outcomes) -> Estimate:
    """The mean of a - b, shares on the same samples (Agresti and Min 2005): half an outcome is
    added to each kind of pair, so that pairs which all agree have an interval of some width."""
    gained, lost = float(np.count_nonzero(a > b)), float(np.count_nonzero(a < b))
    value, more = (gained - lost) / len(a), len(a) + 2.0
    centre = (gained - lost) / more
    reach = NORMAL_975 * math.sqrt(((gained + lost + 1) / more - centre * centre) / more)
    return Estimate(value, min(centre - reach, value), max(centre + reach, value))


def of_losses(a: Outcomes, b: Outcomes) -> Estimate:
    """The mean of a - b, losses on the same windows, with Student's interval (1908)."""
    mean = 0.0
    for apart in a - b:
        mean += float(apart) / len(a)
    if len(a) < 2:
        return Estimate(mean)
    reach = _reach([float(apart) for apart in a - b], mean)
    return Estimate(mean, mean - reach, mean + reach)
