"""Sweeps of the demonstration networks: figures, results that are continued, and failures."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grail._native")

from grail.errors import OutOfMemoryError
from grail.study.__main__ import sweep
from grail.study.cell import Network
from grail.study.errors import StudyError
from grail.study.recipe import Cell
from grail.study.results import read_results
from grail.study.sweep import Summary, run_sweep

DEMO = Path(__file__).parent.parent.parent / "demo"
RECIPE: dict[str, Any] = {
    "checkpoints": [{"name": "dec", "path": str(DEMO / "model")}],
    "selectors": ["magnitude-l1", "obs"],
    "sparsities": [0.5],
    "compensate": ["none", "full"],
    "samples": [4],
    "sites": ["ffn"],
    "calibration": {"kind": "text", "path": str(DEMO / "calibration.txt"), "context": 32},
    "evaluation": {
        "kind": "text",
        "path": str(DEMO / "calibration.txt"),
        "context": 32,
        "windows": 4,
    },
}


def write(tmp_path: Path, **more: Any) -> str:
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps({**RECIPE, **more}))
    return str(path)


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Without what differs between runs."""
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    for line in lines:
        for key in ("seconds", "peak_bytes", "crc32"):
            line.pop(key, None)
            line.get("dense", {}).pop(key, None)
        for training in line.get("healed", []):
            training.pop("seconds")
    return sorted(lines, key=json.dumps)


def test_results_are_those_of_the_c_program(tmp_path: Path) -> None:
    """sweep_lines.json has what grail 0.13's `grail sweep`, in C, wrote of this recipe."""
    grids = [{}, {"selectors": ["obs"], "compensate": ["full"], "heal": ["block"], "heal_steps": 2}]
    grids.append({"selectors": ["obs"], "loop": "open", "limit": "params", "budget": "uniform"})
    recipe = write(tmp_path, grids=grids, outcomes=True)
    summary = run_sweep(recipe, str(tmp_path / "r.jsonl"), threads=1)
    assert (summary.done, summary.failed) == (7, 0)
    before = json.loads((Path(__file__).parent / "sweep_lines.json").read_text())
    now = lines_of(tmp_path / "r.jsonl")
    for line, known in zip(now, before):
        line.get("dense", {}).pop("path", None)
        assert list(line) == list(known)
        for key, value in known.items():
            numbers = isinstance(value, (float, list, dict)) and key not in ("cell",)
            assert _near(line[key], value) if numbers else line[key] == value, key
    assert len(now) == len(before)


def _near(now: Any, before: Any) -> bool:
    if isinstance(before, dict):
        return set(now) == set(before) and all(_near(now[k], before[k]) for k in before)
    if isinstance(before, list):
        return len(now) == len(before) and all(map(_near, now, before))
    # other kernels of another processor sum in another order
    return now == (pytest.approx(before, rel=2e-2) if isinstance(before, float) else before)


def test_a_sweep_continues_and_jobs_change_nothing(tmp_path: Path) -> None:
    recipe, whole, part = write(tmp_path), tmp_path / "whole.jsonl", tmp_path / "part.jsonl"
    run_sweep(recipe, str(whole), threads=2)
    content = whole.read_bytes()
    part.write_bytes(content[: content.rindex(b'{"cell"') + 20])  # a line that was torn
    dry = run_sweep(recipe, str(part), dry_run=True)
    assert (dry.cells, dry.found, dry.done) == (4, 3, 0)
    assert part.stat().st_size == content.rindex(b'{"cell"') + 20
    summary = run_sweep(recipe, str(part), jobs=2, threads=2)
    assert (summary.found, summary.done) == (3, 1)
    assert lines_of(part) == lines_of(whole)
    assert len(read_results(str(part)).cells) == 4


def test_latencies_are_measured_beside_the_dense_network(tmp_path: Path) -> None:
    recipe = write(tmp_path, latency="grail", selectors=["magnitude-l1"], compensate=["none"])
    assert run_sweep(recipe, str(tmp_path / "r.jsonl")).done == 1
    for line in (tmp_path / "r.jsonl").read_text().splitlines()[1:]:
        made = json.loads(line)
        assert 0.0 < made.get("dense", made)["latency"] < 10.0


def test_a_cell_that_fails_is_recorded_and_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, results = write(tmp_path), tmp_path / "r.jsonl"

    def fail(network: Network, cell: Cell, memory: int) -> Any:
        if cell.settings.selector == "obs":
            raise OutOfMemoryError("out of memory in \x1b[31m a test")
        return line(network, cell, memory)

    line = Network.cell_line
    monkeypatch.setattr(Network, "cell_line", fail)
    assert sweep([recipe, "-o", str(results)]) == 1
    said = capsys.readouterr()
    assert "4 cells: 0 done before, 4 run now" in said.out
    assert "2 of 4 cells failed" in said.err
    assert r"failed: out of memory in \x1b[31m a test" in said.err
    failed = [cell for cell in read_results(str(results)).cells if cell.error is not None]
    assert len(failed) == 2
    monkeypatch.setattr(Network, "cell_line", line)
    assert sweep([recipe, "-o", str(results), "--quiet", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["found"], summary["done"], summary["failed"]) == (2, 2, 0)


def test_results_of_others_are_left_alone(tmp_path: Path) -> None:
    results = tmp_path / "r.jsonl"
    recipe = write(tmp_path, selectors=["obs"], compensate=["none"])
    run_sweep(recipe, str(results))
    good = results.read_bytes()
    cell = good.index(b"obs", good.index(b'{"cell"'))
    for content, said in (
        (b"my notes\n", "not results of a sweep; choose another file"),
        (good.replace(b"obs", b"oms", 1), "line 1: does not match its checksum"),
        (good[:cell] + b"x" + good[cell + 1 :], "line 3: does not match its checksum"),
        (good[:-1] + b" ", "line 3: does not end with a line end"),
    ):
        results.write_bytes(content)
        with pytest.raises(StudyError, match=said):
            run_sweep(recipe, str(results))
        assert results.read_bytes() == content
    results.write_bytes(good)
    other = write(tmp_path, selectors=["obs"], compensate=["none"], samples=[5])
    with pytest.raises(StudyError, match=r'results of another recipe \("samples" differs\)'):
        run_sweep(other, str(results))
    with pytest.raises(StudyError, match="not results of a sweep"):
        run_sweep(recipe, "/dev/null")
    with pytest.raises(StudyError, match="cannot open"):
        run_sweep(recipe, str(tmp_path / "none" / "r.jsonl"))


def test_a_full_disk_ends_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, results = write(tmp_path), tmp_path / "r.jsonl"
    sync = os.fsync

    def fail(descriptor: int) -> None:
        if os.fstat(descriptor).st_size > 2500:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StudyError, match=r"cannot write .*: No space left on device"):
        run_sweep(recipe, str(results))
    monkeypatch.setattr(os, "fsync", sync)
    assert run_sweep(recipe, str(results)).failed == 0
    assert len(read_results(str(results)).cells) == 4


@pytest.mark.parametrize(
    ("more", "options", "said"),
    [
        ({}, {"checkpoints": ["x"]}, "no checkpoint of the recipe, or named twice; it has dec"),
        ({}, {"memory": 1000}, "the largest cell needs an estimated .* only 1000 are allowed"),
        ({}, {"jobs": 0}, "jobs takes an integer from 1 to 256"),
        ({"latency": "grail"}, {"jobs": 2}, "latency is measured with one job alone"),
        ({"sites": ["conv"]}, {}, "none of the kinds of sites that the recipe cuts"),
        ({"evaluation": {"path": "."}}, {}, "it reads text, but no evaluation of the recipe does"),
        (
            {"evaluation": {"kind": "text", "path": "none.txt"}},
            {},
            "none.txt: cannot open the text: No such file",
        ),
        (
            {"checkpoints": [{"name": "n", "path": "none"}]},
            {},
            'checkpoint "n": .*none',
        ),
    ],
)
def test_everything_is_checked_first(
    more: dict[str, Any], options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(StudyError, match=said):
        run_sweep(write(tmp_path, **more), str(tmp_path / "r.jsonl"), **options)
    assert not (tmp_path / "r.jsonl").exists()


def test_two_sweeps_do_not_write_one_file(tmp_path: Path) -> None:
    recipe, results = write(tmp_path), str(tmp_path / "r.jsonl")

    def meanwhile(_: str, __: Summary) -> None:
        with pytest.raises(StudyError, match="another sweep is writing to this file"):
            run_sweep(recipe, results)

    assert run_sweep(recipe, results, tell=meanwhile).failed == 0


def test_ctrl_c_ends_a_sweep_within_a_moment(tmp_path: Path) -> None:
    evaluation = {**RECIPE["evaluation"], "windows": 60}
    recipe = write(tmp_path, sparsities=[i / 50 for i in range(1, 45)], evaluation=evaluation)
    command = [sys.executable, "-m", "grail.study", "sweep", recipe, "-o", "r.jsonl"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as child:
        assert child.stderr is not None
        line = ""
        while not re.match(r"2/\d+ dec, ", line):
            line = child.stderr.readline()
            assert line
        child.send_signal(signal.SIGINT)
        begin = time.monotonic()
        said = child.stderr.read()
        assert child.wait() == 130
        assert time.monotonic() - begin < 20
    assert "cells are in 'r.jsonl'; continue the sweep with:\n  grail sweep " in said
    assert len(read_results(str(tmp_path / "r.jsonl")).cells) >= 2
