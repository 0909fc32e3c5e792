#!/usr/bin/env python3
"""Checks what the layers of docs/architecture.md promise, by reading the sources.

A layer includes only itself and layers above it; other libraries are included where they are wrapped; the command line
sees the public headers alone; no family of networks is named outside src/arch; and
functions that the library must not call do not occur. The files of some layers are ordered, too, and in none do
files call each other in a circle. JSON
strings are made of any bytes, and the command line prints through one file, which escapes.
"""

import re
import sys

import c_source

LAYERS = ("base tensor format runtime graph arch backend comm exec stats algebra reduce solve heal pipeline eval planning").split()

# Rooms of a layer: each includes only itself, those before it, and what lies in the layer's folder.
ROOMS = {
    "format": ["", "torch", "gguf", "onnx", "weights", "text", "images"],
}

# Layers whose files are listed in a table of docs/architecture.md, under the heading named here: each
# includes only itself and those before it.
ORDERED = {"pipeline": "The pipeline"}

C_LIBRARY = set(
    """assert.h cpuid.h ctype.h dirent.h dlfcn.h errno.h fcntl.h float.h ftw.h inttypes.h limits.h math.h pthread.h
    sched.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h string.h strings.h
    sys/auxv.h sys/mman.h sys/random.h sys/resource.h sys/stat.h sys/syscall.h sys/types.h time.h unistd.h""".split()
)

# The library leaves signals, and what the allocator keeps, to its caller.
FOR_PROGRAMS = C_LIBRARY | {"malloc.h", "signal.h"}

# Libraries, and the folders (or files) of src that wrap them.
WRAPPED: dict[str, str | tuple[str, ...]] = {
    "blis.h": "backend/cpu/",
    "oneapi/dnnl/dnnl.h": "backend/cpu/onednn.c",
    "immintrin.h": ("backend/cpu/exponentials.h", "backend/cpu/linear_pairs.c", "backend/cpu/packing.c", "backend/cpu/pairs.c", "backend/cpu/panels.c", "base/hash_blocks.c"),
    "jansson.h": "base/json",
    "jerror.h": "format/images/image_jpeg.c",
    "jpeglib.h": "format/images/image_jpeg.c",
    "lapacke.h": "backend/cpu/dense.c",
    "mpi.h": "comm/mpi/",
    "omp.h": "base/parallel.c",
    "pcre2.h": "format/text/",
    "png.h": "format/images/image_png.c",
    "setjmp.h": ("format/images/image_jpeg.c", "format/images/image_png.c"),
    "sha2.h": "base/hash.c",
    "utf8proc.h": "format/text/",
    "zlib.h": ("base/checksum.c", "format/"),
}

FAMILY = re.compile(
    r"(?<![A-Za-z0-9])(?<!dnnl_eltwise_)(llama|qwen|mistral|resnet|clip|gpt2|opt|vit)\d*(?![A-Za-z0-9])", re.IGNORECASE
)
# Published preprocessing pipelines are known by the family that they were made for.
PRESETS = {"clip", "vit"}
PRESET_FILES = {"src/format/images/image_preset.c"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")', re.MULTILINE)
BANNED = re.compile(
    r"(?<![\w.>])(malloc|calloc|realloc|free|strcpy|strcat|sprintf|vsprintf|gets|atoi|exit|_exit|"
    r"abort|printf|vprintf|puts|putchar|perror|system|rand|srand|assert)\s*\("
)
UNSAFE = {"strcpy", "strcat", "sprintf", "vsprintf", "gets", "atoi", "rand", "srand", "system"}
# jansson's own strings: from other bytes than UTF-8 they are NULL, as for lack of memory. json_text
# takes any bytes.
JSON_STRING = re.compile(r'\b(json_string|json_stringn)\s*\(|\bjson_pack\s*\(\s*"([^"]*:\s*s[^"]*)"')
JSON_TEXT_FILES = {"src/base/json.c", "cli/print.c"}
# What others wrote is escaped before it reaches a terminal.
PRINTING = re.compile(r"(?<![\w.>])(v?f?printf|f?puts|f?putc|putchar|fwrite|perror)\s*\(")
FOREIGN_FREE = re.compile(r"free\([^;]*\);\s*/\*.*(jansson|realpath|PCRE|pcre2)", re.IGNORECASE)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def room_of(inside):
    """The folder of a path below src: "" where the file lies in the layer's own folder."""
    return "/".join(inside.split("/")[1:-1])


def file_order(heading):
    """Paths below the layer's folder, without endings, from the first column of the table."""
    text = (c_source.ROOT / "docs/architecture.md").read_text()
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\|((?: `[a-z_/]+`,?)+) \|", section, re.MULTILINE)
    return re.findall(r"`([a-z_/]+)`", "".join(rows))


ORDERS = {layer: file_order(heading) for layer, heading in ORDERED.items()}


def place_of(inside):
    """The layer of a path below src, and the file's name in the table."""
    layer, _, name = inside.rpartition(".")[0].partition("/")
    return layer, name


def check_order(inside, own):
    layer, here = place_of(inside)
    target, there = place_of(own)
    order = ORDERS.get(layer)
    if order is None or target != layer or here not in order or there not in order:
        return None
    if order.index(there) > order.index(here):
        return f'"{own}" comes after {layer}/{here} in docs/architecture.md'
    return None


def check_lists():
    """Files that a table lacks, and names in it that are no files."""
    for layer, order in ORDERS.items():
        found = {place_of(c_source.name(p)[len("src/") :])[1] for p in c_source.files(f"src/{layer}")}
        for name in sorted(found - set(order)):
            yield f"docs/architecture.md does not list {layer}/{name}"
        for name in sorted(set(order) - found):
            yield f"docs/architecture.md lists {layer}/{name}, which does not exist"


# A function that a header declares: a line that begins with its type and ends the declaration. And one that a
# .c file defines for others.
DECLARED = re.compile(r"^(?!typedef\b)[a-zA-Z_][\w\s*]*?\b(\w+)\s*\([^;{}]*\)[\w\s(),]*;", re.MULTILINE)
DEFINED = re.compile(r"^(?!static\b)[a-zA-Z_][\w\s*]*?\b(\w+)\s*\([^;{}]*\)\s*\{", re.MULTILINE)
WORD = re.compile(r"\w+")


def file_pair(name):
    """A .c file and the header of its name are one: "layer/file"."""
    return name.rpartition(".")[0]


def seen_headers(texts, name):
    """The headers that a file includes, and those that they include."""
    seen = [name]
    for each in seen:
        seen += [own for _, own in INCLUDE.findall(texts.get(each, "")) if own and own not in seen]
    return seen[1:]


def homes_of(texts):
    """{function: pairs whose .c file defines it}."""
    homes = {}
    for name, text in texts.items():
        if name.endswith(".c"):
            for function in DEFINED.findall(text):
                homes.setdefault(function, set()).add(file_pair(name))
    return homes


def calls_of(texts):
    """For {"layer/file.c": text}: the pairs that define what each pair names of the functions that the headers it
    sees declare; of one without a definition, the header's pair. Types alone are no call."""
    codes = {name: c_source.without_comments_and_strings(text) for name, text in texts.items()}
    declared = {name: set(DECLARED.findall(code)) for name, code in codes.items() if name.endswith(".h")}
    homes = homes_of(codes)
    calls = {}
    for name, text in codes.items():
        words = set(WORD.findall(text))
        for own in seen_headers(texts, name):
            for function in declared.get(own, set()) & words:
                calls.setdefault(file_pair(name), set()).update(homes.get(function, {file_pair(own)}))
    return {name: called - {name} for name, called in calls.items()}


def circle_from(calls, start):
    """The shortest way of calls from a pair back to itself, or None."""
    ways = [[start]]
    seen = set()
    for way in ways:
        for called in sorted(calls.get(way[-1], set())):
            if called == start:
                return way
            if called not in seen:
                seen.add(called)
                ways.append([*way, called])
    return None


def find_circles(texts):
    """One circle for each pair that is in any, each circle once."""
    calls = calls_of(texts)
    found = {}
    for start in sorted(calls):
        way = circle_from(calls, start)
        if way is not None:
            found.setdefault(frozenset(way), way)
    return list(found.values())


def check_circles():
    paths = c_source.files("src")
    texts = {c_source.name(p)[len("src/") :]: c_source.without_comments(p.read_text()) for p in paths}
    for way in find_circles(texts):
        yield f"files call each other in a circle: {' -> '.join([*way, way[0]])}"


def check_room(layer, inside, own):
    rooms, here, there = ROOMS.get(layer), room_of(inside), room_of(own)
    if rooms is None:
        return None
    for room in (here, there):
        if room not in rooms:
            return f'"{own}": {layer}/{room} is not a room of ROOMS'
    if rooms.index(there) > rooms.index(here):
        return f'"{own}": {layer}/{here} may not include {layer}/{there}'
    return None


def seen_by(layer):
    return LAYERS[: LAYERS.index(layer) + 1]


def check_library_include(path, layer, system, own):
    inside = path.relative_to(c_source.ROOT / "src").as_posix()
    if own is not None:
        target = own.split("/")[0]
        if "/" not in own or target not in LAYERS:
            return f'"{own}" is not written as "layer/file.h"'
        if layer is None:
            return f'"{own}": files outside the layers see public headers only'
        if target not in seen_by(layer):
            return f'"{own}": {layer} may not include {target}'
        return check_room(layer, inside, own) if target == layer else None
    if system.startswith("grail/"):
        return None
    if system in C_LIBRARY:
        return None
    if system in WRAPPED and inside.startswith(WRAPPED[system]):
        return None
    return f"<{system}> may not be included here"


def check_cli_include(path, system, own):
    if own is not None:
        return None if (path.parent / own).is_file() else f'"{own}" is not a file of cli/'
    if system.startswith("grail/") or system in FOR_PROGRAMS or system == "jansson.h":
        return None
    return f"<{system}>: the command line sees <grail/...>, jansson.h and the C library"


def check_includes(path, text):
    parts = path.relative_to(c_source.ROOT).parts
    layer = parts[1] if parts[0] == "src" and len(parts) > 2 else None
    for match in INCLUDE.finditer(text):
        system, own = match.groups()
        if parts[0] == "src":
            problem = check_library_include(path, layer, system, own)
            if problem is None and own is not None:
                problem = check_order(path.relative_to(c_source.ROOT / "src").as_posix(), own)
        else:
            problem = check_cli_include(path, system, own)
        if problem is not None:
            yield line_of(text, match.start()), problem


def check_families(path, text):
    if c_source.name(path).startswith("src/arch/"):
        return
    for match in FAMILY.finditer(text):
        if match[0] in PRESETS and c_source.name(path) in PRESET_FILES:
            continue
        yield line_of(text, match.start()), f"names a family, '{match[0]}': only src/arch may"


def check_banned(path, original, code):
    lines = original.split("\n")
    in_library = c_source.name(path).startswith("src/")
    is_allocator = c_source.name(path) == "src/base/memory.c"
    for match in BANNED.finditer(code):
        function = match[1]
        number = line_of(code, match.start())
        if function in ("malloc", "calloc", "realloc", "free"):
            foreign = function == "free" and FOREIGN_FREE.search(lines[number - 1])
            if not in_library or is_allocator or foreign:
                continue
        elif not in_library and function not in UNSAFE:
            continue
        yield number, f"calls {function}()"


def check_printing(path, code):
    if not c_source.name(path).startswith("cli/") or c_source.name(path) == "cli/print.c":
        return
    for match in PRINTING.finditer(code):
        yield line_of(code, match.start()), f"calls {match[1]}(): what is printed goes through print.c"


def check_json(path, code):
    if c_source.name(path) in JSON_TEXT_FILES:
        return
    for match in JSON_STRING.finditer(code):
        yield line_of(code, match.start()), f"{match[1] or match[2]}: strings are made by json_text()"


def check_file(path):
    original = path.read_text()
    code = c_source.without_comments(original)
    yield from check_includes(path, code)
    yield from check_families(path, code)
    yield from check_json(path, code)
    plain = c_source.without_comments_and_strings(original)
    yield from check_printing(path, plain)
    yield from check_banned(path, original, plain)


def main():
    problems = 0
    paths = c_source.files("src", "cli")
    for path in paths:
        for number, problem in check_file(path):
            print(f"{c_source.name(path)}:{number}: {problem}")
            problems += 1
    for problem in [*check_lists(), *check_circles()]:
        print(problem)
        problems += 1
    print(f"{len(paths)} files, {problems} problems")
    return 1 if problems or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
