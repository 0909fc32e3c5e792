"""What is wrong with a file or an option, and the remedy."""

from __future__ import annotations

import re

MOST_CHARACTERS = 2000


def printable(text: str) -> str:
    """One line that is safe to show: controls and marks that turn text around are escaped."""
    text = re.sub("[\n\r\t]", lambda c: repr(c[0])[1:-1], text)
    text = re.sub("[\x00-\x1f\x7f]", lambda c: f"\\x{ord(c[0]):02x}", text)
    marks = "[\x80-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
    return re.sub(marks, lambda c: f"\\u{ord(c[0]):04x}", text)


class StudyError(ValueError):
    """Its text can be shown."""

    def __init__(self, text: str) -> None:
        super().__init__(printable(text[:MOST_CHARACTERS]))
