"""Networks of ONNX with several outputs."""

from __future__ import annotations

from pathlib import Path

import grail
import numpy as np
import pytest

NETWORK = Path(__file__).parents[1] / "golden/vision/onnx/outputs.onnx"
CLASSIFIER = Path(__file__).parents[2] / "demo/vision/cnn.pth"
CHANNELS = NETWORK.with_name("channels.onnx")
NAMES = ["far", "middle", "scores", "near", "embedding"]


def test_each_output_is_compared_by_itself() -> None:
    c = grail.verify(NETWORK, NETWORK)
    assert [o.name for o in c.outputs] == NAMES
    assert all(o.relative_error == 0.0 and not o.is_zero for o in c.outputs)
    assert [o.name for o in c.outputs if o.mean_kl is not None] == ["scores"]
    assert c.worst == "far" and c.mean_kl is None


def test_a_runner_gives_one_row() -> None:
    assert grail.inspect(NETWORK).facts.outputs == len(NAMES)
    with pytest.raises(grail.GrailError, match="several outputs"):
        grail.Runner(NETWORK).images(np.zeros((1, 3, 32, 32), np.float32))


def test_arrays_of_any_channels_are_samples(tmp_path: Path) -> None:
    images = np.random.default_rng(0).normal(size=(20, 5, 32, 32)).astype(np.float32)
    np.save(tmp_path / "images.npy", images)
    results = []
    for name, calib in (
        ("a", grail.Samples.pixels(images)),
        ("b", grail.Samples.pixels(np.moveaxis(images, 1, -1))),
        ("c", tmp_path / "images.npy"),
        ("d", grail.Samples.loader(images[i : i + 5] for i in range(0, 20, 5))),
    ):
        output = tmp_path / name
        grail.compress(CHANNELS, calib=calib, output=output, sparsity=0.5, align=1, threads=1)
        results.append((output / CHANNELS.name).read_bytes())
    assert results[0] == results[1] == results[2] == results[3]
    c = grail.verify(CHANNELS, tmp_path / "c", tmp_path / "images.npy")
    assert c.compared == 20 and [o.name for o in c.outputs] == ["mask"]
    assert 0.0 < c.outputs[0].relative_error == c.relative_error < 1.0
    assert grail.inspect(CHANNELS).facts.channels == 5
    with pytest.raises(grail.ShapeError, match="3 channels, but the network reads 5"):
        grail.verify(CHANNELS, CHANNELS, grail.Samples.pixels(images[:, :3]))


@pytest.mark.filterwarnings("ignore:.*calibrated on this data")
def test_images_without_classes_are_compared_with_the_dense_network() -> None:
    images = np.random.default_rng(0).normal(size=(20, 3, 32, 32)).astype(np.float32)
    labels = grail.Runner(CLASSIFIER).images(images).argmax(-1)
    of = {"calib": grail.Samples.pixels(images), "sparsity": 0.5, "threads": 1}
    compared = grail.compress(CLASSIFIER, eval=of["calib"], **of).quality
    assert compared is not None and compared.dense is None
    assert isinstance(compared.result, grail.Comparison)
    assert compared.result.top1_agreement is not None
    measured = grail.compress(CLASSIFIER, eval=grail.Samples.pixels(images, labels), **of).quality
    assert measured is not None and isinstance(measured.dense, grail.Accuracy)
    assert isinstance(measured.result, grail.Accuracy)
    assert measured.result.top1 == pytest.approx(compared.result.top1_agreement)


def test_results_are_compared_with_the_dense_network(tmp_path: Path) -> None:
    images = np.random.default_rng(0).normal(size=(20, 5, 32, 32)).astype(np.float32)
    samples = grail.Samples.pixels(images)
    with pytest.warns(grail.GrailWarning, match="calibrated on this data"):
        report = grail.compress(
            CHANNELS, calib=samples, output=tmp_path / "out", sparsity=0.5, threads=1, eval=samples
        )
    quality = report.quality
    assert quality is not None and quality.dense is None
    assert isinstance(quality.before, grail.Comparison)
    assert isinstance(quality.result, grail.Comparison)
    assert quality.result.relative_error < quality.before.relative_error
    assert "| this network | " in (tmp_path / "out" / "README.md").read_text()
