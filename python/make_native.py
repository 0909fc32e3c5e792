"""Writes the C source of the extension grail._native from the public headers.

usage: make_native.py COMPILER INCLUDE_DIRECTORY OUTPUT

The compiler's preprocessor expands the headers; what came from them, not from the system's, is
what cffi declares. Each type of observer or renderer becomes a function that Python defines.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from cffi import FFI


def own_lines(expanded: str, include: Path) -> str:
    """The lines of preprocessed text that came from files below `include`."""
    lines = []
    is_own = False
    for line in expanded.splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            is_own = include in Path(marker[1]).parents
        elif is_own:
            lines.append(line)
    return "\n".join(lines)


def declarations(compiler: str, include: Path, source: str) -> str:
    command = [compiler, "-E", "-I", str(include), "-x", "c", "-"]
    expanded = subprocess.run(command, input=source, capture_output=True, text=True, check=True)
    text = own_lines(expanded.stdout, include)
    text = re.sub(r"__attribute__\(\((?:[^()]|\([^()]*\))*\)\)", "", text)
    called = r"typedef\s+int\s*\(\*(grail_\w+_(?:observ|render)e)r\)\s*(\([^;]*\));"
    return text + "".join(
        f'\nextern "Python" int {name}d{arguments};' for name, arguments in re.findall(called, text)
    )


def main(compiler: str, directory: str, output: str) -> None:
    include = Path(directory)
    headers = sorted(path.name for path in (include / "grail").glob("*.h"))
    source = "".join(f"#include <grail/{name}>\n" for name in headers)
    ffi = FFI()
    ffi.cdef(declarations(compiler, include, source))
    ffi.set_source("grail._native", source, py_limited_api=True)
    ffi.emit_c_code(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
