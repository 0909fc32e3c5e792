"""Checks documents by their JSON Schema: the keywords that grail's schemas use, in plain words."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any, NoReturn

from .errors import StudyError

Json = dict[str, Any]
TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is(value: Any, name: str) -> bool:
    return isinstance(value, TYPES[name]) and isinstance(value, bool) == (name == "boolean")


def unknown(what: str, name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    hint = f'; did you mean "{near[0]}"?' if near else ""
    return f'unknown {what} "{name}"; the known ones are {", ".join(known)}{hint}'


def _of(s: Json, least: str, most: str, unit: str = "") -> str:
    """Its bounds, behind what they are of."""
    low, high, below = s.get(least), s.get(most), s.get("exclusiveMaximum")
    if low is not None and high is not None:
        return f" of {low:g} to {high:g}{unit}"
    bounds = [] if low is None else [f"at least {low:g}"]
    bounds += [] if high is None else [f"at most {high:g}"]
    bounds += [] if below is None else [f"below {below:g}"]
    return f" of {' and '.join(bounds)}{unit}" if bounds else ""


class Schema:
    def __init__(self, name: str) -> None:
        path = Path(__file__).with_name(name)
        self.root: Json = json.loads(path.read_text(encoding="utf-8"))

    def _resolve(self, s: Json) -> Json:
        if "$ref" not in s:
            return s
        of = self._resolve(self.root["$defs"][s["$ref"].rpartition("/")[2]])
        return of if len(s) == 1 else {**of, **{k: v for k, v in s.items() if k != "$ref"}}

    def _expected(self, s: Json) -> str:
        s = self._resolve(s)
        if "anyOf" in s:
            return ", or ".join(self._expected(one) for one in s["anyOf"])
        if "enum" in s or "const" in s:
            words = [str(word) for word in s.get("enum", [s.get("const")]) if word is not None]
            return f"one of {', '.join(words)}" if len(words) > 1 else f'"{words[0]}"'
        number = _of(s, "minimum", "maximum")
        kinds = {
            "number": f"a number{number}",
            "integer": f"an integer{number}",
            "array": f"an array{_of(s, 'minItems', 'maxItems', ' entries')}",
            "string": f"text{_of(s, 'minLength', 'maxLength', ' characters')}",
            "object": "an object",
            "boolean": "true or false",
            "null": "null",
        }
        return " or ".join(kinds[kind] for kind in _list(s["type"]))

    def _fail(self, place: str, s: Json, value: Any) -> NoReturn:
        found = json.dumps(value, ensure_ascii=False)
        found = found if len(found) <= 60 else found[:57] + "..."
        raise StudyError(f"{place}: expected {self._expected(s)}, found {found}")

    def _suits(self, s: Json, value: Any) -> bool:
        """The one of several that the value is meant for: by its type, and by its kind."""
        if "anyOf" in s:
            return any(self._suits(self._resolve(one), value) for one in s["anyOf"])
        if "const" in s or "enum" in s:
            return value in s.get("enum", [s.get("const")])
        if not any(_is(value, kind) for kind in _list(s["type"])):
            return False
        properties = s.get("properties", {}).items() if isinstance(value, dict) else ()
        return all(value.get(k, p["const"]) == p["const"] for k, p in properties if "const" in p)

    def check(self, place: str, value: Any, s: Json | None = None) -> None:
        """`place` names the value in messages: "recipe.json: grids[0]"."""
        s = self._resolve(self.root if s is None else s)
        if "anyOf" in s:
            suits = [one for one in map(self._resolve, s["anyOf"]) if self._suits(one, value)]
            return self.check(place, value, suits[0]) if suits else self._fail(place, s, value)
        if not self._suits(s, value):
            self._fail(place, s, value)
        if isinstance(value, dict):
            self._check_object(place, value, s)
        elif isinstance(value, list):
            if not s.get("minItems", 0) <= len(value) <= s.get("maxItems", len(value)):
                self._fail(place, s, value)
            for i, entry in enumerate(value):
                self.check(f"{place}[{i}]", entry, s["items"])
                if "uniqueItems" in s and value.index(entry) < i:
                    raise StudyError(f"{place}[{i}]: repeats an earlier entry of the list")
        elif isinstance(value, str):
            if not s.get("minLength", 0) <= len(value) <= s.get("maxLength", len(value)):
                self._fail(place, s, value)
        elif value is not None and not isinstance(value, bool):
            within = s.get("minimum", value) <= value <= s.get("maximum", value)
            if not within or ("exclusiveMaximum" in s and value >= s["exclusiveMaximum"]):
                self._fail(place, s, value)
        return None

    def _check_object(self, place: str, value: Json, s: Json) -> None:
        properties, more = s.get("properties", {}), s.get("additionalProperties")
        separator = "." if ": " in place else ": "
        for key in s.get("required", []):
            if key not in value:
                raise StudyError(f'{place}: "{key}" is missing')
        if len(value) > s.get("maxProperties", len(value)):
            raise StudyError(f"{place}: more than {s['maxProperties']} entries")
        for key, entry in value.items():
            if key in properties:
                self.check(f"{place}{separator}{key}", entry, properties[key])
            elif more is False:
                raise StudyError(f"{place}: {unknown('key', key, list(properties))}")
            elif isinstance(more, dict):
                self.check(f"{place}{separator}{key}", entry, more)
