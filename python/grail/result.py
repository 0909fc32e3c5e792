"""A narrowed network in memory: what its directory would hold."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ._native import ffi, lib
from .arrays import bits_of, pointer
from .errors import check
from .model import Model
from .options import FIELDS, new_text, text_of

__all__ = ["Result"]


class Result(Mapping[str, Any]):
    """A mapping from names to tensors, arrays of numpy that are made when they are asked for; those
    of BF16 are bits in uint16. `dtypes` has their types, `documents` the other files of the
    directory, such as config.json, plan.json and report.json."""

    def __init__(self, compression: Any, model: Model) -> None:
        self._compression = compression
        self._dense = model
        self._memory = ffi.new("grail_memory_model *")
        with model._lock:
            check(lib.grail_compression_result(compression, self._memory), FIELDS)
        memory = self._memory
        names = [text_of(memory.tensors[i].name) or "" for i in range(memory.tensor_count)]
        self._tensors = {name: i for i, name in enumerate(names)}
        self.dtypes: dict[str, str] = {
            name: text_of(lib.grail_dtype_name(memory.tensors[i].dtype)) or ""
            for name, i in self._tensors.items()
        }
        self.documents: dict[str, bytes] = {
            text_of(file.name) or "": bytes(ffi.buffer(file.bytes, file.size))
            for file in memory.documents[0 : memory.document_count]
        }

    def __getitem__(self, name: str) -> Any:
        i = self._tensors[name]
        tensor = self._memory.tensors[i]
        array = np.empty(tuple(tensor.shape[0 : tensor.rank]), bits_of(self.dtypes[name]))
        with self._dense._lock:
            to = pointer(array, "void *")
            check(self._memory.load(self._memory.user, i, to, array.nbytes))
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        return f"grail.Result({len(self)} tensors of {self._dense.path})"

    @property
    def config(self) -> dict[str, Any]:
        """What config.json says, or of a network without one grail.json."""
        files = self.documents
        document: dict[str, Any] = json.loads(files.get("config.json") or files["grail.json"])
        return document

    def torch(self) -> dict[str, Any]:
        """The tensors as those of torch, a state_dict."""
        import torch

        tensors = {}
        for name, array in self.items():
            is_bf16 = self.dtypes[name] == "BF16"
            bits = torch.from_numpy(array.view(np.int16) if is_bf16 else array)
            tensors[name] = bits.view(torch.bfloat16) if is_bf16 else bits
        return tensors

    def model(self) -> Model:
        """The network, to measure it or to go on with it."""
        keep: list[Any] = [self]
        memory = ffi.new("grail_memory_model *", self._memory[0])
        name = f"{self._dense.path}, narrowed"
        memory.name = new_text(name, keep)
        return Model._of_memory(memory, name, None, None, keep)
