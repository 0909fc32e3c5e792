"""The pages of the manual name the options of the commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from grail.study import __main__ as commands

MANUAL = Path(__file__).parent.parent.parent / "docs" / "man"


@pytest.mark.parametrize("name", ["sweep", "report"])
def test_page_and_help_name_the_same_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        getattr(commands, name)(["--help"])
    assert end.value.code == 0
    offered = set(re.findall(r"^  (?:-\w(?: \w+)?, )?--([a-z-]+)", capsys.readouterr().out, re.M))
    page = (MANUAL / f"grail-{name}.1.scd").read_text(encoding="utf-8")
    assert offered == set(re.findall(r"^\*--([a-z-]+)\*", page, re.M))
