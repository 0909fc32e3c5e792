"""The library's statuses as exceptions, and calls that raise them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping

from ._native import ffi, lib

__all__ = ["ArgumentError", "CancelledError", "ExistsError", "FormatError", "GrailError"]
__all__ += ["GrailWarning", "InputOutputError", "InternalError", "NoSpaceError", "NumericError"]
__all__ += ["OutOfMemoryError", "ShapeError", "UnsupportedError"]


class GrailError(Exception):
    """What the library said: the file, the tensor or site, what was expected, what was found, and
    the remedy if there is one.

    `message` is that text, `fields` are the keyword arguments that it is about, and `status` is
    the library's code.
    """

    status = 0

    def __init__(self, message: str, fields: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.fields = fields

    def __str__(self) -> str:
        return self.message + (f" ({', '.join(self.fields)})" if self.fields else "")


class OutOfMemoryError(GrailError, MemoryError):
    status = lib.GRAIL_ERROR_MEMORY


class InputOutputError(GrailError, OSError):
    status = lib.GRAIL_ERROR_IO


class NoSpaceError(GrailError, OSError):
    status = lib.GRAIL_ERROR_SPACE


class FormatError(GrailError, ValueError):
    status = lib.GRAIL_ERROR_FORMAT


class ShapeError(GrailError, ValueError):
    status = lib.GRAIL_ERROR_SHAPE


class ArgumentError(GrailError, ValueError):
    status = lib.GRAIL_ERROR_ARGUMENT


class UnsupportedError(GrailError, NotImplementedError):
    status = lib.GRAIL_ERROR_UNSUPPORTED


class NumericError(GrailError, ArithmeticError):
    status = lib.GRAIL_ERROR_NUMERIC


class ExistsError(GrailError, FileExistsError):
    status = lib.GRAIL_ERROR_EXISTS


class CancelledError(GrailError):
    status = lib.GRAIL_ERROR_CANCELLED


class InternalError(GrailError, RuntimeError):
    status = lib.GRAIL_ERROR_INTERNAL


class GrailWarning(UserWarning):
    """What was assumed of a model or of samples."""


def warn(text: str) -> None:
    """Warns the caller of the package."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, GrailWarning, stacklevel=level)


def _find(status: int) -> type[GrailError]:
    for kind in GrailError.__subclasses__():
        if kind.status == status:
            return kind
    return GrailError


def check(status: int, names: Mapping[str, str] | None = None) -> None:
    """Raises what a call on this thread that returned `status` has said. `names` are the keyword
    arguments that stand for fields of the library's option structs."""
    if status == lib.GRAIL_OK:
        return
    message = ffi.string(lib.grail_error_message()).decode(errors="replace")
    fields = ffi.string(lib.grail_error_fields()).decode(errors="replace").split()
    known = names or {}
    given = [known.get(field.rsplit(".", 1)[-1], field.rsplit(".", 1)[-1]) for field in fields]
    raise _find(status)(message, tuple(dict.fromkeys(given)))
