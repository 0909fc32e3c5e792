"""A network that runs on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._native import ffi, lib
from .arrays import new_pixels, new_tokens, pointer
from .model import Model, Path, at_work, inspect, settle_backend
from .options import new_backend, new_text

__all__ = ["Runner"]

Array = np.ndarray[Any, Any]


class Runner:
    """Runs a model on token ids or pixels in memory, again and again.

    runner = grail.Runner("narrow")
    logits = runner.logits(ids)  # [windows, length, vocabulary]
    """

    def __init__(
        self,
        model: Model | Path,
        *,
        precision: str = "f32",
        backend: str = "cpu",
        threads: int | None = None,
    ) -> None:
        self.model = inspect(model)
        self.threads = threads
        keep: list[Any] = []
        compute = ffi.new("grail_compute *")
        compute.precision, compute.backend = new_text(precision, keep), new_backend(backend, keep)
        made = ffi.new("grail_runner **")
        with at_work(self.model, threads) as watch:
            settle_backend(self.model, compute)
            watch.check(lib.grail_runner_open(self.model._model, compute, made))
        self._runner = self.model._owner.hold(made[0], lib.grail_runner_close)
        self.outputs: int = lib.grail_runner_outputs(self._runner)

    def logits(self, tokens: Any, lengths: Any = None, *, last: bool = False) -> Array:
        """[windows, length, outputs] for token ids [windows, length]; zeros behind the end of a
        shorter window. With `last` [windows, outputs] of the last token of each."""
        keep: list[Any] = []
        given = new_tokens(tokens, lengths, keep)
        shape = (given.windows, given.length, self.outputs)
        out = np.empty((shape[0], shape[2]) if last else shape, np.float32)
        to = pointer(out, "float *")
        with at_work(self.model, self.threads) as watch:
            watch.check(lib.grail_runner_tokens(self._runner, given, int(last), to))
        return out

    def losses(self, tokens: Any, lengths: Any = None) -> tuple[Array, Array]:
        """Two arrays [windows, length - 1] for token ids [windows, length]: -log p of each next
        token, NaN behind the end of a shorter window, and whether no token was more likely."""
        keep: list[Any] = []
        given = new_tokens(tokens, lengths, keep)
        losses = np.empty((given.windows, given.length - 1), np.float64)
        largest = np.empty(losses.shape, np.bool_)
        to = pointer(losses, "double *"), pointer(largest, "unsigned char *")
        with at_work(self.model, self.threads) as watch:
            watch.check(lib.grail_runner_losses(self._runner, given, *to))
        return losses, largest

    def images(self, pixels: Any) -> Array:
        """[images, outputs] for pixels [images, 3, side, side] or [images, side, side, 3], which
        are prepared already, or arrays of other channels. Networks that give a map, or several
        outputs, are refused."""
        keep: list[Any] = []
        given = new_pixels(pixels, None, keep)
        out = np.empty((given.count, self.outputs), np.float32)
        to = pointer(out, "float *")
        with at_work(self.model, self.threads) as watch:
            watch.check(lib.grail_runner_pixels(self._runner, given, to))
        return out
