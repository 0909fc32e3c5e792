"""The page of a sweep: its numbers, its files, names that are markup, and results that are bad."""

from __future__ import annotations

import base64
import errno
import gzip
import hashlib
import html.parser
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grail.study.__main__ import report
from grail.study.errors import StudyError
from grail.study.report import estimate, write_report
from grail.study.report.aggregate import Aggregate
from grail.study.report.data import page_data
from grail.study.results import Results, line_text

HERE = Path(__file__).parent
RESULTS = HERE.parent.parent / "docs" / "results"
MAKE = HERE / "make_results.py"
NAN = math.nan


def data_of(page: Path) -> Any:
    text = page.read_text(encoding="utf-8")
    found = re.search('<script id="data" type="application/json">(.*?)</script>', text, re.S)
    assert found is not None
    return json.loads(found[1])


@pytest.fixture
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sweep") / "sweep.jsonl"
    path.write_bytes((RESULTS / "vision.jsonl").read_bytes())
    return path


# -- numbers ---------------------------------------------------------------------------------------

GOLDEN = json.loads(gzip.decompress((HERE / "pages.json.gz").read_bytes()))


def assert_same(now: Any, before: Any, place: str) -> None:
    """Numbers to 13 digits: the last ones are of the C library's functions. Commands name the
    metric, since `auto` is the usual one."""
    if isinstance(now, str):
        now = now.replace(" --metric plain", "")
    if isinstance(before, dict):
        assert set(now) >= set(before), place
        for key, value in before.items():
            assert_same(now[key], value, f"{place}.{key}")
    elif isinstance(before, list):
        assert len(now) == len(before), place
        for i, value in enumerate(before):
            assert_same(now[i], value, f"{place}[{i}]")
    elif isinstance(before, float):
        assert now == pytest.approx(before, rel=1e-13, abs=1e-13), place
    else:
        assert now == before and type(now) is type(before), place


@pytest.mark.parametrize("name", sorted(path.stem for path in RESULTS.glob("*.jsonl")))
def test_pages_are_those_of_the_c_program(name: str, tmp_path: Path) -> None:
    """pages.json.gz has the data of the pages that grail 0.13's `grail report`, in C, wrote."""
    write_report(str(RESULTS / f"{name}.jsonl"), str(tmp_path / "page.html"))
    assert_same(data_of(tmp_path / "page.html"), GOLDEN[name], name)


def cell(compensate: str, sparsity: float, **more: Any) -> dict[str, Any]:
    settings = {"checkpoint": "n", "selector": "obs", "sparsity": sparsity}
    settings.update(compensate=compensate, samples=8, seed=0, loop="closed")
    own = {key: more.pop(key) for key in list(more) if key in ("seed", "samples", "loop", "heal")}
    return {"cell": {**settings, **own}, "parameters": round(1000 * (1 - sparsity)), **more}


def data_from(*lines: dict[str, Any]) -> Any:
    results = Results()
    for number, line in enumerate([{"grail_results": 1}, *lines], 1):
        results.add_line(json.dumps(line).encode(), number)
    return page_data(Aggregate(results))


def groups(data: Any) -> list[dict[str, Any]]:
    table = data["tables"]["groups"]
    return [dict(zip(table["columns"], row)) for row in table["rows"]]


DENSE = {"dense": {"checkpoint": "n", "parameters": 1000, "top1": 0.9, "images": 1000}}


def test_seeds_become_a_mean_and_gains_are_paired_by_seed() -> None:
    plain = [cell("none", 0.5, seed=s, top1=0.3 + s / 10, images=1000) for s in (0, 1)]
    full = [cell("full", 0.5, seed=s, top1=0.6 + s / 5, images=1000) for s in (0, 1)]
    first, second = groups(data_from(DENSE, *plain, *full))
    assert (first["runs"], first["value"], first["gain"]) == (2, 0.35, None)
    assert second["gain"] == pytest.approx(0.35)
    assert second["lost"] == pytest.approx(20)


def test_of_equal_cells_the_last_line_counts() -> None:
    failed = {**cell("full", 0.5), "error": "out of memory"}
    data = data_from(DENSE, failed, cell("full", 0.5, top1=0.5, images=10))
    assert data["facts"]["superseded"] == 1
    assert data["facts"]["failed"] == 0
    assert [g["value"] for g in groups(data)] == [0.5]


def test_the_decision_names_the_largest_cut_of_each_limit() -> None:
    lines = [cell("full", r, top1=t, images=10**6) for r, t in ((0.1, 0.895), (0.5, 0.87))]
    data = data_from(DENSE, *lines)
    decisions = data["networks"][0]["decisions"]
    assert [(d["limit"], d["row"]) for d in decisions] == [(1, 0), (2, 0), (5, 1)]
    assert "--sparsity 0.5" in decisions[2]["command"]


def test_many_checkpoints_share_the_section_of_their_architecture() -> None:
    lines = []
    for i in range(9):
        name, more = f"n{i}", {"architecture": "ab"[i % 2], "top1": 0.9, "images": 10}
        lines.append({"dense": {"checkpoint": name, **more}})
        lines.append(cell("full", 0.5, top1=0.5, images=10))
        lines[-1]["cell"]["checkpoint"] = name
    networks = data_from(*lines)["networks"]
    assert [(n["name"], n["is_architecture"], n["checkpoints"]) for n in networks] == [
        ("a", True, 5),
        ("b", True, 4),
    ]


def test_intervals() -> None:
    wilson = estimate.of_share(81 / 263, 263, NAN)  # Newcombe 1998, table I
    assert (wilson.low, wilson.high) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    newcombe = estimate.of_share(56 / 70, 70, NAN).minus(estimate.of_share(48 / 80, 80, NAN))
    assert newcombe == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)  # table II, method 10
    runs = [estimate.Estimate(x, x - 3, x + 4) for x in (1.0, 2.0, 3.0)]
    reach = 4.302653 / math.sqrt(3)  # Student's quantile for 2 degrees of freedom
    mean = (2.0, 2 - math.hypot(3, reach), 2 + math.hypot(4, reach))
    assert estimate.of_runs(runs) == pytest.approx(mean, abs=1e-6)
    for freedom, quantile in ((10, 2.228139), (11, 2.200985), (30, 2.042272), (60, 2.000298)):
        assert estimate.student_975(freedom) == pytest.approx(quantile, abs=2e-4)
    # scipy's t.ppf and norm.ppf in the formulas of docs/numerics.md
    a, b = (np.array(x) for x in ([1.5, 0.9, 2.0, 1.1], [1.3, 1.0, 1.6, 1.05]))
    assert estimate.of_losses(a, b) == pytest.approx((0.1375, -0.2023854, 0.4773854), abs=1e-6)
    a, b = np.zeros(100), np.zeros(100)
    a[:12], b[12:15] = 1, 1
    assert estimate.of_hits(a, b) == pytest.approx((0.09, 0.01330564, 0.16316495), abs=1e-6)


def test_numbers_beyond_doubles_are_unknown() -> None:
    text = {"perplexity": 1e308, "perplexity_error": 1e308, "windows": 2, "context": 8}
    network = {"dense": {"checkpoint": "n", **text}}
    data = data_from(network, cell("none", 0.1, **text), cell("full", 0.1, **text))
    json.dumps(data, allow_nan=False)
    assert groups(data)[0]["high"] is None


# -- files -----------------------------------------------------------------------------------------


class Page(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.inside: dict[str, str] = {}

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        names = dict(attributes)
        assert not [n for n in names if n in ("src", "href", "style") or n.startswith("on")]
        if tag != "meta":
            self.open.append(names.get("id") or tag if tag == "script" else tag)

    def handle_data(self, data: str) -> None:
        if self.open:
            self.inside[self.open[-1]] = self.inside.get(self.open[-1], "") + data

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag or tag == "script"


def test_page_and_tables_with_names_that_are_markup(tmp_path: Path) -> None:
    results, file = tmp_path / "r.jsonl", tmp_path / "page.html"
    subprocess.run([sys.executable, MAKE, results, "--hostile"], check=True)
    write_report(str(results), str(file), tsv=str(tmp_path / "figures"))
    text, page = file.read_text(encoding="utf-8"), Page()
    page.feed(text)
    assert not page.open
    assert not set(page.inside["data"]) & set("<>&\u2028\u202e\x01")
    assert not set(text) & set("\u2028\u202e\x01")
    for part in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(page.inside[part].encode()).digest()).decode()
        assert f"{part}-src 'sha256-{digest}'" in text
    data = data_of(file)
    files = {path.stem: path for path in (tmp_path / "figures").iterdir()}
    assert set(files) == {figure["file"] for figure in data["figures"]}
    for figure in data["figures"]:
        content = files[figure["file"]].read_text(encoding="utf-8")
        head, *lines = [line.split("\t") for line in content.rstrip("\n").split("\n")]
        table = data["tables"][figure["table"]]
        assert head == ["figure", *table["columns"]]
        assert len(lines) == len(figure["rows"])
        for row, cells in zip(figure["rows"], lines):
            for value, shown in zip([figure["kind"], *table["rows"][row]], cells):
                is_text = isinstance(value, str)
                assert shown == "" if value is None else is_text or json.loads(shown) == value
                assert not any(ord(c) < 32 or c == "\u202e" for c in shown)


def test_only_a_report_is_replaced(sweep: Path, tmp_path: Path) -> None:
    page, other = tmp_path / "page.html", tmp_path / "mine.html"
    write_report(str(sweep), str(page))
    first = page.read_bytes()
    page.write_bytes(first.replace(b"resnet", b"other"))
    write_report(str(sweep), str(page))
    assert page.read_bytes() == first
    other.write_text("<html><title>mine</title>")
    (tmp_path / "link.html").symlink_to(page)
    os.mkfifo(tmp_path / "pipe.html")
    for name, said in (
        ("mine.html", "exists and was not written by grail report"),
        ("link.html", "is a symbolic link, and a report can replace only a regular file"),
        ("pipe.html", "is a device or a pipe"),
        (".", "is a directory"),
        ("none/page.html", "cannot create"),
    ):
        with pytest.raises(StudyError, match=said):
            write_report(str(sweep), str(tmp_path / name))
    with pytest.raises(StudyError, match="is the results file"):
        write_report(str(sweep), str(sweep))
    (tmp_path / "02-scatter.tsv").write_text("my own figures")
    with pytest.raises(StudyError, match=r"02-scatter\.tsv' exists"):
        write_report(str(sweep), str(tmp_path / "new.html"), tsv=str(tmp_path))
    assert not (tmp_path / "new.html").exists()
    assert other.read_text() == "<html><title>mine</title>"


def test_a_full_disk_leaves_the_page_that_was_there(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    page = tmp_path / "page.html"
    write_report(str(sweep), str(page))
    before = page.read_bytes()
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StudyError, match="No space left on device"):
        write_report(str(sweep), str(page))
    assert page.read_bytes() == before
    assert os.listdir(tmp_path) == ["page.html"]


def test_figures_are_drawn_by_a_program_of_path(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, programs = str(tmp_path / "page.html"), tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(StudyError, match="needs node or chromium"):
        write_report(str(sweep), page, svg=str(tmp_path / "svg"))
    drawing = '<svg xmlns=\\"http://www.w3.org/2000/svg\\" role=\\"img\\" width=\\"1\\"/>'
    for name, printed, said in (
        ("node", f'{{"01-x.svg": "{drawing}"}}', None),
        ("node", f'{{"../x.svg": "{drawing}"}}', "drew something else than SVG files"),
        ("node", "", "did not run the script"),
        ("chromium", f'<pre>{{"02-x.svg": "{drawing}"}}</pre>', None),
    ):
        for old in programs.iterdir():
            old.unlink()
        (programs / name).write_text(f"#!/bin/sh\n/bin/cat >/dev/null\necho '{printed}'\n")
        (programs / name).chmod(0o755)
        if said is None:
            write_report(str(sweep), page, svg=str(tmp_path / "svg"))
        else:
            with pytest.raises(StudyError, match=said):
                write_report(str(sweep), page, svg=str(tmp_path / "svg"))
    assert sorted(os.listdir(tmp_path / "svg")) == ["01-x.svg", "02-x.svg"]


def test_node_draws_every_figure(sweep: Path, tmp_path: Path) -> None:
    if not any(os.access(f"{d}/node", os.X_OK) for d in os.environ["PATH"].split(":")):
        pytest.skip("node is not installed")
    write_report(str(sweep), str(tmp_path / "page.html"), svg=str(tmp_path / "svg"))
    kinds = {name.split("-")[1] for name in os.listdir(tmp_path / "svg")}
    assert kinds >= {"tradeoff", "accuracy", "gain", "sites", "cost"}


# -- bad results -----------------------------------------------------------------------------------


def refused(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(StudyError) as found:
        write_report(str(path), str(path.with_suffix(".html")))
    assert not path.with_suffix(".html").exists()
    assert str(found.value).startswith(f"{path}: ")
    return str(found.value)


HEADER = b'{"grail_results":1}\n'
CELL = '{"cell":{"checkpoint":"n","selector":"obs","sparsity":0.5,"compensate":"full"'


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2: not valid JSON"),
        ("[]", "line 2: expected an object, found []"),
        ("{}", 'line 2: expected an object "dense" or "cell"'),
        ('{"cell":{"checkpoint":"n"}}', 'line 2: cell: "selector" is missing'),
        (CELL + ',"sparsity":1}}', "an object has a key twice"),
        (CELL.replace("0.5", "1.5") + "}}", "cell.sparsity: expected a number of"),
        (CELL.replace("full", "no") + "}}", "cell.compensate: expected one of none"),
        (CELL + ',"seed":-1}}', "seed: expected an integer of at least 0 or null"),
        (CELL + '},"top1":NaN}', "NaN is not a number that JSON has"),
        (CELL + '},"top1":1e999}', "1e999 is not a number that JSON has"),
        (CELL + '},"top1":"x"}', "line 2: top1: expected a number of 0 to 1 or null"),
        (CELL + '},"macs":-1}', "line 2: macs: expected a number of 0 to 1e+18"),
        (CELL + '},"hits":"f","images":9}', '"hits" does not have a hexadecimal'),
        (CELL + '},"losses":[1],"windows":2}', '"losses" has not as many'),
        (CELL + '},"sites":[{"name":""}]}', "line 2: sites[0].name: expected text"),
        (CELL + '},"seconds":[]}', "line 2: seconds: expected an object or null"),
        ("[" * 100_000, "line 2: not valid JSON"),
        ('{"dense":{"checkpoint":"\\ud800\\u0000\\u202e","top1":2}}', "line 2: dense.top1"),
    ],
)
def test_a_bad_line_is_named(line: str, said: str, tmp_path: Path) -> None:
    assert said in refused(tmp_path / "r.jsonl", HEADER + line.encode() + b"\n")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"hello\n", "these are not the results of a sweep"),
        (b"\xff\xfe\n", "these are not the results of a sweep"),
        (b'{"grail_results":9}\n', "version 9, but this grail reads versions 1 to 2"),
        (b'{"grail_results":2}\n', "line 1: has no checksum"),
        (line_text({"grail_results": 2}).replace(b"2", b"1", 1), "does not match its checksum"),
        (HEADER + b"{" + b" " * (5 << 20) + b"}\n", "line 2: the line has 5242882 bytes"),
    ],
)
def test_other_files_are_refused(content: bytes, said: str, tmp_path: Path) -> None:
    assert said in refused(tmp_path / "r.jsonl", content)


def test_large_files_pipes_and_missing_files_are_refused(tmp_path: Path) -> None:
    with open(tmp_path / "large.jsonl", "wb") as file:
        file.truncate(257 << 20)
    os.mkfifo(tmp_path / "pipe.jsonl")
    for name, said in (
        ("large.jsonl", "not a regular file of at most"),
        ("pipe.jsonl", "not a regular file of at most"),
        ("none.jsonl", "cannot open"),
    ):
        with pytest.raises(StudyError, match=said):
            write_report(str(tmp_path / name), str(tmp_path / "page.html"))


def test_an_incomplete_last_line_is_left_out(
    sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, page = tmp_path / "r.jsonl", tmp_path / "page.html"
    results.write_bytes(sweep.read_bytes()[:20_000])
    number = results.read_bytes().count(b"\n") + 1
    assert report([str(results), "-o", str(page)]) == 0
    said = capsys.readouterr()
    assert f"line {number}, the last of '{results}', is incomplete and was ignored" in said.err
    assert f"{page}: " in said.out
    assert data_of(page)["facts"]["cut_line"] == number
    whole = line_text({"dense": {"checkpoint": "n"}})
    results.write_bytes(HEADER + whole[:-1] + b"x")  # its line end was overwritten
    assert report([str(results), "-o", str(page), "--quiet"]) == 1
    assert "line 2: not valid JSON" in capsys.readouterr().err


def test_unknown_fields_are_ignored_and_names_shown_safely(tmp_path: Path) -> None:
    line = cell("full", 0.5, top1=0.5, images=10, new={"field": 1})
    line["cell"]["selector"] = "\ud800\x00\u202e</script>"
    (tmp_path / "r.jsonl").write_bytes(HEADER + json.dumps(line).encode() + b"\n")
    write_report(str(tmp_path / "r.jsonl"), str(tmp_path / "page.html"), tsv=str(tmp_path / "t"))
    table = (tmp_path / "t" / "01-tradeoff.tsv").read_text(encoding="utf-8")
    assert "\\ud800\\x00\\u202e</script>" in table


def test_numbers_on_other_data_are_refused() -> None:
    def dense(sha256: str, windows: int) -> dict[str, Any]:
        return {"dense": {"checkpoint": "n", "data_sha256": sha256, "windows": windows}}

    for other in (dense("b", 3), dense("a", 4)):
        with pytest.raises(StudyError, match=r"line 3: .* on other data.* than line 2 says"):
            data_from(dense("a", 3), other)


def test_a_recipe_that_nests_deeply_is_refused(tmp_path: Path) -> None:
    header = '{"grail_results":1,"recipe":{"a":%s}}\n' % ("[" * 900 + "]" * 900)
    path = tmp_path / "r.jsonl"
    path.write_text(header)
    try:
        write_report(str(path), str(tmp_path / "page.html"))
    except StudyError as error:
        assert "nests too deeply" in str(error) or "recursion" in str(error)


def test_a_browser_shows_the_page(tmp_path: Path) -> None:
    """page.sh looks at it in Chromium, where that is installed."""
    program = tmp_path / "grail"
    package = f"{sys.executable} -m grail.study"
    paths = ":".join(filter(None, sys.path))
    program.write_text(f"#!/bin/sh\nPYTHONPATH='{paths}' exec {package} \"$@\"\n")
    program.chmod(0o755)
    command = ["bash", str(HERE / "page.sh"), str(program), str(HERE.parent.parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
