"""The layout of the public structs is that of layout.txt. Run as a program, this writes it anew:

build/python/venv/bin/python tests/python/test_layout.py
"""

from __future__ import annotations

from pathlib import Path

import pytest
from grail._native import ffi, lib

LIST = Path(__file__).with_name("layout.txt")
ANEW = "write the list anew, build/python/venv/bin/python tests/python/test_layout.py"
Places = dict[str, tuple[str, ...]]  # offset, size and type by the names of structs and fields


def find_layout() -> str:
    """The structs that the headers define, as the compiler lays them out."""
    lines = [f"interface {lib.grail_interface_version()}"]
    for name in sorted(ffi.list_types()[0]):
        if ffi.typeof(name).kind == "struct":
            try:
                lines.append(f"{name} 0 {ffi.sizeof(name)} struct")
            except ffi.error:
                continue  # an object of the library
            for field, of in ffi.typeof(name).fields:
                size = ffi.sizeof(of.type)
                lines.append(f"{name}.{field} {of.offset} {size} {of.type.cname}")
    return "".join(line + "\n" for line in lines)


def read(text: str) -> Places:
    rows = (line.split(" ", 3) for line in text.splitlines()[1:])
    return {name: tuple(place) for name, *place in rows}


def find_breaks(before: Places, now: Places) -> list[str]:
    """What a program that was compiled before would not find; fields may take room alone."""
    found = []
    for name, place in before.items():
        if not name.endswith(".room") and now.get(name) != place:
            found.append(f"{name} was {place}, and is {now.get(name)}")
    for name, (offset, size, _) in now.items():
        struct, is_field, field = name.partition(".")
        if is_field and struct in before and (name not in before or field == "room"):
            begin, room, _ = before.get(f"{struct}.room", ("0", "0", ""))
            if not int(begin) <= int(offset) <= int(begin) + int(room) - int(size):
                found.append(f"{name} lies outside of the room that {struct} had")
    return found


def test_layout() -> None:
    text, committed = find_layout(), LIST.read_text()
    if text.splitlines()[0] == committed.splitlines()[0]:
        breaks = find_breaks(read(committed), read(text))
        assert not breaks, "; ".join(breaks) + f"; raise GRAIL_INTERFACE_VERSION, then {ANEW}"
    assert text == committed, f"fields took room, structs are new or the version is: {ANEW}"


@pytest.mark.parametrize(
    ("now", "is_break"),
    [
        ("s 0 32 struct;s.a 0 8 double;s.new 8 4 int;s.room 16 16 uint64_t[2]", False),
        ("s 0 32 struct;s.a 0 8 double;s.new 8 24 t;t 0 24 struct;t.a 0 8 double", False),
        ("s 0 40 struct;s.a 0 8 double;s.new 8 8 double;s.room 16 24 uint64_t[3]", True),
        ("s 0 32 struct;s.new 0 8 double;s.a 8 8 double;s.room 16 16 uint64_t[2]", True),
        ("s 0 32 struct;s.a 0 8 int64_t;s.room 8 24 uint64_t[3]", True),
        ("s 0 32 struct;s.a 0 8 double;s.new 4 4 int;s.room 8 24 uint64_t[3]", True),
        ("s 0 32 struct;s.b 0 8 double;s.room 8 24 uint64_t[3]", True),
        ("t 0 8 struct", True),
    ],
)
def test_breaks(now: str, is_break: bool) -> None:
    before = "\ns 0 32 struct\ns.a 0 8 double\ns.room 8 24 uint64_t[3]"
    assert bool(find_breaks(read(before), read("\n" + now.replace(";", "\n")))) == is_break


if __name__ == "__main__":
    LIST.write_text(find_layout())
