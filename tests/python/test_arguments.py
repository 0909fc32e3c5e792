"""What functions take, and how they refuse the rest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Callable

import grail
import pytest
from conftest import CNN, DEMO, HELD, IMAGES, TEXT, TINY
from grail import errors, options, run
from grail._native import lib


def cut(calib: object, **given: Any) -> grail.Report:
    return grail.compress(TINY, calib=calib, **{"sparsity": 0.5, "context": 16, **given})


def test_the_options_of_the_program(program: Callable[..., str]) -> None:
    """Each is a keyword of the function, but for those of the terminal and of ranks, and that which
    measures a second network. PyTorch is that of Python."""
    left_out = {"help", "help_all", "quiet", "json", "ranks", "comm", "tolerance", "output"}
    left_out |= {"torch", "data", "tasks", "task_data", "limit", "per_document", "against"}
    needed: dict[str, dict[str, Any]] = {
        "compress": {"sparsity": 0.5},
        "heal": {"calib": TEXT, "teacher": DEMO},
        "plan": {"target_ratio": 0.5},
        "quantize": {"calib": TEXT, "type": "q4_0"},
        "gram": {"calib": TEXT},
        "export": {},
        "eval": {},
        "verify": {},
    }
    for name, arguments in needed.items():
        printed = re.findall(r"^  --([a-z-]+)", program(name, "--help-all"), re.MULTILINE)
        for keyword in {word.replace("-", "_") for word in printed} - left_out:
            with pytest.raises((grail.GrailError, TypeError, OSError)) as caught:
                getattr(grail, name)("none", "none", **{**arguments, keyword: object()})
            assert "no keyword argument" not in str(caught.value), (name, keyword)


def test_unknown_names(ids: Path) -> None:
    with pytest.raises(TypeError, match="'sample'; did you mean 'samples'"):
        cut(ids, sample=3)
    with pytest.raises(TypeError, match=r"no keyword argument 'xyzzy'$"):
        grail.eval(DEMO, HELD, xyzzy=3)
    with pytest.raises(TypeError, match="'contex'; did you mean 'context'"):
        grail.Samples.text(TEXT, contex=3)
    with pytest.raises(grail.ArgumentError, match="did you mean 'wanda'") as caught:
        cut(ids, selector="wandaa")
    assert caught.value.fields == ("selector",)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"samples": 1.5}, "samples takes an integer, not float"),
        ({"samples": True}, "samples takes an integer, not bool"),
        ({"alpha": object()}, "alpha takes a number, not object"),
        ({"repair": 1}, "repair takes True or False, not int"),
        ({"selector": 3}, "selector takes a text, not int"),
        ({"progress": 3}, "progress takes a function, not int"),
        ({"plan": "plan.json"}, "exactly one of sparsity, plan and a limit"),
        ({"windows": 3}, "windows and images are of eval"),
        ({"calib": 3}, "samples are grail.Samples, a path"),
    ],
)
def test_wrong_types(ids: Path, given: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        cut(given.pop("calib", ids), **given)


@pytest.mark.parametrize(
    ("given", "text", "fields"),
    [
        ({"samples": 0}, "samples takes an integer of at least 1, not '0'", ("samples",)),
        ({"samples": "many"}, "not 'many'", ("samples",)),
        ({"alpha": float("nan")}, "alpha takes", ("alpha",)),
        ({"sparsity": 1.5}, r"sparsity 1.5 is outside \[0, 1\)", ("sparsity",)),
        ({"sparsity": "x=y"}, "a fraction such as 0.3, not 'y'", ("sparsity",)),
        ({"sparsity": {"no-such-site": 0.5}}, "'no-such-site' is neither a site", ()),
        ({"heal_steps": 3}, "heal_steps has no effect without heal", ("heal_steps",)),
        ({"align": 8, "sparsity": None, "plan": "p"}, "no effect with plan", ("align", "plan")),
        ({"preset": "clip"}, "preset applies only to others", ()),
        ({"threads": 0}, "threads takes an integer from 1 to 1024", ("threads",)),
        ({"sites": "fnn"}, "sites takes ffn", ("sites",)),
        ({"scratch": "a\0b"}, "the character 0", ()),
        ({"sparsity": None, "target_params": "many"}, "target_params takes", ("target_params",)),
    ],
)
def test_wrong_values(ids: Path, given: dict[str, Any], text: str, fields: tuple[str]) -> None:
    with pytest.raises(grail.ArgumentError, match=text) as caught:
        cut(ids, **given)
    assert caught.value.fields == fields
    assert isinstance(caught.value, ValueError)


def test_samples() -> None:
    with pytest.raises(TypeError, match=r"context belongs to grail.Samples.text\(\)"):
        grail.eval(TINY, grail.Samples.text(HELD), context=16)
    with pytest.raises(grail.ArgumentError, match=r"reads text; Samples.images\(\) applies"):
        grail.eval(DEMO, grail.Samples.images(IMAGES))
    with pytest.raises(grail.ArgumentError, match="reads images; give one path"):
        grail.compress(CNN, calib=[(IMAGES, 0.5), (IMAGES, 0.5)], sparsity=0.5)
    with pytest.raises(grail.ArgumentError, match="above 0 and at most 1"):
        grail.Samples.text((TEXT, 1.5))
    shares = [(TEXT, 0.5), (HELD, 0.5)]
    report = grail.compress(DEMO, calib=shares, sparsity=0.3, samples=8, context=32, sites="ffn")
    assert report.totals.samples == 8


def test_exceptions(tmp_path: Path, ids: Path) -> None:
    """Each status has one, with the library's message and what it is about."""
    statuses = {name for name in dir(lib) if name.startswith("GRAIL_ERROR_") and "SIZE" not in name}
    kinds = {kind.status for kind in grail.GrailError.__subclasses__()}
    assert kinds == {getattr(lib, name) for name in statuses}
    with pytest.raises(grail.InputOutputError, match="no-such-model") as caught:
        grail.inspect("no-such-model")
    assert isinstance(caught.value, OSError)
    assert caught.value.status == lib.GRAIL_ERROR_IO
    assert caught.value.message == str(caught.value)
    with pytest.raises(grail.ExistsError, match="exists already"):
        cut(ids, output=tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(grail.FormatError):
        grail.inspect(tmp_path)
    with pytest.raises(grail.ArgumentError, match="nothing was written"):
        _ = cut(ids, dry_run=True).json
    with pytest.raises(grail.ArgumentError, match="gqa takes"):
        grail.inspect(TINY).sites_of("no")
    with pytest.raises(TypeError, match="open already"):
        grail.inspect(grail.inspect(TINY), set={"activation": "silu"})


def test_fields_have_the_names_of_keywords() -> None:
    assert errors.check(lib.GRAIL_OK) is None
    assert options.FIELDS["deviation"] == "std"
    assert options.FIELDS["what"] == "heal"
    assert options.FIELDS["open_loop"] == "loop"
    assert run._LIMITS.keys() <= set(run.plan.__kwdefaults__)


def test_what_has_no_effect(ids: Path) -> None:
    with pytest.raises(TypeError, match="windows and images are of data"):
        grail.verify(TINY, TINY, windows=3)
    with pytest.raises(TypeError, match="exactly one of calib and add"):
        grail.gram(TINY, "none")
    with pytest.raises(TypeError, match="takes nothing else"):
        grail.gram("a", "b", add=["c"], full=True)
    with pytest.raises(grail.ArgumentError, match="images applies only to networks that read"):
        grail.eval(TINY, ids, images=3)


def test_a_profile(ids: Path) -> None:
    parts = cut(ids, profile=True).json["profile"]
    assert parts["products"]["operations"] > 0
    assert "profile" not in cut(ids).json


def test_a_dry_run(ids: Path) -> None:
    report = cut(ids, dry_run=True)
    assert report.forecast is not None
    assert report.output is None
    assert 0.5 < report.ratio < 1.0
    assert {loader.name for loader in report.loaders} >= {"transformers", "vLLM"}
