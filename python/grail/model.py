"""A checkpoint that is open: what it is, and where it can be cut."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Union

from ._native import ffi, lib
from .errors import ArgumentError, GrailError, check, warn
from .options import FIELDS, new_text, text_of
from .records import Facts, Preparation, Site, record
from .watch import Progress, Watch

Path = Union[str, "os.PathLike[str]"]


class Model:
    """A model that is open: a Hugging Face directory, a GGUF file or a file of weights.

    `set` holds settings that the checkpoint lacks or that override it, such as
    {"activation": "quick_gelu"}; `type` is how results hold weights that a GGUF file stores
    quantised: "f32", "f16" or "bf16". What runs have measured of the dense network is kept for
    later ones. Threads may share a model; their calls then wait for each other.
    """

    def __init__(
        self, path: Path, *, set: Mapping[str, Any] | None = None, type: str | None = None
    ) -> None:
        self.path = os.fspath(path)
        self.set = dict(set or {})
        self.type = type
        self._lock = threading.RLock()
        self._is_at_work = False
        keep: list[Any] = []
        reading = new_reading(self.set, type, keep)
        session = ffi.new("grail_session **")
        check(lib.grail_session_open(new_text(self.path, keep), reading, session), FIELDS)
        self._session = ffi.gc(session[0], lib.grail_session_close)

    @property
    def _model(self) -> Any:
        return lib.grail_session_model(self._session)

    def __repr__(self) -> str:
        return f"grail.Model({self.path!r}: {self.facts.architecture})"

    @functools.cached_property
    def _facts(self) -> Any:
        facts = ffi.new("grail_model_facts *")
        with self._lock:
            check(lib.grail_model_describe(self._model, facts))
        return facts

    @functools.cached_property
    def facts(self) -> Facts:
        return record(Facts, self._facts)

    @functools.cached_property
    def sites(self) -> tuple[Site, ...]:
        """The places where width can be cut, with whole groups of heads as units."""
        return self.sites_of("kv-groups")

    def sites_of(self, gqa: str) -> tuple[Site, ...]:
        """The same; gqa="query-per-group": the heads of groups are the units."""
        modes = {
            "kv-groups": lib.GRAIL_GQA_KV_GROUPS,
            "query-per-group": lib.GRAIL_GQA_QUERY_PER_GROUP,
        }
        if gqa not in modes:
            raise ArgumentError(f"gqa takes {' or '.join(modes)}, not {gqa!r}", ("gqa",))
        found = ffi.new("grail_site_list **")
        with self._lock:
            check(lib.grail_model_sites(self._model, modes[gqa], found))
            sites = ffi.gc(found[0], lib.grail_site_list_free)
        count = lib.grail_site_list_count(sites)
        return tuple(record(Site, lib.grail_site_list_at(sites, i)) for i in range(count))

    @functools.cached_property
    def _preparation(self) -> Any:
        found = ffi.new("grail_preprocessing *")
        with self._lock:
            check(lib.grail_model_preprocessing(self._model, found))
        return found

    @property
    def preparation(self) -> Preparation | None:
        """How images are prepared for it where nothing else is said; None: it reads text."""
        return record(Preparation, self._preparation) if self.facts.reads_images else None

    @property
    def notices(self) -> tuple[str, ...]:
        """What was assumed of the checkpoint, and what is not read of it."""
        facts = self._facts
        found = [text_of(facts.notices[i]) for i in range(facts.notice_count)]
        found.append(text_of(facts.activation_notice))
        return tuple(notice for notice in found if notice)

    @property
    def digest(self) -> str:
        """A hash of names, types, shapes and the first and last bytes of all tensors."""
        text = ffi.new("char[65]")
        with self._lock:
            lib.grail_model_digest(self._model, text)
        return text_of(text) or ""

    def _notices_of_run(self, prepares_images: bool) -> tuple[str, ...]:
        """Also those on its samples; they are warned of."""
        found = [*self.notices, text_of(lib.grail_session_notice(self._session))]
        if prepares_images and self.facts.reads_images:
            try:
                found.append(text_of(self._preparation.notice))
            except GrailError as error:
                found.append(error.message)
        notices = tuple(notice for notice in found if notice)
        for notice in notices:
            warn(f"{self.path}: {notice}")
        return notices


def new_reading(settings: Mapping[str, Any], type: str | None, keep: list[Any]) -> Any:
    texts = [new_text(f"{key}={_setting(value)}", keep) for key, value in settings.items()]
    reading = ffi.new("grail_model_options *")
    keep.append(ffi.new("const char *[]", texts or 1))
    reading.settings = keep[-1]
    reading.setting_count = len(texts)
    reading.type = ffi.NULL if type is None else new_text(type, keep)
    keep.append(reading)
    return reading


def _setting(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def inspect(
    model: Model | Path,
    *,
    set: Mapping[str, Any] | None = None,
    type: str | None = None,
) -> Model:
    """Opens a model and checks it: .facts, .sites, .preparation, .notices."""
    if isinstance(model, Model):
        if set is not None or type is not None:
            raise TypeError("set and type belong to grail.Model, which is open already")
        return model
    return Model(model, set=set, type=type)


@contextmanager
def at_work(
    model: Model, threads: int | None = None, progress: Progress = False
) -> Iterator[Watch]:
    """While a call works with the model, on so many threads. The watch that it tells is closed
    afterwards."""
    if threads is not None and (isinstance(threads, bool) or not 1 <= threads <= 1024):
        raise ArgumentError(f"threads takes an integer from 1 to 1024, not {threads}", ("threads",))
    watch = Watch(progress)
    before = lib.grail_threads()
    with model._lock, watch:
        if model._is_at_work:
            raise ArgumentError(f"{model.path} is at work already, in a call that called this one")
        try:
            model._is_at_work = True
            if threads is not None:
                lib.grail_set_threads(threads)
            yield watch
        finally:
            lib.grail_set_threads(before)
            model._is_at_work = False
