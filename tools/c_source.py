"""What the checks of C sources share: the files, and text without comments and strings."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent

_TOKEN = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""",
    re.DOTALL,
)


def files(*folders):
    """All .c and .h files below the named folders of the tree, sorted."""
    found = []
    for folder in folders:
        found += [p for p in (ROOT / folder).rglob("*") if p.suffix in (".c", ".h")]
    return sorted(found)


def name(path):
    """Path as messages show it."""
    return path.relative_to(ROOT).as_posix()


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


def without_comments(text):
    """The same text with comments blanked; lines keep their numbers."""
    return _TOKEN.sub(lambda m: _blank(m[0]) if m["comment"] else m[0], text)


def without_comments_and_strings(text):
    return _TOKEN.sub(lambda m: _blank(m[0]) if m["comment"] else '""', text)
