"""Keyword arguments as option structs of the library, by the library's own tables.

A keyword is the name of the program's option with `_` in place of `-`. Types, ranges and words are
checked by the library, which reads each value as the program does.
"""

from __future__ import annotations

import difflib
import importlib.util
import numbers
import operator
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ._native import ffi, lib
from .errors import ArgumentError


def text_of(value: Any) -> str | None:
    """A `const char *` or `char[]` of the library."""
    return None if value == ffi.NULL else ffi.string(value).decode(errors="replace")


def new_text(text: Any, keep: list[Any]) -> Any:
    """A C string, which lives as long as `keep`."""
    encoded = os.fsencode(text)
    if b"\0" in encoded:
        raise ArgumentError(f"a text or path holds the character 0: {text!r}")
    keep.append(ffi.new("char[]", encoded))
    return keep[-1]


def name_onnxruntime() -> None:
    """Lets the library look for ONNX Runtime where Python does."""
    if "GRAIL_ONNXRUNTIME" not in os.environ:
        found = importlib.util.find_spec("onnxruntime")
        if found is not None and found.submodule_search_locations:
            os.environ["GRAIL_ONNXRUNTIME"] = found.submodule_search_locations[0]


def new_backend(name: Any, keep: list[Any]) -> Any:
    """The name of a backend as a C string. The library looks for PyTorch where Python does."""
    if str(name).startswith(("torch", "auto")) and "GRAIL_TORCH" not in os.environ:
        found = importlib.util.find_spec("torch")
        if found is not None and found.submodule_search_locations:
            os.environ["GRAIL_TORCH"] = found.submodule_search_locations[0]
    return new_text(name, keep)


def names_of(at: Any) -> list[str]:
    """A list of names of the library."""
    names: list[str] = []
    while (name := text_of(at(len(names)))) is not None:
        names.append(name)
    return names


@dataclass(frozen=True)
class Option:
    """A row of one of the library's tables."""

    row: Any
    name: str  # on the command line
    keyword: str
    field: str
    type: int
    subject: int
    is_recorded: bool
    words: tuple[str, ...]
    only_with: tuple[str, ...]
    never_with: tuple[str, ...]

    def read(self, value: Any) -> str | None:
        """The value as the program takes it; None for a flag that is off."""
        if self.type == lib.GRAIL_OPTION_FLAG:
            if not isinstance(value, bool):
                raise self._wrong("True or False", value)
            return "" if value else None
        if isinstance(value, (str, os.PathLike)):
            if isinstance(value, str) or self.type == lib.GRAIL_OPTION_TEXT:
                return os.fspath(value)
        elif self.type in _WHOLE:
            return str(_whole(self, value))
        elif self.type in _REAL:
            return _real(self, value)
        elif self.type == lib.GRAIL_OPTION_COLOUR and isinstance(value, Iterable):
            return ",".join(_real(self, part) for part in value)
        raise self._wrong("a text", value)

    @property
    def expected(self) -> str:
        text = ffi.new("char[160]")
        lib.grail_option_expected(self.row, text, 160)
        return text_of(text) or ""

    def _wrong(self, expected: str, value: Any) -> TypeError:
        return TypeError(f"{self.keyword} takes {expected}, not {type(value).__name__}")


_WHOLE = (lib.GRAIL_OPTION_INTEGER, lib.GRAIL_OPTION_SIZE, lib.GRAIL_OPTION_SEED)
_REAL = (
    lib.GRAIL_OPTION_REAL,
    lib.GRAIL_OPTION_SPARSITY,
    lib.GRAIL_OPTION_SECONDS,
    lib.GRAIL_OPTION_NUMBER,
)


def _whole(option: Option, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise option._wrong("an integer", value)
    return operator.index(value)


def _real(option: Option, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise option._wrong("a number", value)
    return str(int(value)) if isinstance(value, numbers.Integral) else repr(float(value))


def _words(words: Any) -> tuple[str, ...]:
    found: list[str] = []
    while words != ffi.NULL and words[len(found)] != ffi.NULL:
        found.append(text_of(words[len(found)]) or "")
    return tuple(found)


def _table(at: Any) -> tuple[Option, ...]:
    rows = []
    i = 0
    while (row := at(i)) != ffi.NULL:
        i += 1
        name = text_of(row.name)
        if name is not None:
            rows.append(
                Option(
                    row=row,
                    name=name,
                    keyword=name.replace("-", "_"),
                    field=text_of(row.field) or "",
                    type=row.type,
                    subject=row.subject,
                    is_recorded=row.unrecorded == 0,
                    words=_words(row.words),
                    only_with=tuple((text_of(row.only_with) or "").split()),
                    never_with=tuple((text_of(row.never_with) or "").split()),
                )
            )
    return tuple(rows)


COMPRESS = _table(lib.grail_compress_option_at)
PLAN = _table(lib.grail_plan_option_at)
EFFORT = _table(lib.grail_effort_option_at)
TEXT = _table(lib.grail_text_option_at)
IMAGES = _table(lib.grail_image_option_at)
ONNX = _table(lib.grail_onnx_option_at)


def about(table: tuple[Option, ...], *subjects: str) -> tuple[Option, ...]:
    """The rows of a table on these subjects, such as "CUT"."""
    wanted = {getattr(lib, "GRAIL_SUBJECT_" + subject) for subject in subjects}
    return tuple(option for option in table if option.subject in wanted)


def named(table: tuple[Option, ...], *keywords: str) -> tuple[Option, ...]:
    return tuple(option for option in table if option.keyword in keywords)


# Fields of the library that arguments of functions stand for, besides those of the tables.
_FIELDS = {
    **{"sparsity_" + kind: "sparsity" for kind in names_of(lib.grail_site_kind_at)},
    "path": "calib",
    "kinds": "sites",
    "count": "images",
    "what": "heal",
}
FIELDS: dict[str, str] = {
    **{
        option.field.rsplit(".", 1)[-1]: option.keyword
        for table in (ONNX, PLAN, EFFORT, IMAGES, TEXT, COMPRESS)
        for option in table
    },
    **_FIELDS,
}


@dataclass
class Given:
    """What a caller gave to a function: values of `options` by their keywords, and which of the
    function's own arguments, `own`, have a value. Unknown ones are a TypeError."""

    function: str
    options: tuple[Option, ...]
    values: Mapping[str, Any]
    own: Mapping[str, Any] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()  # arguments of the function that stand for a usual value
    texts: dict[str, str] = field(default_factory=dict)  # of the options, by their keywords

    def __post_init__(self) -> None:
        known = {option.keyword: option for option in self.options}
        for keyword, value in self.values.items():
            if keyword not in known:
                self._refuse(keyword, [*known, *self.own])
            text = None if value is None else known[keyword].read(value)
            if text is not None:
                self.texts[keyword] = text
        for keyword in self.texts:
            self._check_effect(known[keyword])

    def _refuse(self, keyword: str, known: list[str]) -> None:
        meant = difflib.get_close_matches(keyword, known, 1)
        hint = f"; did you mean '{meant[0]}'?" if meant else ""
        raise TypeError(f"{self.function}() has no keyword argument '{keyword}'{hint}")

    def _has(self, keyword: str) -> bool:
        return keyword in self.own or any(option.keyword == keyword for option in self.options)

    def _is_given(self, word: str) -> bool:
        keyword, _, value = word.replace("-", "_").partition("=")
        if keyword in self.own:
            found = self.own[keyword]
            return found is not None and (not value or found == word.partition("=")[2])
        text = self.texts.get(keyword)
        if text is None:
            return keyword in self.assumed and not value
        return not value or text == word.partition("=")[2]

    def _check_effect(self, option: Option) -> None:
        needed = [word for word in option.only_with if self._has(word.partition("=")[0])]
        if option.only_with and not any(map(self._is_given, option.only_with)):
            raise ArgumentError(
                f"{option.keyword} has no effect without "
                + " or ".join(word.replace("-", "_") for word in needed),
                (option.keyword,),
            )
        for word in filter(self._is_given, option.never_with):
            raise ArgumentError(
                f"{option.keyword} has no effect with {word.replace('-', '_')}; "
                "leave one of the two out",
                (option.keyword, word.partition("=")[0].replace("-", "_")),
            )

    def fill(self, table: tuple[Option, ...], struct: Any, keep: list[Any]) -> None:
        """Sets the fields of a struct that rows of its table describe."""
        for option in table:
            if option.keyword in self.texts and option in self.options:
                given = self.texts[option.keyword]
                new = new_backend if option.keyword == "backend" else new_text
                if lib.grail_option_set(option.row, struct, new(given, keep)) != lib.GRAIL_OK:
                    raise ArgumentError(
                        f"{option.keyword} takes {option.expected}, not '{given}'",
                        (option.keyword,),
                    )

    def any_of(self, table: tuple[Option, ...]) -> list[str]:
        """The keywords of a table that were given."""
        return [option.keyword for option in table if option.keyword in self.texts]
