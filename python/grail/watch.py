"""Progress of calls, exceptions of callbacks, and Ctrl-C.

The library calls its observers on the thread that called it. Python runs handlers of signals there
as well, so Ctrl-C becomes a KeyboardInterrupt in an observer. An exception in one stops the call,
and is raised again when the call has returned.
"""

from __future__ import annotations

import sys
import threading
from typing import Any, Callable, Union

from ._native import ffi, lib
from .errors import check
from .options import FIELDS
from .records import CutSite, Healing, Step, Trial, record

Progress = Union[Callable[[Step], Any], bool, None]


class Watch:
    """Tells a caller how far a call is. `progress` is a function, False for nobody, or None for a
    bar of tqdm where that is installed and standard error is a terminal."""

    def __init__(self, progress: Progress = None) -> None:
        if progress is not None and not isinstance(progress, bool) and not callable(progress):
            raise TypeError(f"progress takes a function, not {type(progress).__name__}")
        self.handle = ffi.new_handle(self)
        self.network = ""
        self.results: list[float] = []  # of each window or image that is measured
        self.failure: BaseException | None = None
        self.bar = None if callable(progress) or progress is False else _new_bar()
        self._tell = progress if callable(progress) else self._draw

    def tell(self, step: Step) -> None:
        self._tell(step)

    def _draw(self, step: Step) -> None:
        if self.bar is None:
            return
        total, now = float(step.blocks), step.block + step.done
        if step.what in ("measure", "trial") or step.block < 0:
            total, now = 1.0, step.done
        self.bar.set_description_str(f"{step.what} {step.network}".strip(), refresh=False)
        self.bar.total, self.bar.n = total, min(now, total)
        self.bar.refresh()

    def observe(self, options: Any) -> None:
        """Watches a run, the `run` of grail_compress_options."""
        options.observer = lib.grail_compress_observed
        options.heal_observer = lib.grail_heal_observed
        options.step_observer = lib.grail_step_observed
        options.observer_user = self.handle

    def check(self, status: int, **names: str) -> None:
        """Raises what an observer raised, or what the library says."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        if status == lib.GRAIL_ERROR_CANCELLED:  # before an observer could keep the exception
            raise KeyboardInterrupt
        check(status, {**FIELDS, **names})

    def __enter__(self) -> Watch:
        self.outer = getattr(_thread, "watch", None)
        _watch(self)
        return self

    def __exit__(self, *_: object) -> None:
        _watch(self.outer)
        if self.bar is not None:
            self.bar.close()


def _watch(watch: Watch | None) -> None:
    """Calls of this thread ask it whether to stop."""
    _thread.watch = watch
    if watch is None:
        lib.grail_set_stop(ffi.NULL, ffi.NULL)
    else:
        lib.grail_set_stop(lib.grail_stop_observed, watch.handle)


_thread = threading.local()


def _new_bar() -> Any:
    if not sys.stderr.isatty():
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(total=1.0, leave=False, bar_format="{desc} {percentage:3.0f}%|{bar}| {elapsed}")


def _keep(_kind: Any, failure: BaseException, trace: Any) -> None:
    """An exception that came before an observer's own code."""
    user = trace.tb_frame.f_locals.get("user") if trace is not None else None
    if user is not None:
        ffi.from_handle(user).failure = failure.with_traceback(trace)


def _tell(user: Any, step: Step) -> int:
    watch = ffi.from_handle(user)
    watch.tell(step)
    return 0


@ffi.def_extern(error=1, onerror=_keep)  # type: ignore[untyped-decorator,unused-ignore]
def grail_compress_observed(user: Any, site: Any, block: int, blocks: int, left: float) -> int:
    cut = CutSite.of(site) if site != ffi.NULL else None
    done = 0.0 if cut else 1.0
    seconds = left if left == left else None
    return _tell(user, Step("site" if cut else "block", block, blocks, done, seconds, site=cut))


@ffi.def_extern(error=1, onerror=_keep)  # type: ignore[untyped-decorator,unused-ignore]
def grail_step_observed(user: Any, block: int, blocks: int, done: float) -> int:
    return _tell(user, Step("step", block, blocks, done))


@ffi.def_extern(error=1, onerror=_keep)  # type: ignore[untyped-decorator,unused-ignore]
def grail_heal_observed(user: Any, now: Any) -> int:
    training = record(Healing, now)
    done = training.steps / training.most_steps if training.most_steps > 0 else 1.0
    block = max(training.block, 0)
    left = training.seconds_left
    return _tell(user, Step("training", block, training.blocks, done, left, training=training))


@ffi.def_extern(error=1, onerror=_keep)  # type: ignore[untyped-decorator,unused-ignore]
def grail_plan_observed(user: Any, now: Any) -> int:
    trial = record(Trial, now)
    done = trial.tried / trial.most if trial.most > 0 else 1.0
    return _tell(user, Step("trial", done=done, seconds_left=trial.seconds_left, trial=trial))


@ffi.def_extern(error=1, onerror=_keep)  # type: ignore[untyped-decorator,unused-ignore]
def grail_eval_observed(user: Any, now: Any) -> int:
    done = now.passed / now.total if now.total > 0 else 1.0
    if now.results != ffi.NULL and now.count > 0:
        ffi.from_handle(user).results.extend(ffi.unpack(now.results, now.count))
    return _tell(user, Step("measure", done=done, network=ffi.from_handle(user).network))


@ffi.def_extern(error=1, onerror=_keep)  # type: ignore[untyped-decorator,unused-ignore]
def grail_stop_observed(user: Any) -> int:
    """Only lets Python run handlers of signals."""
    return 0
