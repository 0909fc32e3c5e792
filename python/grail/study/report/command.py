"""The command that makes a group's network."""

from __future__ import annotations

import posixpath
import shlex
from typing import Any

from ..results import compensation, heals, repairs
from .aggregate import Group

# Keys of recipes, which are the names of options with _ for -: of a source of text and of images,
# of a limit, and of what else varies. A flag is one that is given without a value; 0 stands for the
# command's own choice in those of ZERO.
TEXT = ["field", "protocol", "context", "window_bos"]
IMAGES = ["preset", "split", "size", "mean", "std"]
LIMIT = ["budget", "heads_removed", "uniform_widths", "uniform_heads", "drop_sublayers", "tries"]
CHOICES = [
    "select",
    "stream_score",
    "align",
    "gqa",
    "target",
    "bias",
    "conv_fit",
    "ridge",
    "refit",
    "ridge_scale",
    "token_weights",
    "alpha",
]
HEAL = ["heal_steps", "heal_group", "heal_rate"]
FLAGS = {"window_bos", "uniform_widths", "uniform_heads", "drop_sublayers"}
ZERO = {"align": "auto", "heal_steps": "", "heal_group": "", "heal_rate": "", "tries": ""}
USUAL = {"align": "1", "precision": "f32"}  # a sweep's own defaults are not those of the command

Object = dict[str, Any]


def number(value: float) -> str:
    return (f"{value:.6f}".rstrip("0").rstrip(".") or "0").replace("-0", "0", value == 0)


def text_of(value: Any) -> str:
    """A value of JSON as an option takes it; "" where that is nothing that one says."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return number(value)
    if isinstance(value, list):
        return ",".join(text_of(one) for one in value)
    return value if isinstance(value, str) else ""


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


def _source(source: Object) -> list[str]:
    words = []
    for key in TEXT if source.get("kind") == "text" else IMAGES:
        if key in FLAGS:
            words += ["--" + key.replace("_", "-")] if source.get(key) is True else []
        elif source.get(key) is not None and not isinstance(source[key], dict):
            words += ["--" + key.replace("_", "-"), shlex.quote(text_of(source[key]))]
    return words


class _Choices:
    """What the cell's own choices, else the recipe, say of a key."""

    def __init__(self, recipe: Object, own: str | None) -> None:
        self.recipe = recipe
        self.own = dict(w.split("=", 1) for w in (own or "").split(" ") if "=" in w)

    def of(self, key: str) -> str:
        value = self.own.get(key, self.recipe.get(key))
        return USUAL.get(key, "") if value is None else text_of(value)

    def options(self, keys: list[str]) -> list[str]:
        words = []
        for key in keys:
            name, value = "--" + key.replace("_", "-"), self.of(key)
            value = "cv" if key == "alpha" and value == "cross-validation" else value
            value = ZERO.get(key, value) if value == "0" else value
            if key in FLAGS:
                words += [name] if value == "true" else []
            elif value:
                words += [name, shlex.quote(value)]
        return words


def _amount(g: Group, choices: _Choices) -> list[str]:
    """The ratio of a limit, or of every site. Only that of parameters has an option for a share."""
    limit, sparsity = choices.of("limit"), g.sparsity
    if not limit and not choices.of("budget"):
        return ["--sparsity", number(sparsity)]
    if limit == "macs":
        words = ["--target-macs", f"{g.dense[0]['macs'] * (1 - sparsity):.0f}"]
    elif limit in ("", "params"):
        words = ["--target-ratio", number(1 - sparsity)]
    else:
        words = [f"--target-{limit}", "BYTES"]
    return words + choices.options(LIMIT)


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
    words += _source(calibration)
    choices, heal = _Choices(recipe, settings.choices), heals(settings.variant)
    words += ["--selector", shlex.quote(settings.selector), *_amount(g, choices)]
    words += ["--compensate", compensation(settings.variant)]
    words += ["--repair"] if repairs(settings.variant) else []
    words += ["--samples", str(settings.samples), "--seed", str(settings.seed)]
    words += ["--loop", "open"] if settings.open_loop else []
    words += ["--heal", heal] if heal != "none" else []
    words += choices.options(["sites", *CHOICES, *(HEAL if heal != "none" else []), "precision"])
    return " ".join(words)
