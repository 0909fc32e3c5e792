"""Samples and tensors from what other libraries hold."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from .arrays import floats, view
from .errors import ArgumentError, FormatError, ShapeError
from .samples import Samples

_IDS, _PIXELS = "input_ids", "pixel_values"
_CONTEXT = 512


def is_batch(value: Any) -> bool:
    """What a network is called with: an array, or a tuple, list or mapping of these."""
    return hasattr(value, "__dlpack__") or isinstance(value, (np.ndarray, tuple, list, Mapping))


def loader(batches: Iterable[Any]) -> Samples:
    """Token ids or pixels, by their types, of all batches."""
    rows: list[Any] = []
    images: list[Any] = []
    for number, batch in enumerate(batches):
        first = _first(batch, number)
        what = f"batch {number}"
        array = view(np.asarray(first) if isinstance(first, (list, tuple)) else first, what)
        if array.dtype[0] in "IU" and len(array.shape) in (1, 2):
            ids = np.atleast_2d(array.values)
            rows += _unpadded(ids, batch, number)
        elif "F" in array.dtype and len(array.shape) in (2, 3, 4):
            pixels = floats(array, what)
            images.append(pixels.reshape(-1, *pixels.shape[-3 if pixels.ndim > 2 else -1 :]))
        else:
            raise ShapeError(
                f"{what} holds an array of {array.dtype} {list(array.shape)}; token ids are "
                "integers [windows, length], pixels floats [images, channels, side, side]"
            )
    if bool(rows) == bool(images):
        raise ShapeError(
            "the batches hold token ids or pixels, not " + ("both" if rows else "none")
        )
    if rows:
        return _of_rows(rows)
    sizes = {image.shape[1:] for image in images}
    if len(sizes) > 1:
        raise ShapeError(f"images have the same shape in all batches, not {sorted(sizes)}")
    return Samples.pixels(np.concatenate(images))


def _first(batch: Any, number: int) -> Any:
    if isinstance(batch, Mapping):
        found = [name for name in (_IDS, _PIXELS) if name in batch]
        if len(found) != 1:
            raise ArgumentError(
                f"batch {number} is a mapping of {', '.join(map(str, batch))}; "
                f"{_IDS} or {_PIXELS} is expected"
            )
        return batch[found[0]]
    if isinstance(batch, (tuple, list)) and batch and not isinstance(batch[0], (int, list)):
        return batch[0]
    return batch


def _unpadded(ids: Any, batch: Any, number: int) -> list[Any]:
    mask = batch.get("attention_mask") if isinstance(batch, Mapping) else None
    if mask is None:
        return list(ids)
    kept = np.atleast_2d(np.asarray(view(mask, f"attention_mask of batch {number}").values)) != 0
    if kept.shape != ids.shape:
        raise ShapeError(
            f"attention_mask of batch {number} has the shape {list(kept.shape)}; "
            f"{list(ids.shape)} is expected"
        )
    return [row[mark] for row, mark in zip(ids, kept)]


def _of_rows(rows: list[Any]) -> Samples:
    lengths = {len(row) for row in rows}
    return Samples.tokens(np.stack(rows) if len(lengths) == 1 else rows)


def dataset(rows: Iterable[Any], tokenizer: Any, field: str, context: int | None) -> Samples:
    """Texts, lists of token ids, or conversations, whichever the rows hold."""
    return _windows(_documents(rows, tokenizer, field), context or _CONTEXT)


def _documents(rows: Iterable[Any], tokenizer: Any, field: str) -> Iterator[list[int]]:
    for number, row in enumerate(rows):
        if isinstance(row, Mapping) and field not in row:
            raise ArgumentError(
                f"row {number} has no field '{field}'; it has {', '.join(map(str, row))}",
                ("field",),
            )
        value = row[field] if isinstance(row, Mapping) else row
        is_text = isinstance(value, str)
        is_talk = isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)
        if (is_text or is_talk) and tokenizer is None:
            raise ArgumentError(f"row {number} holds text; give a tokenizer", ("tokenizer",))
        if is_text:
            yield tokenizer(value)[_IDS]
        elif is_talk:
            yield _spoken(tokenizer, value)
        else:
            ids = np.asarray(value)
            if ids.ndim != 1 or ids.dtype.kind not in "iu":
                kind = type(value).__name__
                raise TypeError(f"row {number} is a text, token ids or messages, not {kind}")
            yield ids.tolist()


def conversations(tokenizer: Any, talks: Iterable[Any], context: int | None) -> Samples:
    """Lists of messages, as the tokenizer's chat template writes them."""
    return _windows((_spoken(tokenizer, talk) for talk in talks), context or _CONTEXT)


def _spoken(tokenizer: Any, talk: Any) -> list[int]:
    made = tokenizer.apply_chat_template(talk, tokenize=True, add_generation_prompt=False)
    return list(made[_IDS] if isinstance(made, Mapping) or hasattr(made, _IDS) else made)


def _windows(documents: Iterable[list[int]], context: int) -> Samples:
    """Documents behind each other, cut into windows; the rest of the last window is left out."""
    ids = np.array([token for document in documents for token in document], np.int32)
    count = len(ids) // context
    if count == 0:
        raise ArgumentError(
            f"the samples have {len(ids)} tokens, less than a window of {context}", ("context",)
        )
    return Samples.tokens(ids[: count * context].reshape(count, context))


def read_torch_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The tensors of a torch file, of any form that torch reads without running its code."""
    import torch

    name = os.fspath(path)
    try:
        found = torch.load(name, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as failure:
        raise FormatError(
            f"{name}: torch.load(weights_only=True) cannot read it: {failure}; of TorchScript "
            "give torch.jit.load(path).state_dict() to Model.from_tensors"
        ) from failure
    while isinstance(found, Mapping):
        tensors = {str(key): value for key, value in found.items() if torch.is_tensor(value)}
        if tensors:
            return tensors
        inner = {key: value for key, value in found.items() if isinstance(value, Mapping) and value}
        if len(inner) != 1:
            keys = ", ".join(map(str, found)) or "nothing"
            raise FormatError(f"{name}: tensors by names are expected; it holds {keys}")
        ((_, found),) = inner.items()
    raise FormatError(f"{name}: tensors by names are expected; it holds {type(found).__name__}")
