"""Functions make what the program's commands make, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Callable

import grail
import pytest
from conftest import CNN, DEMO, HELD, IMAGES, TEST_IMAGES, TEXT, TINY, contents

Program = Callable[..., str]
FEW = {"samples": 8, "context": 64}
FEW_WORDS = ("--samples", 8, "--context", 64)


def card(directory: Path) -> list[str]:
    """The words of a model card; the options of its command may have another order."""
    return sorted((directory / "README.md").read_text().split())


def same(first: Path, second: Path) -> bool:
    ours, theirs = contents(first), contents(second)
    del ours["README.md"], theirs["README.md"]
    return ours == theirs and card(first) == card(second)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sparsity": 0.3}, ["--sparsity", 0.3]),
        (
            {"sparsity": {"ffn": 0.5}, "selector": "wanda", "compensate": "grail", "seed": 3},
            ["--sparsity", "ffn=0.5", "--selector", "wanda", "--compensate", "grail", "--seed", 3],
        ),
        (
            {"sparsity": 0.3, "alpha": 0.01, "loop": "open", "repair": False, "threads": 1},
            ["--sparsity", 0.3, "--threads", 1, "--loop", "open", "--alpha", 0.01],
        ),
        (
            {"target_ratio": 0.8, "budget": "error", "heal": "model", "heal_steps": 2},
            ["--target-ratio", 0.8, "--budget", "error", "--heal", "model", "--heal-steps", 2],
        ),
        (
            {"sparsity": "ffn=0.3", "quantize": "q8_0"},
            ["--sparsity", "ffn=0.3", "--quantize", "q8_0"],
        ),
    ],
)
def test_a_text_network(
    tmp_path: Path, program: Program, options: dict[str, object], words: list[object]
) -> None:
    report = grail.compress(DEMO, tmp_path / "a", calib=TEXT, **FEW, **options)
    program("compress", DEMO, "-o", tmp_path / "b", "--calib", TEXT, *FEW_WORDS, *words)
    assert same(tmp_path / "a", tmp_path / "b")
    assert report.totals.parameters < report.totals.dense.parameters


def test_a_card_with_measurements(tmp_path: Path, program: Program) -> None:
    with pytest.warns(grail.GrailWarning, match="was calibrated on this data"):
        report = grail.compress(
            DEMO, tmp_path / "a", calib=TEXT, sparsity=0.3, eval=TEXT, windows=8, **FEW
        )
    words = ["--calib", TEXT, "--sparsity", 0.3, "--eval", TEXT, "--windows", 8, *FEW_WORDS]
    printed = program("compress", DEMO, "-o", tmp_path / "b", *words, "--json")
    assert card(tmp_path / "a") == card(tmp_path / "b")
    quality = json.loads(printed)["quality"]
    assert report.quality is not None
    assert isinstance(report.quality.result, grail.Perplexity)
    assert report.quality.result.perplexity == pytest.approx(quality["result"])
    assert report.quality.dense.mean_nll > 0


def test_an_image_network(tmp_path: Path, program: Program) -> None:
    samples = grail.Samples.images(IMAGES, preset="cifar")
    few = {"samples": 16, "images": 8, "eval": TEST_IMAGES}
    report = grail.compress(CNN, tmp_path / "a", calib=samples, sparsity="conv=0.5", **few)
    words = ["--calib", IMAGES, "--preset", "cifar", "--sparsity", "conv=0.5", "--samples", 16]
    program("compress", CNN, "-o", tmp_path / "b", *words, "--eval", TEST_IMAGES, "--images", 8)
    assert same(tmp_path / "a", tmp_path / "b")
    assert report.quality is not None
    assert isinstance(report.quality.result, grail.Accuracy)


def test_plans(tmp_path: Path, program: Program) -> None:
    options = {"target_ratio": 0.7, "budget": "uniform", "sites": "ffn"}
    plan = grail.plan(DEMO, tmp_path / "a.json", calib=TEXT, **options, **FEW)
    words = ["--calib", TEXT, "--target-ratio", 0.7, "--budget", "uniform", "--sites", "ffn"]
    program("plan", DEMO, "-o", tmp_path / "b.json", *words, *FEW_WORDS)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert plan.json == json.loads(plan.text)
    grail.compress(DEMO, tmp_path / "a", calib=TEXT, plan=tmp_path / "a.json", **FEW)
    grail.compress(DEMO, tmp_path / "b", calib=TEXT, plan=plan, **FEW)
    assert (
        contents(tmp_path / "a")["model.safetensors"]
        == (contents(tmp_path / "b")["model.safetensors"])
    )
    with pytest.raises(FileExistsError):
        grail.plan(DEMO, tmp_path / "a.json", calib=TEXT, **options, **FEW)


def test_healing(tmp_path: Path, program: Program) -> None:
    grail.compress(DEMO, tmp_path / "narrow", calib=TEXT, sparsity=0.3, **FEW)
    narrow = tmp_path / "narrow"
    report = grail.heal(narrow, tmp_path / "a", teacher=DEMO, calib=TEXT, heal_steps=2, **FEW)
    words = ["--teacher", DEMO, "--calib", TEXT, "--heal-steps", 2, *FEW_WORDS]
    program("heal", narrow, "-o", tmp_path / "b", *words)
    assert same(tmp_path / "a", tmp_path / "b")
    assert report.healing[-1].steps == 2


def test_files(tmp_path: Path, program: Program) -> None:
    few = ("--calib", TEXT, *FEW_WORDS)
    rounded = grail.quantize(DEMO, tmp_path / "a.gguf", type="q4_0", calib=TEXT, **FEW)
    program("quantize", DEMO, "-o", tmp_path / "b.gguf", "--type", "q4_0", *few)
    grail.gram(DEMO, tmp_path / "c.gguf", calib=TEXT, full=True, **FEW)
    program("gram", DEMO, "-o", tmp_path / "d.gguf", "--full", *few)
    summed = grail.gram(tmp_path / "c.gguf", tmp_path / "e.gguf", add=[tmp_path / "c.gguf"])
    program("gram", tmp_path / "c.gguf", "--add", tmp_path / "c.gguf", "-o", tmp_path / "f.gguf")
    exported = grail.export(DEMO, tmp_path / "g.gguf", type="f16")
    program("export", DEMO, "-o", tmp_path / "h.gguf", "--type", "f16")
    onnx = grail.export(CNN, tmp_path / "i.onnx")
    program("export", CNN, "-o", tmp_path / "j.onnx")
    pairs = [("a", "b"), ("c", "d"), ("e", "f"), ("g", "h")]
    for ours, theirs in [(f"{a}.gguf", f"{b}.gguf") for a, b in pairs] + [("i.onnx", "j.onnx")]:
        assert (tmp_path / ours).read_bytes() == (tmp_path / theirs).read_bytes(), ours
    assert summed.samples == 16
    assert isinstance(onnx, grail.OnnxFile)
    assert onnx.bytes == (tmp_path / "i.onnx").stat().st_size
    assert isinstance(exported, grail.GgufFile)
    assert (rounded.type, exported.type) == ("Q4_0", "F16")


def test_measurements(tmp_path: Path, program: Program) -> None:
    printed = json.loads(program("eval", DEMO, "--data", HELD, "--windows", 4, "--json"))
    measured = grail.eval(DEMO, HELD, windows=4)
    assert isinstance(measured, grail.Perplexity)
    assert measured.perplexity == pytest.approx(printed["perplexity"])
    printed = json.loads(program("verify", DEMO, DEMO, "--data", HELD, "--windows", 2, "--json"))
    assert grail.verify(DEMO, DEMO, HELD, windows=2).compared == printed["tokens"]
    words = ("--preset", "cifar", "--images", 8, "--json")
    printed = json.loads(program("eval", CNN, "--data", TEST_IMAGES, *words))
    accuracy = grail.eval(CNN, TEST_IMAGES, preset="cifar", images=8)
    assert isinstance(accuracy, grail.Accuracy)
    assert accuracy.mean_nll == pytest.approx(printed["mean_nll"])


def test_models(program: Program) -> None:
    for path in (DEMO, CNN, TINY):
        model = grail.inspect(path)
        printed = json.loads(program("inspect", path, "--json"))
        assert [site.name for site in model.sites] == [site["site"] for site in printed["sites"]]
        assert model.facts.parameters == printed["parameters"]
        assert model.facts.reads_images == printed["reads_images"]
        assert (model.preparation is None) == (printed["preprocessing"] is None)
    assert grail.version == program("--version").split()[1]
