"""Arrays of any library, without a copy: numpy's, and what speaks DLPack (torch, JAX, CuPy)."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._native import ffi, lib
from .errors import ArgumentError, ShapeError
from .options import text_of

# Kinds of DLPack's types, by their codes, and the dtypes of the library by kind and bytes.
_KINDS = {0: "i", 1: "u", 2: "f", 4: "bf", 5: "c", 6: "b"}
_NAMES = {"f2": "F16", "f4": "F32", "f8": "F64", "bf2": "BF16", "c8": "C64", "b1": "BOOL"}
_NAMES.update(
    {f"{kind}{size}": f"{kind.upper()}{8 * size}" for kind in "iu" for size in (1, 2, 4, 8)}
)
DTYPES = {text_of(lib.grail_dtype_name(i)): i for i in range(lib.GRAIL_DTYPE_COUNT)}
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
NUMPY = {name: np.dtype(key) for key, name in _NAMES.items() if key not in ("bf2", "b1")}
NUMPY["BOOL"] = np.dtype(bool)


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):  # DLTensor of dlpack.h
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("rank", ctypes.c_int32),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


def size_of(dtype: str) -> int:
    """Bytes of an element; 0 of types that store them in blocks."""
    kind = next((key for key, name in _NAMES.items() if name == dtype), "")
    return 1 if dtype.startswith("F8") else int(kind[-1:] or 0)


def bits_of(dtype: str) -> Any:
    """The numpy dtype, or that of bits where numpy has none."""
    return NUMPY.get(dtype) or np.dtype(_BITS[size_of(dtype)])


@dataclass(frozen=True)
class Array:
    """Elements in memory that `owner` keeps."""

    dtype: str  # "F32", as the library names it
    shape: tuple[int, ...]
    values: Any  # a numpy array on that memory; bits where numpy has no such dtype
    owner: Any

    @property
    def address(self) -> int:
        address: int = self.values.__array_interface__["data"][0]
        return address

    def contiguous(self) -> Array:
        """Itself, or a copy of an array with gaps or another order."""
        if self.values.flags.c_contiguous:
            return self
        return Array(self.dtype, self.shape, np.ascontiguousarray(self.values), None)

    def floats(self) -> Any:
        """Itself as f32, or a converted copy of another type."""
        if self.dtype == "BF16":
            return (self.values.astype(np.uint32) << 16).view(np.float32)
        if self.dtype not in ("F16", "F32", "F64"):
            raise TypeError(f"an array of floats is expected, not of {self.dtype}")
        return self.values.astype(np.float32, copy=False)


def view(array: Any, what: str) -> Array:
    """An array of any library on this machine's memory."""
    if isinstance(array, Array):
        return array
    if isinstance(array, np.ndarray):
        return _numpy(array, what)
    owner = array.detach() if hasattr(array, "detach") else array
    if not hasattr(owner, "__dlpack__"):
        raise TypeError(f"{what} is an array of numpy or DLPack, not {type(array).__name__}")
    try:
        capsule = owner.__dlpack__()
        tensor = _Tensor.from_address(_pointer_of(capsule, b"dltensor"))
    except Exception as failure:
        raise TypeError(f"{what} cannot be read as an array: {failure}") from failure
    if tensor.device.type != 1:
        raise TypeError(f"{what} lies on a device; move it to the processor's memory first")
    is_whole = tensor.dtype.lanes == 1 and tensor.dtype.bits % 8 == 0
    kind = _KINDS.get(tensor.dtype.code, "?") if is_whole else "?"
    name = _name(kind, tensor.dtype.bits // 8, what)
    shape = tuple(tensor.shape[0 : tensor.rank])
    bits = bits_of(name)
    if 0 in shape:
        return Array(name, shape, np.empty(shape, bits), None)
    if tensor.data is None or not all(0 < length < 2**48 for length in shape):
        raise ShapeError(f"{what} has the shape {list(shape)}, and no memory for it")
    strides = tuple(tensor.strides[0 : tensor.rank]) if tensor.strides else _packed(shape)
    return Array(name, shape, _values(tensor, bits, shape, strides), (owner, capsule))


def _packed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of an array without gaps."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _values(tensor: Any, bits: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """The memory of a tensor of DLPack; an axis that runs backwards begins at its end."""
    steps = [(length - 1) * stride for length, stride in zip(shape, strides)]
    first, last = sum(min(step, 0) for step in steps), sum(max(step, 0) for step in steps)
    size = bits.itemsize
    memory = ffi.cast("char *", tensor.data + tensor.offset + first * size)
    apart = tuple(stride * size for stride in strides)
    values = np.ndarray(
        shape, bits, ffi.buffer(memory, (last - first + 1) * size), -first * size, apart
    )
    values.flags.writeable = False
    return values


def _numpy(array: Any, what: str) -> Array:
    if not array.dtype.isnative:
        raise TypeError(f"{what} has another byte order than this machine")
    is_bf16 = array.dtype.name == "bfloat16"  # of ml_dtypes
    name = _name("bf" if is_bf16 else array.dtype.kind, array.dtype.itemsize, what)
    return Array(name, array.shape, array.view(np.uint16) if is_bf16 else array, array)


def _name(kind: str, size: int, what: str) -> str:
    name = _NAMES.get(f"{kind}{size}")
    if name is None:
        raise TypeError(f"{what} has elements of {size} bytes of a kind that grail has not")
    return name


def floats(array: Any, what: str) -> Any:
    """A contiguous numpy array of f32; no copy where it is one already."""
    return np.require(view(array, what).floats(), np.float32, ["C", "A"])


def pointer(array: Any, kind: str) -> Any:
    """The memory of a contiguous numpy array; NULL for None."""
    if array is None:
        return ffi.NULL
    return ffi.cast(kind, array.__array_interface__["data"][0])


def check_shape(array: Any, shape: tuple[int, ...], what: str) -> None:
    if array.shape != shape:
        raise ShapeError(f"{what} has the shape {list(array.shape)}; {list(shape)} is expected")


def new_tokens(ids: Any, lengths: Any, keep: list[Any]) -> Any:
    """A grail_tokens of ids [windows, length]; `lengths` of shorter windows, or None. A list of
    windows of different lengths will do."""
    if isinstance(ids, (list, tuple)):
        sizes = [len(window) for window in ids]
        if lengths is None and len(set(sizes)) > 1:
            lengths = sizes
        padded = np.zeros((len(ids), max(sizes, default=0)), np.int64)
        for row, window in zip(padded, ids):
            row[: len(window)] = integers(np.asarray(window), "a window of token ids")
        ids = padded
    values = integers(ids, "token ids", np.int32)
    if values.ndim != 2:
        raise ShapeError(f"token ids are [windows, length], not {list(values.shape)}")
    tokens = ffi.new("grail_tokens *")
    tokens.ids = pointer(values, "const int32_t *")
    tokens.windows, tokens.length = values.shape
    if lengths is not None:
        sizes = integers(lengths, "lengths")
        check_shape(sizes, values.shape[:1], "lengths")
        tokens.lengths = pointer(sizes, "const int64_t *")
        keep.append(sizes)
    keep += [values, tokens]
    return tokens


def new_pixels(values: Any, labels: Any, keep: list[Any]) -> Any:
    """A grail_pixels of images that are the network's input as they are, [images, channels, side,
    side], channels last, or one position [images, channels]."""
    images = floats(values, "pixels")
    given = images.shape
    shape = (*given, 1, 1) if len(given) == 2 else given
    first = len(shape) == 4 and shape[2] == shape[3] and (shape[1] == 3 or shape[3] != 3)
    if len(shape) != 4 or not (first or shape[1] == shape[2]):
        raise ShapeError(
            "pixels are [images, channels, side, side], [images, side, side, channels] or "
            f"[images, channels], not {list(given)}"
        )
    pixels = ffi.new("grail_pixels *")
    pixels.values = pointer(images, "const float *")
    pixels.channels_first, pixels.count, pixels.side = int(first), shape[0], shape[2]
    pixels.channels = shape[1 if first else 3]
    if labels is not None:
        classes = integers(labels, "labels")
        check_shape(classes, shape[:1], "labels")
        pixels.labels = pointer(classes, "const int64_t *")
        keep.append(classes)
    keep += [images, pixels]
    return pixels


def integers(array: Any, what: str, dtype: Any = np.int64) -> Any:
    """A contiguous numpy array of that type, of integers that it can hold."""
    values = np.asarray(array if isinstance(array, (list, tuple)) else view(array, what).values)
    if values.dtype.kind not in "iu":
        raise TypeError(f"{what} are integers, not {values.dtype}")
    limits = np.iinfo(dtype)
    if values.size > 0 and not limits.min <= values.min() <= values.max() <= limits.max:
        raise ArgumentError(f"{what} are from {limits.min} to {limits.max}")
    return np.ascontiguousarray(values, dtype)
