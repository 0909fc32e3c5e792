"""Samples to calibrate or to measure on."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

import numpy as np

from ._native import ffi
from .arrays import new_pixels, new_tokens
from .chat import render_chats
from .errors import ArgumentError
from .model import Model, Path
from .options import IMAGES, TEXT, Given, new_text

__all__ = ["Samples"]

Part = Union[Path, tuple[Path, float]]


class Samples:
    """Samples to calibrate or to measure on: text() and images() in files, tokens() and pixels() in
    memory, and what other libraries hold: loader(), dataset() and conversations()."""

    def __init__(self, kind: str, parts: Sequence[tuple[str, float]], given: Given) -> None:
        self.kind = kind  # "text", "images", or "path" of what the model reads
        self.parts = tuple(parts)
        self.given = given
        self._memory: Any = None  # a struct of arrays that take the place of files
        self._keep: list[Any] = []
        self.named: dict[str, Any] = {}  # arrays of several inputs

    def __repr__(self) -> str:
        return f"grail.Samples.{self.kind}({', '.join(repr(part[0]) for part in self.parts)})"

    @classmethod
    def text(cls, *parts: Part, **options: Any) -> Samples:
        """Text files (.txt, .jsonl, .jsonl.gz, folders of these), token ids (.npy), or to calibrate
        on "self": text that the network draws. Lists of messages in JSON lines are written by the
        model's chat template. Each of several may be a pair of a path and its
        share of the windows. Options: field, protocol, context, window_bos."""
        given = Given("Samples.text", TEXT, options, {"calib": parts})
        return cls("text", [_part(part) for part in parts], given)

    @classmethod
    def tokens(cls, ids: Any, lengths: Any = None) -> Samples:
        """Windows of token ids in memory, [windows, length]: integers of any array library, or a
        list of windows of different lengths. `lengths` says how many of each row count."""
        return cls._in_memory("text", new_tokens, ids, lengths)

    @classmethod
    def pixels(cls, images: Any, labels: Any = None) -> Samples:
        """Images in memory that are prepared already, [images, 3, side, side] or [images, side,
        side, 3], or what else a network reads, with other numbers of channels or [samples,
        channels]; `labels` are indices of classes, to measure accuracy."""
        return cls._in_memory("images", new_pixels, images, labels)

    @classmethod
    def inputs(cls, arrays: Mapping[str, Any]) -> Samples:
        """An array for each input of a network that has several, by their names: integers [samples,
        positions] (masks are 1 where positions count), or floating-point values of images, signals
        and vectors, with integers beside them. They lie in a temporary folder as long as the
        samples are there."""
        folder = tempfile.TemporaryDirectory(prefix="grail-")
        samples = cls("path", [("", 0.0)], Given("Samples.inputs", (), {}))
        samples.named = {name: np.asarray(values) for name, values in arrays.items()}
        places = []
        for i, (name, values) in enumerate(samples.named.items()):
            file = os.path.join(folder.name, f"{i}.npy")
            np.save(file, values.astype(np.int8) if values.dtype == bool else values)
            alone = len(samples.named) == 1 and values.dtype.kind == "f"
            places.append(file if alone else f"{name}={file}")
        if not places:
            raise ArgumentError("Samples.inputs() has no array", ("samples",))
        samples.parts = ((",".join(places), 0.0),)
        samples._keep.append(folder)
        return samples

    @classmethod
    def loader(cls, batches: Iterable[Any]) -> Samples:
        """Token ids or pixels of a DataLoader, or of any batches: arrays, tuples whose first one is
        meant, or mappings with input_ids (and attention_mask) or pixel_values."""
        from .adapters import loader

        return loader(batches)

    @classmethod
    def dataset(
        cls,
        rows: Iterable[Any],
        tokenizer: Any = None,
        *,
        field: str = "text",
        context: int | None = None,
    ) -> Samples:
        """Rows of `datasets`, or any mappings or values: texts or messages for the tokenizer, or
        token ids; they are joined and cut into windows of `context` tokens, 512."""
        from .adapters import dataset

        return dataset(rows, tokenizer, field, context)

    @classmethod
    def conversations(
        cls, tokenizer: Any, talks: Iterable[Any], *, context: int | None = None
    ) -> Samples:
        """Lists of messages, as the chat template of a tokenizer of transformers writes them; they
        are joined and cut into windows of `context` tokens, 512."""
        from .adapters import conversations

        return conversations(tokenizer, talks, context)

    @classmethod
    def _in_memory(cls, kind: str, made: Any, values: Any, others: Any) -> Samples:
        samples = cls(kind, [("memory", 0.0)], Given("Samples", (), {}))
        samples._memory = made(values, others, samples._keep)
        return samples

    @property
    def is_memory(self) -> bool:
        return self._memory is not None

    @property
    def windows(self) -> Any:
        """Token ids in memory, [windows, length], where all windows have that length; None."""
        held = [one for one in self._keep if isinstance(one, np.ndarray)]
        return held[0].astype(np.int64) if self.kind == "text" and len(held) == 1 else None

    @classmethod
    def images(cls, path: Path, **options: Any) -> Samples:
        """CIFAR-10 batches, or a folder of JPEG and PNG files. Options: preset, split, size, mean,
        std, labels."""
        given = Given("Samples.images", IMAGES, options, {"calib": path, "data": path})
        return cls("images", [(os.fspath(path), 0.0)], given)

    @classmethod
    def of(cls, samples: Any, given: Given) -> Samples:
        """What an argument stands for: itself, or a path, which the model reads as `given` says."""
        if isinstance(samples, Samples):
            for keyword in given.any_of(TEXT + IMAGES):
                raise TypeError(f"{keyword} belongs to grail.Samples.{samples.kind}()")
            return samples
        if isinstance(samples, Mapping):
            return cls.inputs(samples)
        several = isinstance(samples, list)
        return cls("path", [_part(part) for part in (samples if several else [samples])], given)

    def check(self, model: Model) -> None:
        """Whether the model reads such samples."""
        reads_images = model.facts.reads_images
        others = self.given.any_of(TEXT if reads_images else IMAGES)
        others = [name for name in others if name not in self.given.any_of(_read_by(reads_images))]
        reads = "images" if reads_images else "text"
        if self.kind not in ("path", reads) or others:
            what = ", ".join(others) or f"Samples.{self.kind}()"
            raise ArgumentError(f"{model.path} reads {reads}; {what} applies only to others")
        if not self.parts or (reads_images and (len(self.parts) > 1 or self.parts[0][1] > 0)):
            raise ArgumentError(f"{model.path} reads {reads}; give one path, without a share")

    def fill_text(self, model: Model, source: Any, keep: list[Any]) -> None:
        """A grail_text_source."""
        self.given.fill(TEXT, ffi.addressof(source), keep)
        render_chats(model.path, source, keep)
        if self.is_memory:
            source.tokens = self._memory
        else:
            source.path = new_text(self.parts[0][0], keep)

    def new_images(self, keep: list[Any]) -> Any:
        """A grail_image_source."""
        source = ffi.new("grail_image_source *")
        keep.append(source)
        self.given.fill(IMAGES, source, keep)
        if self.is_memory:
            source.pixels = self._memory
        else:
            source.path = new_text(self.parts[0][0], keep)
        return source

    def fill(self, model: Model, read: Any, keep: list[Any]) -> None:
        """What a run reads, a grail_read_options."""
        self.check(model)
        if model.facts.reads_images:
            read.images = self.new_images(keep)
            return
        self.fill_text(model, read.text, keep)
        if len(self.parts) > 1 or self.parts[0][1] > 0:
            parts = ffi.new("grail_text_part[]", len(self.parts))
            keep.append(parts)
            for part, (path, share) in zip(parts, self.parts):
                part.path, part.share = new_text(path, keep), share
            read.parts, read.part_count = parts, len(self.parts)

    @property
    def has_preset(self) -> bool:
        return "preset" in self.given.texts or self.is_memory or bool(self.named)


def _read_by(images: bool) -> Any:
    return IMAGES if images else TEXT


def _part(part: Any) -> tuple[str, float]:
    path, share = part if isinstance(part, tuple) else (part, 0.0)
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(
            f"samples are grail.Samples, a path, or a list of paths or of (path, share), "
            f"not {type(path).__name__}"
        )
    if isinstance(part, tuple) and not 0.0 < share <= 1.0:
        raise ArgumentError(f"the share of {path} is above 0 and at most 1, not {share}")
    return os.fspath(path), float(share)
