"""Sweeps: the cells of a recipe in threads, a line of the results when each ends."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .._native import ffi, lib
from ..errors import CancelledError, GrailError, check
from .cell import Network, draws, settings_json
from .errors import StudyError
from .recipe import Cell, Recipe
from .results import (
    LARGEST_FILE,
    VERSION,
    Results,
    Settings,
    checksum_is_right,
    line_text,
    settings_of,
)
from .schema import Json

LONGEST_ERROR = 1000


@dataclass
class Summary:
    cells: int = 0
    found: int = 0  # in the results file before
    done: int = 0  # by this sweep, failed ones included
    failed: int = 0
    bytes: int = 0  # estimated for the largest cell
    seconds: float = 0.0
    seconds_left: float = 0.0


Tell = Callable[[str, Summary], Any]


# -- the results file ------------------------------------------------------------------------------


def _written(recipe: Any) -> Any:
    """As it reads back from a results file, where numbers may have 15 digits."""
    return json.loads(json.dumps(recipe), parse_float=lambda text: float(f"{float(text):.15g}"))


class ResultsFile:
    """Results that are begun or continued. A file of another recipe, or of anything else, is
    refused and left as it is."""

    def __init__(self, path: str, recipe: Recipe, is_dry: bool) -> None:
        self.path, self.recipe = path, recipe
        self.dense: set[str] = set()
        self.done: dict[Settings, bool] = {}  # False: it failed
        self.end = 0  # of the complete lines
        flags = os.O_RDONLY if is_dry else os.O_RDWR | os.O_CREAT
        try:
            self.descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
        except FileNotFoundError:
            if is_dry:
                return
            raise
        try:
            if not is_dry:
                self._lock()
            self._read()
        except BaseException:
            os.close(self.descriptor)
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StudyError("another sweep is writing to this file") from None

    def _read(self) -> None:
        info = os.fstat(self.descriptor)
        if not stat.S_ISREG(info.st_mode) or info.st_size > LARGEST_FILE:
            raise StudyError("not results of a sweep; choose another file")
        results = Results()
        with open(self.descriptor, "rb", closefd=False) as file:
            for number, line in enumerate(file, 1):
                if number == 1 and not line.startswith(b'{"grail_results":'[: len(line)]):
                    raise StudyError("not results of a sweep; choose another file")
                if not line.endswith(b"\n"):
                    if checksum_is_right(line[:-1]):
                        raise StudyError(
                            f"line {number}: does not end with a line end; it was damaged"
                        )
                    break  # torn when a sweep was killed
                found = results.read_line(line[:-1], number)
                if number == 1:
                    self._check_recipe(found.get("recipe"))
                else:
                    self._note(found, f"line {number}")
                self.end += len(line)

    def _check_recipe(self, then: Any) -> None:
        now = _written(self.recipe.document)
        if not isinstance(then, dict):
            raise StudyError(
                "this version of grail cannot continue these results; choose another file"
            )
        then = _written(then)
        for key in [*now, *then]:
            if now.get(key) != then.get(key) or (key in now) != (key in then):
                raise StudyError(
                    f'holds results of another recipe ("{key}" differs); choose another file'
                )

    def _note(self, found: Json, where: str) -> None:
        if "dense" in found:
            name = found["dense"]["checkpoint"]
            if name not in [c.name for c in self.recipe.checkpoints]:
                raise StudyError(
                    f'{where}: "dense" names a checkpoint that the recipe does not have'
                )
            self.dense.add(name)
        else:
            self.done[settings_of(found["cell"])] = found.get("error") is None

    def begin(self) -> None:
        """Cuts a torn line; an empty file gets its header."""
        os.ftruncate(self.descriptor, self.end)
        os.lseek(self.descriptor, self.end, os.SEEK_SET)
        if self.end == 0:
            machine = ffi.new("grail_machine *")
            check(lib.grail_machine_examine(0.0, machine))
            self.append(
                {
                    "grail_results": VERSION,
                    "recipe": self.recipe.document,
                    "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                    "machine": {
                        "cpu": ffi.string(machine.cpu).decode(errors="replace"),
                        "threads": lib.grail_threads(),
                    },
                    "version": ffi.string(lib.grail_version()).decode(),
                }
            )

    def append(self, document: Json) -> None:
        """It is on disk when this returns. After a failure a part of the line may remain, which is
        cut when the file is continued."""
        text = line_text(document)
        try:
            while text:
                text = text[os.write(self.descriptor, text) :]
            os.fsync(self.descriptor)
        except OSError as error:
            raise StudyError(f"cannot write '{self.path}': {error.strerror}") from None

    def close(self) -> None:
        if self.end or self.dense or self.done:
            os.close(self.descriptor)


# -- running ---------------------------------------------------------------------------------------


def _text_of_result(line: Json) -> str:
    one = line.get("evaluations", [line])
    is_text = "perplexity" in one[0]
    texts = [
        f"{e['perplexity']:.2f}" if "perplexity" in e else f"{100 * e['top1']:.2f} %" for e in one
    ]
    names = [f" on {e['name']}" if "name" in e else "" for e in one]
    words = ", ".join(text + name for text, name in zip(texts, names))
    return f"{'perplexity' if is_text else 'top-1'} {words}"


@dataclass
class _Worker:
    network: Network | None = None
    shared: tuple[Any, ...] = ()


@dataclass
class Sweep:
    recipe: Recipe
    jobs: int
    budget: int
    file: ResultsFile
    tell: Tell
    summary: Summary = field(default_factory=Summary)
    dense: list[int] = field(default_factory=list)  # checkpoints that are measured first
    pending: dict[tuple[Any, ...], list[tuple[Cell, int]]] = field(default_factory=dict)
    running: int = 0
    used: int = 0
    seconds: float = 0.0
    failure: BaseException | None = None

    def __post_init__(self) -> None:
        self.changed = threading.Condition()
        self.workers = [_Worker() for _ in range(self.jobs)]

    def _take(self, worker: _Worker) -> tuple[Cell, int] | None:
        """Waits for a cell that may run: of those that share samples with the worker's last, else
        of those that no worker holds, else of any."""
        with self.changed:
            while self.failure is None and self.pending:
                held = {w.shared for w in self.workers}
                own = [key for key in self.pending if key == worker.shared]
                free = [key for key in self.pending if key not in held]
                key = (own or free or list(self.pending))[0]
                cell, size = self.pending[key][0]
                if self.running == 0 or self.used + size <= self.budget:
                    if self.running == 0:
                        lib.grail_memory_peak_begin()
                    self.pending[key].pop(0)
                    if not self.pending[key]:
                        del self.pending[key]
                    self.running, self.used, worker.shared = self.running + 1, self.used + size, key
                    return cell, size
                self.changed.wait()
            return None

    def _open(self, worker: _Worker, checkpoint: int) -> Network:
        c = self.recipe.checkpoints[checkpoint]
        if worker.network is None or worker.network.checkpoint is not c:
            worker.network = None  # closed before the next is opened
            worker.network = Network(self.recipe, c)
        return worker.network

    def _measure_dense(self, worker: _Worker) -> None:
        while self.dense and self.failure is None:
            checkpoint = self.dense.pop(0)
            name = self.recipe.checkpoints[checkpoint].name
            try:
                line = self._open(worker, checkpoint).dense_line()
            except CancelledError:
                raise
            except GrailError as error:
                raise StudyError(f'checkpoint "{name}": {error}') from None
            with self.changed:
                self.file.append(line)

    def _run(self, worker: _Worker, cell: Cell) -> Json:
        begin = time.monotonic()
        try:
            network = self._open(worker, cell.checkpoint)
            line = network.cell_line(cell, self.budget // self.jobs)
            line["seconds"]["total"] = float(f"{time.monotonic() - begin:.6g}")
            line["peak_bytes"] = lib.grail_memory_peak()
            return line
        except CancelledError:
            raise
        except (GrailError, MemoryError) as error:
            said = (str(error) or "out of memory")[:LONGEST_ERROR]
            return {"cell": settings_json(cell), "error": said}
        finally:
            self.seconds += time.monotonic() - begin

    def _end(self, cell: Cell, size: int, line: Json) -> None:
        with self.changed:
            self.file.append(line)
            s = self.summary
            s.done += 1
            s.failed += "error" in line
            left = s.cells - s.found - s.done
            s.seconds_left = self.seconds / s.done * left / self.jobs
            result = f"failed: {line['error']}" if "error" in line else _text_of_result(line)
            self.tell(f"{s.found + s.done}/{s.cells} {cell}: {result}", s)

    def _work(self, worker: _Worker, threads: int) -> None:
        @ffi.callback("int(void *)", error=1)  # type: ignore[untyped-decorator,unused-ignore]
        def stop(_: Any) -> int:
            return int(self.failure is not None)

        lib.grail_set_threads(threads)
        lib.grail_set_stop(stop, ffi.NULL)
        try:
            self._measure_dense(worker)
            while (taken := self._take(worker)) is not None:
                cell, size = taken
                try:
                    self._end(cell, size, self._run(worker, cell))
                finally:
                    with self.changed:
                        self.running, self.used = self.running - 1, self.used - size
                        self.changed.notify_all()
        except BaseException as error:
            with self.changed:
                self.failure = self.failure or error
                self.changed.notify_all()
        finally:
            worker.network = None
            lib.grail_set_stop(ffi.NULL, ffi.NULL)

    def run(self) -> None:
        """Runs what is pending. Ctrl-C ends all cells within a moment."""
        threads = max(lib.grail_threads() // self.jobs, 1)
        work = [threading.Thread(target=self._work, args=(w, threads)) for w in self.workers]
        for thread in work:
            thread.start()
        try:
            for thread in work:
                while thread.is_alive():
                    thread.join(0.1)
        except BaseException as error:
            with self.changed:
                self.failure = error
                self.changed.notify_all()
            for thread in work:
                thread.join()
        if self.failure is not None:
            raise self.failure


def _available() -> int:
    machine = ffi.new("grail_machine *")
    check(lib.grail_machine_examine(0.0, machine))
    return max(int(machine.memory_available), 0)


def _check_names(recipe: Recipe, checkpoints: list[str] | None) -> list[str]:
    known = [c.name for c in recipe.checkpoints]
    for name in checkpoints or []:
        if name not in known or (checkpoints or []).count(name) > 1:
            raise StudyError(
                f'checkpoints: "{name}" is no checkpoint of the recipe, or named twice; it has '
                + ", ".join(known)
            )
    return known if checkpoints is None else checkpoints


def run_sweep(
    recipe: str,
    results: str,
    *,
    jobs: int = 1,
    memory: int = 0,
    threads: int = 0,
    precision: str | None = None,
    checkpoints: list[str] | None = None,
    dry_run: bool = False,
    tell: Tell = lambda text, summary: None,
    summary: Summary | None = None,
) -> Summary:
    """Narrows and measures networks at all settings of a recipe that the results lack; a cell that
    fails is recorded, and the sweep goes on. Everything is checked first. `memory` limits the
    estimated bytes of the cells that run at the same time; 0: half of what is available, which a
    cell that runs alone may exceed. `checkpoints` leaves out the cells of others. KeyboardInterrupt
    leaves the finished cells in the results, and `summary` tells how many."""
    begin = time.monotonic()
    read = Recipe(recipe, precision)
    wanted = _check_names(read, checkpoints)
    if not 1 <= jobs <= 256:
        raise StudyError(f"jobs takes an integer from 1 to 256, not {jobs}")
    if read.latency is not None and jobs > 1:
        raise StudyError(
            f"{recipe}: latency is measured with one job alone, and {jobs} were asked for; leave "
            'out the option, or "latency"'
        )
    before = lib.grail_threads()
    if threads > 0:
        lib.grail_set_threads(threads)
    try:
        return _sweep(
            read, results, jobs, memory, wanted, dry_run, tell, summary or Summary(), begin
        )
    finally:
        lib.grail_set_threads(before)


def _sweep(
    recipe: Recipe,
    results: str,
    jobs: int,
    memory: int,
    wanted: list[str],
    dry_run: bool,
    tell: Tell,
    s: Summary,
    begin: float,
) -> Summary:
    networks: dict[str, Network] = {}
    for c in recipe.checkpoints:
        if c.name in wanted:
            try:
                networks[c.name] = Network(recipe, c)
                networks[c.name].check()
            except GrailError as error:
                raise StudyError(f'checkpoint "{c.name}": {error}') from None
    cells = [cell for cell in recipe.cells(draws) if cell.settings.checkpoint in wanted]
    sizes = {}
    for cell in cells:
        network = networks[cell.settings.checkpoint]
        try:
            network.check_cell(cell)
            sizes[cell] = network.bytes_of(cell)
        except GrailError as error:
            raise StudyError(f"{recipe.path}: {cell}: {error}") from None
    s.cells, s.bytes = len(cells), max(sizes.values(), default=0)
    if 0 < memory < s.bytes:
        raise StudyError(
            f"the largest cell needs an estimated {s.bytes} bytes, but only {memory} are allowed; "
            "raise the memory limit or shorten the recipe"
        )
    try:
        file = ResultsFile(results, recipe, dry_run)
    except StudyError as error:
        raise StudyError(f"{results}: {error}") from None
    except OSError as error:
        raise StudyError(f"cannot open '{results}': {error.strerror}") from None
    known = {cell.settings for cell in recipe.cells(draws)}
    for settings in file.done:
        if settings not in known:
            raise StudyError(f"{results}: a cell of {settings.checkpoint} is not in the recipe")
    left = [cell for cell in cells if not file.done.get(cell.settings, False)]
    s.found = len(cells) - len(left)
    if dry_run:
        return s
    file.begin()
    for c in recipe.checkpoints:
        for notice in networks[c.name].notices() if c.name in wanted else []:
            tell(f"note: {c.path}: {notice}", s)
    networks.clear()
    sweep = Sweep(recipe, jobs, memory or _available() // 2, file, tell, s)
    for i, c in enumerate(recipe.checkpoints):
        sweep.dense += [i] if c.name in wanted and c.name not in file.dense else []
    for cell in left:
        sweep.pending.setdefault(cell.shared, []).append((cell, sizes[cell]))
    try:
        sweep.run()
    finally:
        s.seconds = time.monotonic() - begin
        os.close(file.descriptor)
    return s
