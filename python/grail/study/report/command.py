"""The command that makes a group's network."""

from __future__ import annotations

import posixpath
import shlex
from typing import Any

from ..recipe import CHOICES, PLAN, SOURCE, options_of, text_of
from ..results import compensation, heals, repairs
from .aggregate import Group

Object = dict[str, Any]
_HEAL = ["heal_steps", "heal_group", "heal_rate"]


def number(value: float) -> str:
    return (f"{value:.6f}".rstrip("0").rstrip(".") or "0").replace("-0", "0", value == 0)


def _options(values: Object, keys: list[str]) -> list[str]:
    plain = (str, int, float, list)  # others are of recipes that other programs wrote
    known = {key: value for key, value in values.items() if isinstance(value, plain)}
    words = []
    for key, text in options_of(known, keys).items():
        words += [f"--{key.replace('_', '-')}", *([shlex.quote(text)] if text else [])]
    return words


def _path(directory: str, path: Any, missing: str) -> str:
    if not isinstance(path, str):
        return missing
    joined = posixpath.normpath(posixpath.join(directory, path))
    return shlex.quote("./" + joined if joined.startswith("-") else joined)


def _find(found: Any, name: str | None) -> Object:
    """The entry of an array with this name, or the object itself."""
    entries = found if isinstance(found, list) else [found]
    named = [e for e in entries if isinstance(e, dict) and (e is found or e.get("name") == name)]
    return named[0] if named else {}


def _values(recipe: Object, own: str | None) -> Object:
    """What the recipe says, and the cell's own choices: "align=32 target=local"."""
    chosen: Object = dict(word.split("=", 1) for word in (own or "").split(" ") if "=" in word)
    plain: Object = {"true": True, "false": False, "0": 0}
    return {**recipe, **{key: plain.get(value, value) for key, value in chosen.items()}}


def _amount(g: Group, values: Object) -> list[str]:
    """The ratio of a limit, or of every site. Only that of parameters has an option for a share."""
    limit, sparsity = values.get("limit"), g.sparsity
    if not limit and not values.get("budget"):
        return ["--sparsity", number(sparsity)]
    if limit == "macs":
        words = ["--target-macs", f"{g.dense[0]['macs'] * (1 - sparsity):.0f}"]
    elif limit in (None, "params"):
        words = ["--target-ratio", number(1 - sparsity)]
    else:
        words = [shlex.quote(f"--target-{limit}"), "BYTES"]
    return words + _options(values, PLAN)


def command_of(g: Group, recipe: Object, network: str, used: str) -> str:
    """`used` is the path from which the sweep took the network, "" where that is not known."""
    settings = g.cells[0].settings
    entry = _find(recipe.get("checkpoints"), network)
    named = str(entry.get("path") or "")
    # what the sweep put before relative paths of the recipe
    fits = used.endswith("/" + named) and not named.startswith("/") and len(used) > len(named) > 0
    directory = used[: len(used) - len(named)] if fits else ""
    calibration = _find(recipe.get("calibration"), settings.calibration)
    words = ["grail", "compress", _path("", used or named or None, "MODEL"), "-o", "narrow"]
    own = entry.get("settings")
    for key, value in own.items() if isinstance(own, dict) else []:
        words += ["--set", shlex.quote(f"{key}={text_of(value)}")]
    words += ["--calib", _path(directory, calibration.get("path"), "CALIBRATION")]
    kind = "text" if calibration.get("kind") == "text" else "images"
    words += _options(calibration, SOURCE[kind])
    values, heal = _values(recipe, settings.choices), heals(settings.variant)
    words += ["--selector", shlex.quote(settings.selector), *_amount(g, values)]
    words += ["--compensate", compensation(settings.variant)]
    words += ["--repair"] if repairs(settings.variant) else []
    words += ["--samples", str(settings.samples), "--seed", str(settings.seed)]
    words += ["--loop", "open"] if settings.open_loop else []
    words += ["--heal", heal] if heal != "none" else []
    left = [*PLAN, "limit", *([] if heal != "none" else _HEAL)]
    words += _options(values, ["sites", *(key for key in CHOICES if key not in left)])
    return " ".join(words)
