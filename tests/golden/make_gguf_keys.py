#!/usr/bin/env python3
"""Writes gguf/keys.txt beside this script: the keys that gguf-py lists, with "llama" for the architecture,
for unit/arch/test_gguf, which looks for a line of src/arch/gguf_key_list.h for each.

usage: make_gguf_keys.py        (gguf 0.19.0)
"""

import inspect
import pathlib

from gguf.constants import Keys

PLACES = {"{arch}": "llama", "{dense}": "dense_2", "{id}": "0", "{name}": "tool_use"}


def keys_of(group):
    for value in vars(group).values():
        if inspect.isclass(value):
            yield from keys_of(value)
        elif isinstance(value, str) and "." in value and not value.startswith("gguf."):
            for place, text in PLACES.items():
                value = value.replace(place, text)
            yield value


if __name__ == "__main__":
    names = sorted(set(keys_of(Keys)))
    (pathlib.Path(__file__).resolve().parent / "gguf" / "keys.txt").write_text("\n".join(names) + "\n")
    print(len(names), "keys")
