"""Conversations that transformers writes by a template of no known kind."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import grail
import pytest
from conftest import DEMO, HELD

pytest.importorskip("transformers")

TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'user' %}ask: {{ m.content }} then: "
    "{% elif m.role == 'assistant' %}{{ m.content }}<|end_of_text|>"
    "{% else %}{{ raise_exception('no such role') }}{% endif %}{% endfor %}"
)
CUT = {"context": 64, "samples": 8, "sparsity": 0.3, "progress": False}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    shutil.copytree(DEMO, path)
    (path / "chat_template.jinja").write_text(TEMPLATE)
    return path


def write(path: Path, role: str) -> Path:
    talk = [{"role": role, "content": "Who is it?"}, {"role": "assistant", "content": "Theo."}]
    path.write_text((json.dumps({"messages": talk}) + "\n") * 60)
    return path


@pytest.mark.filterwarnings("error::grail.errors.GrailWarning")
def test_any_template_writes(model: Path, tmp_path: Path) -> None:
    grail.compress(model, tmp_path / "a", calib=write(tmp_path / "a.jsonl", "user"), **CUT)
    with pytest.raises(grail.FormatError, match=r"line 1.*refused by the chat template.*no such"):
        grail.compress(model, tmp_path / "b", calib=write(tmp_path / "b.jsonl", "pope"), **CUT)


@pytest.mark.filterwarnings("error::grail.errors.GrailWarning")
def test_any_template_draws_and_asks(model: Path, tmp_path: Path) -> None:
    report = grail.compress(model, tmp_path / "a", calib="self", eval=HELD, windows=1, **CUT)
    assert report.quality is not None
    assert [before.expected for before, _ in report.quality.answers] == ["Paris", "blue", "5"]
    assert "What is 2 + 3?" in (tmp_path / "a" / "README.md").read_text()


def test_without_a_tokenizer_of_transformers(model: Path, tmp_path: Path) -> None:
    (model / "tokenizer_config.json").write_text("damaged")
    with pytest.warns(grail.GrailWarning, match="drew plain text"):
        grail.compress(model, tmp_path / "a", calib="self", **CUT)
