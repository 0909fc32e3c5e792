"""Values that no argument takes: each is an exception, and none ends the interpreter. Sanitizers
see more (CONTRIBUTING.md)."""

from __future__ import annotations

import copy
import ctypes
import pickle
from pathlib import Path
from typing import Any, Callable

import grail
import numpy as np
import pytest
from conftest import CNN, TINY
from grail.arrays import _Tensor, view

X = np.ones((8, 4), np.float32)
W = np.ones((2, 4), np.float32)
IDS = grail.Samples.tokens(np.ones((4, 16), int))
PIXELS = np.zeros((1, 3, 8, 8), np.float32)
BAD = [None, 3, -1, 2**70, float("nan"), "x", b"x", [], {}, X, object(), grail.Statistics]
# What Python itself says of a number, or of a text for one, that is out of range.
KINDS = (grail.GrailError, TypeError, ValueError, OverflowError, FileNotFoundError)
MADE = grail.Statistics(4).add(X)
KEPT = MADE.select(2, consumer=W)

CALLS: dict[str, Callable[[Any], Any]] = {
    "add": lambda bad: grail.Statistics(4).add(bad),
    "add y": lambda bad: grail.Statistics(4).add(X, bad),
    "add roots": lambda bad: grail.Statistics(4).add(X, roots=bad),
    "add statistics": lambda bad: grail.Statistics(4).__iadd__(bad),
    "statistics": lambda bad: grail.Statistics(bad),
    "outputs": lambda bad: grail.Statistics(4, bad),
    "load": lambda bad: grail.Statistics.load(bad),
    "select": lambda bad: MADE.select(bad, consumer=W),
    "select consumer": lambda bad: MADE.select(2, consumer=bad),
    "select producers": lambda bad: MADE.select(2, consumer=W, producers=bad),
    "select producer": lambda bad: MADE.select(2, consumer=W, producers=[bad]),
    "select held": lambda bad: MADE.select(2, consumer=W, held=bad),
    "select norms": lambda bad: MADE.select(2, consumer=W, input_norms=bad),
    **{
        f"select {name}": lambda bad, name=name: MADE.select(2, consumer=W, **{name: bad})
        for name in ("units", "selector", "kind", "groups", "target", "seed")
    },
    "fit": lambda bad: MADE.fit(bad),
    "fit reducer": lambda bad: MADE.fit(W, bad),
    **{
        f"fit {name}": lambda bad, name=name: MADE.fit(W, KEPT, **{name: bad})
        for name in ("held", "compensate", "selector", "alpha", "target")
    },
    "keep": lambda bad: grail.Reducer.keep(4, bad),
    "keep of": lambda bad: grail.Reducer.keep(bad, [0]),
    "merge": lambda bad: grail.Reducer.merge(bad),
    "narrow": lambda bad: KEPT.narrow(bad),
    "narrow consumer": lambda bad: KEPT.narrow_consumer(bad),
    "config": lambda bad: grail.Model.from_tensors(bad, {"a": X}),
    "tensors": lambda bad: grail.Model.from_tensors({}, bad),
    "tensor": lambda bad: grail.Model.from_tensors({}, {"a": bad}),
    "tensor name": lambda bad: grail.Model.from_tensors({}, {bad: X}),
    "documents": lambda bad: grail.Model.from_tensors({}, {"a": X}, documents=bad),
    "document": lambda bad: grail.Model.from_tensors({}, {"a": X}, documents={"b": bad}),
    "dtypes": lambda bad: grail.Model.from_tensors({}, {"a": X}, dtypes=bad),
    "set": lambda bad: grail.inspect(TINY, set=bad),
    "type": lambda bad: grail.inspect(TINY, type=bad),
    "inspect": lambda bad: grail.inspect(bad),
    "tokens": lambda bad: grail.Runner(TINY).logits(bad),
    "lengths": lambda bad: grail.Runner(TINY).losses([[1, 2]], bad),
    "pixels": lambda bad: grail.Runner(CNN).images(bad),
    "labels": lambda bad: grail.Samples.pixels(PIXELS, bad),
    "text": lambda bad: grail.Samples.text(bad),
    "loader": lambda bad: grail.eval(TINY, grail.Samples.loader(bad)),
    "dataset": lambda bad: grail.eval(TINY, grail.Samples.dataset(bad)),
    "runner": lambda bad: grail.Runner(bad),
    "precision": lambda bad: grail.Runner(TINY, precision=bad),
    "threads": lambda bad: grail.Runner(TINY, threads=bad),
    "eval": lambda bad: grail.eval(TINY, bad),
    "progress": lambda bad: grail.eval(TINY, IDS, progress=bad),
    "windows": lambda bad: grail.eval(TINY, IDS, windows=bad),
    "calib": lambda bad: grail.compress(TINY, calib=bad, sparsity=0.5),
    "sparsity": lambda bad: grail.compress(TINY, calib=IDS, sparsity=bad),
    "plan": lambda bad: grail.compress(TINY, calib=IDS, plan=bad),
    "sites": lambda bad: grail.compress(TINY, calib=IDS, sparsity=0.5, sites=bad),
    "limit": lambda bad: grail.plan(TINY, calib=IDS, target_params=bad),
    "teacher": lambda bad: grail.heal(TINY, teacher=bad, calib=IDS),
    "verify": lambda bad: grail.verify(TINY, bad),
    "files to add": lambda bad: grail.gram("none.gguf", "sums.gguf", add=bad),
    "export": lambda bad: grail.export(CNN, bad),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore")
def test_junk(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused = 0
    for bad in BAD:
        try:
            CALLS[name](bad)
        except KINDS as refusal:
            assert str(refusal)
            refused += 1
    assert refused >= 5  # the others are a value of the argument's


class Exporter:
    """A library whose DLPack says what it likes."""

    def __init__(self, shape: Any = (8, 4), strides: Any = None, **fields: Any) -> None:
        self.tensor = _Tensor(X.ctypes.data, (1, 0), len(shape), (2, 32, 1))
        self.shape = self.tensor.shape = (ctypes.c_int64 * len(shape))(*shape)
        if strides is not None:
            self.strides = self.tensor.strides = (ctypes.c_int64 * len(strides))(*strides)
        for name, value in fields.items():
            setattr(self.tensor, name, value)

    def __dlpack__(self) -> Any:
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.tensor), b"dltensor", None)


class Returns:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __dlpack__(self) -> Any:
        return self.value


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (Exporter(dtype=(2, 32, 2)), "of a kind that grail has not"),
        (Exporter(dtype=(0, 4, 1)), "of a kind that grail has not"),
        (Exporter(dtype=(9, 32, 1)), "of a kind that grail has not"),
        (Exporter(device=(2, 0)), "on a device"),
        (Exporter(data=None), "no memory"),
        (Exporter(shape=(-8, 4)), "no memory"),
        (Exporter(shape=(2**62, 4)), "no memory"),
        (Exporter(rank=-1), "last axis"),
        (Exporter(shape=()), "last axis"),
        (Returns(None), "cannot be read"),
        (Returns(X), "cannot be read"),
    ],
)
def test_exporters(array: Any, text: str) -> None:
    with pytest.raises((TypeError, grail.ShapeError), match=text):
        grail.Statistics(4).add(array)


def test_axes_that_run_backwards() -> None:
    array = np.arange(32, dtype=np.float32).reshape(8, 4)
    for given in (array[::-1], array[:, ::-1], array[::-2, ::-1], array[:1].repeat(3, 0)):
        assert np.array_equal(view(Returns(given.__dlpack__()), "x").values, given)
    assert view(Exporter(shape=(3, 4), strides=(0, 1)), "x").values.shape == (3, 4)


def test_copies_of_objects() -> None:
    """Another reference, or refused; never a second owner of what the library has made."""
    model = grail.inspect(TINY)
    for made in (model, grail.Runner(model), grail.Statistics(4).add(X), KEPT):
        assert vars(copy.copy(made)) == vars(made)
        with pytest.raises(TypeError):
            pickle.dumps(made)
        with pytest.raises(TypeError):
            copy.deepcopy(made)
    with pytest.raises(AttributeError):
        grail.Statistics.__new__(grail.Statistics).add(X)
