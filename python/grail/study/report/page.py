"""The page: a template that draws the data which it holds, and the files beside it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import StudyError, printable
from ..results import read_results
from .aggregate import Aggregate
from .data import page_data

PAGE_MARK = b"<title>grail: results of a sweep</title>"
TABLE_MARK = b"figure\tnetwork\t"
FIGURE_MARK = b'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="'
PROGRAMS = ("node", "nodejs", "chromium", "chromium-browser", "google-chrome")
# Takes the script, the style and the data out of the page (its input) as a browser does, and prints
# what the script's drawFiles returns.
RUN_IN_NODE = """const page = require('fs').readFileSync(0, 'utf8');
const part = (begin, end) => {
  const from = page.indexOf(begin) + begin.length;
  return page.slice(from, page.indexOf(end, from));
};
const script = part('<script>', '</script>') + '\\nreturn drawFiles;';
const data = JSON.parse(part('<script id="data" type="application/json">', '</script>'));
process.stdout.write(new Function(script)()(data, part('<style>', '</style>')));
"""


class Report(NamedTuple):
    """What a page shows."""

    checkpoints: int
    cells: int
    failed_cells: int
    figures: int
    cut_line: int  # number of an incomplete last line that was left out; 0: none


def page_bytes(data: dict[str, Any]) -> bytes:
    """No text of the data can end the element that holds it or become markup."""
    here = Path(__file__).parent
    template, style, *scripts = (
        (here / name).read_text(encoding="utf-8")
        for name in ("page.html", "page.css", "draw.js", "page.js")
    )
    parts = {"style": style, "script": "".join(scripts)}
    for name, text in list(parts.items()):
        digest = hashlib.sha256(text.encode()).digest()
        parts[f"{name}_hash"] = f"sha256-{base64.b64encode(digest).decode()}"
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    parts["data"] = re.sub("[<>&\x7f]", lambda c: f"\\u{ord(c[0]):04x}", text) + "\n"
    return re.sub("@([a-z_]+)@", lambda name: parts[name[1]], template).encode()


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return re.sub(r"e([-+])0*", lambda m: "e" + m[1].strip("+"), repr(value))
    if isinstance(value, str):
        return printable(value)
    return "" if value is None else json.dumps(value)


def table_bytes(data: dict[str, Any], figure: dict[str, Any]) -> bytes:
    """The rows of a figure as tab-separated values; what was not measured is empty."""
    table = data["tables"][figure["table"]]
    rows = [["figure", *table["columns"]]]
    rows += [[figure["kind"], *table["rows"][row]] for row in figure["rows"]]
    return "".join("\t".join(map(_shown, row)) + "\n" for row in rows).encode()


# -- files -----------------------------------------------------------------------------------------


def _check_place(path: str, mark: bytes) -> None:
    """Nothing but an older report is replaced."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return  # other problems show when the file is written
    if not stat.S_ISREG(mode):
        kind = "a directory" if stat.S_ISDIR(mode) else "a device or a pipe"
        kind = "a symbolic link" if stat.S_ISLNK(mode) else kind
        raise StudyError(
            f"'{path}' is {kind}, and a report can replace only a regular file; choose another name"
        )
    try:
        with open(path, "rb") as file:
            head = file.read(1024)
    except OSError as error:
        raise StudyError(f"cannot open '{path}': {error.strerror}") from None
    if head and mark not in head:
        raise StudyError(
            f"'{path}' exists and was not written by grail report; choose another name or delete "
            "the file"
        )


def _write(path: str, mark: bytes, content: bytes) -> None:
    """The file appears only when it is complete."""
    _check_place(path, mark)
    partial = os.path.join(os.path.dirname(path), f".grail-report-{secrets.token_hex(8)}")
    try:
        with open(partial, "xb") as file:
            try:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                os.replace(partial, path)
            except BaseException:
                os.unlink(partial)
                raise
    except OSError as error:
        raise StudyError(f"cannot create '{path}': {error.strerror}") from None


def _make_directory(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise StudyError(f"cannot create directory '{path}': {error.strerror}") from None


def _find_program() -> str:
    for name in PROGRAMS:
        found = shutil.which(name)
        if found is not None:
            return os.path.abspath(found)
    raise StudyError(
        "SVG files are drawn by the page's script, which needs node or chromium in a directory of "
        "PATH, and neither is there; install one, or write the page without SVG files"
    )


def _run(program: str, words: list[str], page: bytes | None = None) -> str:
    try:
        done = subprocess.run(
            [program, *words],
            input=page if page is not None else b"",
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=300,
            cwd="/",
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise StudyError(f"{program} did not answer in time") from None
    except OSError as error:
        raise StudyError(f"{program} cannot be run: {error.strerror}") from None
    return done.stdout.decode(errors="replace")


def draw_figures(program: str, page: bytes) -> dict[str, str]:
    """All figures of a page as SVG, by its own script: the same drawing as in the browser."""
    if os.path.basename(program).startswith("node"):
        printed = _run(program, ["-e", RUN_IN_NODE], page)
    else:
        # Chromium takes only a file of this ending as a page, and prints the document that the
        # script leaves for this address. It refuses to isolate itself where root runs it; the page
        # loads nothing and its texts cannot become script.
        with tempfile.TemporaryDirectory(prefix="grail-report-") as directory:
            path = Path(directory, "page.html")
            path.write_bytes(page)
            isolation = "--incognito" if os.geteuid() else "--no-sandbox"
            words = ["--headless", "--disable-gpu", "--dump-dom", isolation]
            printed = _run(program, [*words, f"file://{path}#svg-files"])
    begin, end = printed.find("{"), printed.rfind("}")
    if begin < 0 or end < begin:
        raise StudyError(
            f"{program} did not run the script that draws SVG files; write the page without them, "
            "or try another release of it"
        )
    try:
        figures: dict[str, str] = json.loads(printed[begin : end + 1])
        for name, svg in figures.items():
            if (
                not re.fullmatch(r"[\w-][\w.-]*\.svg", name, re.A)
                or FIGURE_MARK.decode() not in svg
            ):
                raise ValueError
    except (ValueError, AttributeError, TypeError):
        raise StudyError(f"{program} drew something else than SVG files") from None
    return figures


def write_report(
    results: str, page: str, *, tsv: str | None = None, svg: str | None = None
) -> Report:
    """Writes the results of a sweep as one HTML page that draws them in the browser; with `tsv` and
    `svg` also the data and the drawing of every figure into those directories. The page comes last,
    so that it is there only when the rest is."""
    if os.path.exists(results) and os.path.exists(page) and os.path.samefile(results, page):
        raise StudyError(f"'{page}' is the results file; choose another name for the report")
    _check_place(page, PAGE_MARK)
    program = None if svg is None else _find_program()
    read = read_results(results)
    try:
        data = page_data(Aggregate(read))
        content = page_bytes(data)
    except StudyError as error:
        raise StudyError(f"{results}: {error}") from None
    except RecursionError:
        raise StudyError(f"{results}: line 1: the recipe nests too deeply") from None
    if tsv is not None:
        _make_directory(tsv)
        for figure in data["figures"]:
            path = os.path.join(tsv, f"{figure['file']}.tsv")
            _write(path, TABLE_MARK, table_bytes(data, figure))
    if svg is not None and program is not None:
        _make_directory(svg)
        for name, drawn in draw_figures(program, content).items():
            _write(os.path.join(svg, name), FIGURE_MARK, drawn.encode())
    _write(page, PAGE_MARK, content)
    facts, figures = data["facts"], len(data["figures"])
    cells, failed = facts["cells"], facts["failed"]
    return Report(facts["checkpoints"], cells, failed, figures, facts["cut_line"])
