"""A checkpoint that is open: what it is, and where it can be cut."""

from __future__ import annotations

import functools
import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Callable, Union

from ._native import ffi, lib
from .arrays import DTYPES, pointer, size_of, view
from .errors import ArgumentError, GrailError, check, warn
from .options import FIELDS, name_onnxruntime, new_text, text_of
from .records import Facts, Preparation, Region, Site, record
from .watch import Progress, Watch

__all__ = ["Model", "inspect"]

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
        keep: list[Any] = []
        where = new_text(path, keep)

        def open_session(reading: Any, session: Any) -> int:
            status: int = lib.grail_session_open(where, reading, session)
            return status

        self._open(os.fspath(path), set, type, open_session, keep)

    @classmethod
    def from_tensors(
        cls,
        config: Mapping[str, Any] | str | None,
        tensors: Mapping[str, Any],
        *,
        documents: Mapping[str, bytes | str] | None = None,
        dtypes: Mapping[str, str] | None = None,
        name: str = "memory",
        set: Mapping[str, Any] | None = None,
        type: str | None = None,
    ) -> Model:
        """A model in memory: what config.json says, and the tensors of its weights files as arrays
        of numpy or of what speaks DLPack, such as a torch state_dict. Contiguous ones are not
        copied, and must not change while the model is used. `documents` are other files of its
        directory, such as "tokenizer.json". `dtypes` names those that an array cannot say, such as
        {"lm_head.weight": "BF16"} for bits in uint16."""
        keep: list[Any] = []
        files = dict(documents or {})
        if config is not None:
            files["config.json"] = config if isinstance(config, str) else json.dumps(config)
        memory = new_memory(tensors, dtypes or {}, files, name, keep)

        return cls._of_memory(memory, name, set, type, keep)

    @classmethod
    def from_torch_file(
        cls,
        path: Path,
        config: Mapping[str, Any] | str | None = None,
        *,
        set: Mapping[str, Any] | None = None,
    ) -> Model:
        """A model from a torch file of an old or unusual form, which torch.load(weights_only=True)
        reads into memory; `config` is what config.json says, where the family has one. Usual torch
        files open without torch: Model(path)."""
        from .adapters import read_torch_file

        return cls.from_tensors(config, read_torch_file(path), name=os.fspath(path), set=set)

    @classmethod
    def _of_memory(
        cls,
        memory: Any,
        name: str,
        set: Mapping[str, Any] | None,
        type: str | None,
        keep: list[Any],
    ) -> Model:
        """Opens a grail_memory_model."""
        keep.append(memory)

        def open_session(reading: Any, session: Any) -> int:
            status: int = lib.grail_session_open_memory(memory, reading, session)
            return status

        model = cls.__new__(cls)
        model._open(name, set, type, open_session, keep)
        model.is_memory = True
        return model

    def _open(
        self,
        path: str,
        set: Mapping[str, Any] | None,
        type: str | None,
        open_session: Callable[[Any, Any], int],
        keep: list[Any],
    ) -> None:
        self.path, self.set, self.type = path, dict(set or {}), type
        self.is_memory = False
        session = ffi.new("grail_session **")
        name_onnxruntime()
        check(open_session(new_reading(self.set, type, keep), session), FIELDS)
        self._owner = Owner(session[0], keep)
        self._lock = self._owner.lock
        self._session = self._owner.hold(session[0], lambda _session: None)

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
    def regions(self) -> tuple[Region, ...]:
        """Where an ONNX file has nodes that grail has no rows for; they stay as they are."""
        regions: list[Region] = []
        while (facts := lib.grail_model_region_at(self._model, len(regions))).node != ffi.NULL:
            regions.append(record(Region, facts))
        return tuple(regions)

    @functools.cached_property
    def _preparation(self) -> Any:
        found = ffi.new("grail_preprocessing *")
        with self._lock:
            check(lib.grail_model_preprocessing(self._model, found))
        return found

    @property
    def preparation(self) -> Preparation | None:
        """How images are prepared for it where nothing else is said; None: it reads text, or
        several arrays."""
        reads_images = self.facts.reads_images and self.facts.inputs == 0
        return record(Preparation, self._preparation) if reads_images else None

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


class Owner:
    """Closes what was opened from a session when nobody refers to it, and then the session: in
    whatever order the garbage collector drops them, and never while a call works with it, on this
    thread or another. `keep` lives until then."""

    def __init__(self, session: Any, keep: list[Any]) -> None:
        self.lock = threading.RLock()
        self.is_at_work = False
        self._session, self._keep = session, keep
        self._users: list[None] = []
        self._dropped: list[tuple[Any, Callable[[Any], None]]] = []

    def hold(self, pointer: Any, close: Callable[[Any], None]) -> Any:
        self._users.append(None)

        def drop(dropped: Any) -> None:
            self._dropped.append((dropped, close))
            self.close_dropped()

        return ffi.gc(pointer, drop)

    def close_dropped(self) -> None:
        """What cannot be closed now is when the call that works has ended."""
        while self._dropped and self.lock.acquire(blocking=False):
            try:
                if self.is_at_work or not self._dropped:
                    return
                pointer, close = self._dropped.pop()
                close(pointer)
                self._users.pop()
                if not self._users:
                    session, self._session = self._session, ffi.NULL
                    lib.grail_session_close(session)
            finally:
                self.lock.release()


def new_memory(
    tensors: Mapping[str, Any],
    dtypes: Mapping[str, str],
    documents: Mapping[str, bytes | str],
    name: str,
    keep: list[Any],
) -> Any:
    """A grail_memory_model."""
    for mapping, what in ((tensors, "tensors"), (dtypes, "dtypes")):
        if not isinstance(mapping, Mapping):
            raise TypeError(f"{what} takes a mapping by names, not {type(mapping).__name__}")
    entries = ffi.new("grail_tensor[]", len(tensors) or 1)
    for entry, (key, given) in zip(entries, tensors.items()):
        array = view(given, f"tensor '{key}'").contiguous()
        dtype = dtypes.get(key, array.dtype)
        if DTYPES.get(dtype) is None or array.values.itemsize != size_of(dtype):
            raise TypeError(f"tensor '{key}' of {array.dtype} does not hold {dtype}")
        entry.name, entry.dtype = new_text(key, keep), DTYPES[dtype]
        entry.rank, entry.data = len(array.shape), pointer(array.values, "const void *")
        shape = ffi.new("int64_t[]", array.shape or 1)
        entry.shape = shape
        keep += [array, shape]
    files = ffi.new("grail_document[]", len(documents) or 1)
    for file, (key, text) in zip(files, documents.items()):
        content = ffi.from_buffer(text.encode() if isinstance(text, str) else text)
        file.name, file.bytes, file.size = new_text(key, keep), content, len(content)
        keep.append(content)
    memory = ffi.new("grail_memory_model *")
    memory.name = new_text(name, keep)
    memory.tensors, memory.tensor_count = entries, len(tensors)
    memory.documents, memory.document_count = files, len(documents)
    keep += [entries, files, memory]
    return memory


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


def settle_backend(model: Model, struct: Any, resumed: Path | None = None) -> None:
    """Gives a struct the backend that `auto` stands for, and says which one that is. A run that
    goes on keeps its own."""
    if ffi.string(struct.backend) != b"auto":
        return
    keep: list[Any] = []
    choice = ffi.new("grail_backend_choice *")
    path = ffi.NULL if resumed is None else new_text(resumed, keep)
    check(lib.grail_backend_choose(model._model, ffi.NULL, path, choice))
    struct.backend = choice.backend
    warn(f"{model.path}: the backend is {text_of(choice.backend)}: {text_of(choice.reason)}")


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
    owner = model._owner
    with model._lock, watch:
        if owner.is_at_work:
            raise ArgumentError(f"{model.path} is at work already, in a call that called this one")
        try:
            owner.is_at_work = True
            if threads is not None:
                lib.grail_set_threads(threads)
            yield watch
        finally:
            lib.grail_set_threads(before)
            owner.is_at_work = False
            owner.close_dropped()
