"""Sums, cuts and fits on arrays."""

from __future__ import annotations

import ctypes
from pathlib import Path

import grail
import numpy as np
import pytest
from grail.arrays import _Tensor, view

RANDOM = np.random.default_rng(0)
ROWS, WIDTH, OUTPUTS, KEPT = 400, 24, 10, 12
MIX = RANDOM.normal(size=(6, WIDTH))
X = (RANDOM.normal(size=(ROWS, 6)) @ MIX + 0.1 * RANDOM.normal(size=(ROWS, WIDTH))).astype("f4")
W = RANDOM.normal(size=(OUTPUTS, WIDTH)).astype("f4")
V = RANDOM.normal(size=(WIDTH, 5)).astype("f4")


class Bfloat16:
    """What another library's array of bf16 is: nothing but DLPack."""

    def __init__(self, bits: np.ndarray, device: int = 1) -> None:
        self.bits = bits
        self.shape = (ctypes.c_int64 * bits.ndim)(*bits.shape)
        self.strides = (ctypes.c_int64 * bits.ndim)(*(step // 2 for step in bits.strides))
        self.tensor = _Tensor(bits.ctypes.data, (device, 0), bits.ndim, (4, 16, 1))
        self.tensor.shape, self.tensor.strides = self.shape, self.strides

    def __dlpack__(self) -> object:
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.tensor), b"dltensor", None)


class Dlpack:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self) -> object:
        return self.array.__dlpack__()


def statistics(x: object = X, y: object = None) -> grail.Statistics:
    outputs = 0 if y is None else OUTPUTS
    return grail.Statistics(WIDTH, outputs).add(x, y)


def test_sums(tmp_path: Path) -> None:
    y = X @ W.T
    found = statistics(X, y)
    exact = X.astype(float)
    sums = found.sums()
    np.testing.assert_allclose(found.gram, exact.T @ exact, rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(sums["cross"], y.astype(float).T @ exact, rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(found.mean, exact.mean(0), rtol=1e-5, atol=1e-5)
    assert (found.count, found.weight, found.width, found.outputs) == (ROWS, ROWS, WIDTH, OUTPUTS)
    halves = statistics(X[:150], y[:150])
    halves += statistics(X[150:], y[150:])
    np.testing.assert_allclose(halves.gram, found.gram, rtol=1e-5, atol=1e-3)
    found.save(tmp_path / "sums")
    again = grail.Statistics.load(tmp_path / "sums")
    assert np.array_equal(again.gram, found.gram)
    weighted = grail.Statistics(WIDTH).add(X, roots=np.full(ROWS, 2.0))
    np.testing.assert_allclose(weighted.gram, 4.0 * found.gram, rtol=1e-5, atol=1e-2)


def test_arrays_of_all_kinds() -> None:
    expected = statistics().gram
    assert np.array_equal(statistics(Dlpack(X)).gram, expected)
    assert np.array_equal(statistics(X.reshape(20, 20, WIDTH)).gram, expected)
    assert np.array_equal(statistics(X.astype("f8")).gram, expected)
    apart = np.zeros((ROWS, 2 * WIDTH + 1), "f4")
    apart[:, 1 : WIDTH + 1] = X
    assert np.array_equal(statistics(apart[:, 1 : WIDTH + 1]).gram, expected)
    apart[:, ::2][:, :WIDTH] = X
    assert np.array_equal(statistics(apart[:, ::2][:, :WIDTH]).gram, expected)
    assert np.array_equal(statistics(np.asfortranarray(X)).gram, expected)
    assert np.array_equal(
        statistics(X[::-1]).sums()["sum"], statistics(X[::-1].copy()).sums()["sum"]
    )
    bits = (X.view("u4") >> 16).astype("u2")
    rounded = statistics((bits.astype("u4") << 16).view("f4")).gram
    assert np.array_equal(statistics(Bfloat16(bits)).gram, rounded)
    assert np.array_equal(statistics(Bfloat16(np.asfortranarray(bits))).gram, rounded)
    shifted = np.frombuffer(b"_" + X.tobytes(), np.uint8)[1:].view(np.float32)
    assert np.array_equal(statistics(shifted.reshape(X.shape)).gram, expected)
    assert view(X, "x").address == X.ctypes.data  # no copy
    assert view(Dlpack(X), "x").address == X.ctypes.data
    assert view(Bfloat16(bits), "x").address == bits.ctypes.data
    assert statistics(X[:0]).count == 0


def test_copies_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no f32 is converted some rows at a time, with the same sums."""
    given = X.astype("f8")
    y = given @ W.T.astype("f8")
    roots = np.linspace(1, 2, ROWS)
    whole = grail.Statistics(WIDTH, OUTPUTS).add(given, y, roots=roots)
    monkeypatch.setattr("grail.statistics._COPIED", 7 * WIDTH)
    parts = grail.Statistics(WIDTH, OUTPUTS).add(given, y, roots=roots)
    assert (parts.count, parts.weight) == (ROWS, pytest.approx(whole.weight))
    for name, sums in whole.sums().items():
        np.testing.assert_allclose(parts.sums()[name], sums, rtol=1e-5, atol=1e-3)
    given[10, 4] = np.nan
    with pytest.raises(grail.NumericError, match=r"row 3.*counted from row 7 of x"):
        parts.add(given, y)
    assert parts.count == ROWS


def test_the_fit_of_the_paper() -> None:
    kept = list(range(0, WIDTH, 2))
    fitted = statistics().fit(W, grail.Reducer.keep(WIDTH, kept), compensate="grail")
    gram = X.astype(float).T @ X.astype(float)
    part = gram[np.ix_(kept, kept)]
    ridge = part + 1e-3 * np.mean(np.diag(part)) * np.eye(len(kept))
    expected = np.linalg.solve(ridge, gram[kept] @ W.T.astype(float)).T
    np.testing.assert_allclose(fitted.weight, expected, rtol=1e-3, atol=1e-3)
    assert fitted.bias_change is None
    assert fitted.fallback == "none"
    assert fitted.error_after is not None
    assert fitted.error_before is not None
    assert fitted.error_after < 0.1 * fitted.error_before


def error_of(reducer: grail.Reducer, weight: np.ndarray, bias: object = 0.0) -> float:
    wanted = X @ W.T
    return float(np.square(X[:, reducer.selection] @ weight.T + bias - wanted).sum())


@pytest.mark.parametrize("selector", ["obs", "wanda", "gram-css", "magnitude-l2", "random", "flap"])
def test_selectors_and_fits(selector: str) -> None:
    fit, held = statistics(X[:300]), statistics(X[300:])
    reducer = fit.select(KEPT, consumer=W, producers=[V], selector=selector, held=held)
    assert (reducer.units, reducer.kept, reducer.folds) == (WIDTH, KEPT, False)
    assert len(set(reducer.selection.tolist())) == KEPT
    plain = reducer.narrow_consumer(W)
    assert np.array_equal(plain, W[:, reducer.selection])
    assert np.array_equal(reducer.narrow(V), V[reducer.selection])
    fitted = fit.fit(W, reducer, held=held, bias=True)
    assert fitted.weight.shape == (OUTPUTS, KEPT)
    assert fitted.bias_change.shape == (OUTPUTS,)
    assert error_of(reducer, fitted.weight, fitted.bias_change) < 0.2 * error_of(reducer, plain)


def test_foldings() -> None:
    twice = np.repeat(X[:, : WIDTH // 2], 2, axis=1)
    producers = np.repeat(V[: WIDTH // 2], 2, axis=0)
    w = np.repeat(W[:, : WIDTH // 2], 2, axis=1)
    reducer = statistics(twice).fold(WIDTH // 2, consumer=w, producers=[producers])
    assert reducer.folds
    labels = reducer.labels
    assert np.array_equal(labels[0::2], labels[1::2])  # duplicates come together
    np.testing.assert_allclose(reducer.narrow(producers), producers[reducer.selection])
    merged = twice[:, reducer.selection] @ reducer.narrow_consumer(w).T
    np.testing.assert_allclose(merged, twice @ w.T, rtol=1e-3, atol=1e-3)
    assert np.array_equal(grail.Reducer.merge(labels.tolist()).labels, labels)


def test_a_target_and_a_refit() -> None:
    dense = X @ W.T + 0.5
    found = statistics(X, dense)
    refitted = found.fit(np.zeros_like(W), bias=True, alpha=1e-9, target="dense")
    np.testing.assert_allclose(refitted.weight, W, rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(refitted.bias_change, 0.5, rtol=1e-2, atol=1e-2)


def test_convolutions() -> None:
    """A map for all kernel positions, and one for each, of units of one feature."""
    kernel = RANDOM.normal(size=(OUTPUTS, WIDTH, 3, 1)).astype("f4")
    producer = RANDOM.normal(size=(WIDTH, 7, 3, 3)).astype("f4")
    given = {"consumer": kernel, "producers": [(producer, np.ones(WIDTH))]}
    reducer = statistics().select(KEPT, **given)
    assert statistics().select(KEPT, selector="wanda", input_norms=np.ones(7), **given).kept == KEPT
    with pytest.raises(grail.ShapeError, match="one number for each input"):
        statistics().select(KEPT, selector="wanda", input_norms=np.ones(8), **given)
    shared = statistics().fit(kernel, reducer, bias=True)
    assert shared.weight.shape == (OUTPUTS, KEPT, 3, 1)
    assert shared.bias_change.shape == (OUTPUTS,)
    for position in range(3):
        alone = statistics().fit(kernel[:, :, position, 0], reducer, alpha=shared.alpha)
        np.testing.assert_allclose(shared.weight[:, :, position, 0], alone.weight, atol=0.05)
    patches = RANDOM.normal(size=(ROWS, 3 * WIDTH)).astype("f4")
    unfolded = grail.Statistics(3 * WIDTH).add(patches)
    fitted = unfolded.fit(kernel, reducer)
    assert fitted.weight.shape == (OUTPUTS, KEPT, 3, 1)
    kept = patches.reshape(ROWS, WIDTH, 3)[:, reducer.selection].reshape(ROWS, -1)
    wanted = patches @ kernel.reshape(OUTPUTS, -1).T
    plain = reducer.narrow_consumer(kernel)
    after, before = (
        np.square(kept @ weight.reshape(OUTPUTS, -1).T - wanted).sum()
        for weight in (fitted.weight, plain)
    )
    assert after < before


def test_units_of_several_features() -> None:
    reducer = statistics().select(4, consumer=W, units=6, kind="heads")
    assert reducer.narrow(V).shape == (16, 5)
    assert statistics().fit(W, reducer).weight.shape == (OUTPUTS, 16)


def test_refusals() -> None:
    found = statistics()
    spoiled = X.copy()
    spoiled[3, 4] = np.inf
    with pytest.raises(grail.NumericError, match="row 3"):
        found.add(spoiled)
    assert found.count == ROWS
    cases = [
        (lambda: found.add(X[:, 1:]), grail.ShapeError, "its last axis is 24"),
        (lambda: found.add(X, X), grail.ShapeError, "0 outputs"),
        (lambda: found.add("rows"), TypeError, "x is an array of numpy or DLPack, not str"),
        (lambda: found.add(X.astype(int)), TypeError, "an array of floats is expected, not of I64"),
        (lambda: found.add(Bfloat16(np.zeros((2, WIDTH), "u2"), 2)), TypeError, "on a device"),
        (lambda: grail.Statistics(WIDTH, 3).add(X, X[:3, :3]), grail.ShapeError, "400 rows, y 3"),
        (lambda: found.add(X, roots=[1.0]), grail.ShapeError, "roots has the shape"),
        (lambda: found.select(4, consumer=W[:, 1:]), grail.GrailError, ""),
        (lambda: found.select(0, consumer=W), grail.ArgumentError, ""),
        (lambda: found.select(4, consumer=W, units=5), grail.ShapeError, "are not 5 units"),
        (lambda: found.select(4, consumer=W, selector="best"), grail.ArgumentError, "unknown"),
        (lambda: found.fit(W, alpha="cv"), grail.ArgumentError, "needs held"),
        (lambda: found.fit(W, target="all"), grail.ArgumentError, "target takes"),
        (lambda: found.fit(W[:, 1:]), grail.ShapeError, "consumer reads 23 features"),
        (lambda: found.fit(W[0]), grail.ShapeError, "two axes or more"),
        (lambda: grail.Statistics(0), grail.ArgumentError, ""),
        (lambda: grail.Reducer.keep(4, [3, 1]), grail.ArgumentError, ""),
        (lambda: grail.Reducer.merge([0, 2]), grail.ArgumentError, ""),
        (lambda: grail.Reducer.keep(5, [0, 1]).narrow(V), grail.ShapeError, "has no 5 units"),
    ]
    for call, kind, text in cases:
        with pytest.raises(kind, match=text or None):
            call()
