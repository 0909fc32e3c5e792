#!/usr/bin/env python3
"""Prints the table of GGUF keys of docs/formats.md from src/arch/gguf_key_list.h.

tools/check_gguf_keys.py            prints the table
tools/check_gguf_keys.py --check    fails when the document has another one
"""

import re
import sys

import c_source

LINE = re.compile(r'^GGUF_(?:NAMED\(\w+, |OTHER\()(\w+),\s*"([^"]*)",\s*"([^"]*)",\s*"([^"]*)"\)$', re.M)
USES = {"CARRIED": "read, written", "READ": "read", "WRITTEN": "written", "REFUSED": "refused", "IGNORED": "ignored"}


def rows(text):
    """[use, keys, says], with neighbours that say the same in one."""
    found = []
    for use, key, neutral, says in LINE.findall(text):
        shown = "`" + ("ARCH" if key[0] == "." else "") + key + "`"
        values = " or ".join(f"`{v}`" for v in neutral.split("|")) if neutral else ""
        shown += f" unless {values}" if values else ""
        if found and says and found[-1][0] == use and found[-1][2] == says:
            found[-1][1] += ", " + shown
        else:
            found.append([use, shown, says])
    return found


def table(text):
    lines = ["| key | grail | |", "|---|---|---|"]
    return "\n".join(lines + [f"| {keys} | {USES[use]} | {says} |" for use, keys, says in rows(text)]) + "\n"


def main():
    made = table((c_source.ROOT / "src/arch/gguf_key_list.h").read_text())
    if "--check" not in sys.argv[1:]:
        print(made, end="")
        return 0
    if made in (c_source.ROOT / "docs/formats.md").read_text():
        return 0
    print("docs/formats.md has another table of GGUF keys; tools/check_gguf_keys.py prints it")
    return 1


if __name__ == "__main__":
    sys.exit(main())
