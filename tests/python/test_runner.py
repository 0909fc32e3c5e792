"""Networks that run on arrays, their timing, and tasks of lm-evaluation-harness."""

from __future__ import annotations

import json
from pathlib import Path

import grail
import numpy as np
import pytest
from conftest import CNN, DEMO, HELD, TEST_IMAGES, TINY
from grail import bench

IDS = np.random.default_rng(0).integers(0, 96, (5, 24))


def test_logits_and_losses() -> None:
    runner = grail.Runner(TINY)
    logits = runner.logits(IDS).astype(np.float64)
    assert logits.shape == (5, 24, 96)
    assert np.allclose(runner.logits(IDS, last=True), logits[:, -1], rtol=0, atol=1e-5)
    losses, largest = runner.losses(IDS)
    parts = np.log(np.exp(logits).sum(-1))[:, :-1]
    targets = np.take_along_axis(logits[:, :-1], IDS[:, 1:, None], -1)[..., 0]
    assert np.allclose(losses, parts - targets, atol=1e-4)
    assert np.array_equal(largest, logits[:, :-1].argmax(-1) == IDS[:, 1:])
    perplexity = grail.eval(TINY, grail.Samples.tokens(IDS))
    assert isinstance(perplexity, grail.Perplexity)
    assert perplexity.mean_nll == pytest.approx(losses.mean(), abs=1e-6)
    assert perplexity.window_nll == pytest.approx(losses.mean(-1), abs=1e-6)


def test_two_networks_on_the_same_windows(ids: Path, tmp_path: Path) -> None:
    grail.compress(TINY, tmp_path / "narrow", calib=ids, sparsity=0.5)
    dense, cut = (grail.eval(m, grail.Samples.tokens(IDS)) for m in (TINY, tmp_path / "narrow"))
    assert isinstance(dense, grail.Perplexity) and isinstance(cut, grail.Perplexity)
    by = cut.against(dense)
    apart = np.subtract(cut.window_nll, dense.window_nll)
    assert by.mean_nll == pytest.approx(cut.mean_nll - dense.mean_nll, abs=1e-9)
    assert by.error == pytest.approx(apart.std(ddof=1) / len(apart) ** 0.5)
    one = grail.eval(TINY, grail.Samples.tokens(IDS), windows=1)
    assert isinstance(one, grail.Perplexity) and one.against(one).error is None
    with pytest.raises(grail.errors.ArgumentError, match="windows is 5 and 1"):
        cut.against(one)


def test_auto_chooses_a_backend_and_says_so(ids: Path, tmp_path: Path) -> None:
    says = "the backend is cpu: the network is small"
    with pytest.warns(grail.GrailWarning, match=says):
        logits = grail.Runner(TINY, backend="auto").logits(IDS)
    assert np.array_equal(logits, grail.Runner(TINY).logits(IDS))
    with pytest.warns(grail.GrailWarning, match=says):
        grail.eval(TINY, ids, backend="auto")
    with pytest.warns(grail.GrailWarning, match=says):
        grail.verify(TINY, TINY, backend="auto")
    with pytest.warns(grail.GrailWarning, match=says):
        report = grail.compress(TINY, tmp_path / "out", calib=ids, sparsity=0.5, backend="auto")
    assert report.json["backend"] == "cpu"


def test_windows_of_several_lengths() -> None:
    runner = grail.Runner(TINY)
    rows = [IDS[0, :7].tolist(), IDS[1].tolist(), IDS[2, :7].tolist()]
    losses, largest = runner.losses(rows)
    assert losses.shape == (3, 23)
    assert np.isnan(losses[0, 6:]).all()
    assert not largest[0, 6:].any()
    assert np.allclose(losses[2, :6], runner.losses(IDS[2:3, :7])[0][0], atol=1e-5)
    assert np.allclose(losses[1], runner.losses(IDS[1:2])[0][0], atol=1e-5)
    padded = grail.Samples.tokens(IDS, [7, 24, 7, 7, 24])
    assert grail.eval(TINY, padded).scored_tokens == 3 * 6 + 2 * 23  # type: ignore[union-attr]


def test_images() -> None:
    runner = grail.Runner(CNN)
    pixels = np.random.default_rng(0).normal(size=(6, 3, 32, 32)).astype(np.float32)
    outputs = runner.images(pixels)
    assert outputs.shape == (6, runner.outputs)
    assert np.array_equal(runner.images(np.moveaxis(pixels, 1, -1)), outputs)
    labels = outputs.argmax(-1)
    measured = grail.eval(CNN, grail.Samples.pixels(pixels, labels))
    assert isinstance(measured, grail.Accuracy)
    assert measured.top1 == 1.0
    with pytest.raises(grail.NumericError, match="image 2 in memory holds NaN"):
        pixels[2, 0, 0, 0] = np.nan
        runner.images(pixels)


def test_what_is_no_array_of_the_kind() -> None:
    runner = grail.Runner(TINY)
    with pytest.raises(grail.ArgumentError, match="token id 96 at position 1"):
        runner.losses([[0, 96]])
    with pytest.raises(TypeError, match="integers"):
        runner.losses([[0.5, 1.0]])
    with pytest.raises(grail.ArgumentError):
        runner.losses(np.array([[0, 2**40]]))
    with pytest.raises(grail.ShapeError):
        runner.losses(np.zeros(4, int))
    with pytest.raises(grail.ShapeError):
        runner.losses(IDS, [1, 2])
    with pytest.raises(grail.ShapeError):
        grail.Samples.pixels(np.zeros((2, 3, 8, 9), np.float32))
    with pytest.raises(grail.ArgumentError, match="not text"):
        grail.Runner(CNN).logits(IDS)


def test_narrowed_on_pixels_as_on_files(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).normal(size=(48, 3, 32, 32)).astype(np.float32)
    options = {"sparsity": 0.5, "samples": 48}
    first = grail.compress(CNN, calib=grail.Samples.pixels(pixels), **options)
    last = np.moveaxis(pixels, 1, -1)
    second = grail.compress(CNN, calib=grail.Samples.pixels(last), **options)
    assert first.result is not None
    assert second.result is not None
    assert all(np.array_equal(first.result[key], second.result[key]) for key in first.result)
    assert first.json["calibration"]["images"] == "memory"


def test_bench(capsys: pytest.CaptureFixture[str]) -> None:
    timings = bench.bench(TINY, TINY, runs=6, length=16, threads=1)
    assert timings[0].ratio == 1.0
    assert timings[1].ratio_low is not None
    assert bench.main([str(CNN), str(CNN), "--engine", "grail", "--runs", "1", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2
    assert bench.main([str(CNN), str(TINY)]) == 1
    assert "read images" in capsys.readouterr().err
    assert [bench._interval(n) for n in (5, 6, 8, 9, 20, 100)] == [None, 0, 0, 1, 5, 39]


def test_tasks_of_the_harness() -> None:
    pytest.importorskip("lm_eval")
    pytest.importorskip("transformers")
    from grail.lm import GrailLM

    model = GrailLM(DEMO)
    text = HELD.read_text()[:2000]

    class Request:
        args = (text,)

    (whole,) = model.loglikelihood_rolling([Request()])
    tokens = model.tok_encode(text)
    first = [model.prefix_token_id, *tokens[: model.max_length]]
    expected = -grail.Runner(DEMO).losses([first])[0].sum()
    assert len(tokens) > model.max_length or whole == pytest.approx(expected, rel=1e-5)
    (pair,) = model._loglikelihood_tokens([(("", ""), first[:5], first[5:9])])
    assert pair[0] == pytest.approx(-grail.Runner(DEMO).losses([first[:9]])[0][0, 4:].sum())


def test_accuracy_of_pixels_and_files_agree() -> None:
    of_files = grail.eval(CNN, TEST_IMAGES, images=20)
    assert isinstance(of_files, grail.Accuracy)
    assert of_files.images == 20
