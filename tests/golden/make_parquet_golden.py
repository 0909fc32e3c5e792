#!/usr/bin/env python3
"""Writes small Parquet files to fuzz/corpus/parquet, which the fuzzer begins with and
tests/unit/format/test_parquet.c reads. Made with pyarrow 26.0.1.

Row i of 40 is missing where i % 7 == 3, else "text " and i % 5, then "ab" i % 9 times.
"""

import pathlib

import pyarrow
import pyarrow.parquet

FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent / "fuzz" / "corpus" / "parquet"
TEXTS = [None if i % 7 == 3 else f"text {i % 5}" + "ab" * (i % 9) for i in range(40)]


def write(name, table=None, **settings):
    table = table or pyarrow.table({"n": list(range(40)), "text": TEXTS})
    settings = {"row_group_size": 15, "data_page_size": 64, "write_statistics": False, "store_schema": False, **settings}
    pyarrow.parquet.write_table(table, FOLDER / name, **settings)


def lying_levels():
    """One page of the newer kind whose levels state 2^63 - 1 and 2^62 bytes."""
    levels = b"\xfe" + b"\xff" * 8 + b"\x01"
    repeats = b"\x80" * 9 + b"\x01"
    page = b"\x15\x06\x15\x04\x15\x04\x5c\x15\x02\x45" + levels + b"\x15" + repeats + b"\0\0" + b"\2\1"
    schema = b"\x29\x2c" + b"\x48\1r\x15\2\0" + b"\x15\x0c\x25\2\x18\4text\0"
    chunk = b"\x3c" + b"\x39\x18\4text\x15\0\x16\2\x26" + bytes([2 * len(page)]) + b"\x26\x08\0" + b"\0"
    footer = schema + b"\x29\x1c" + b"\x19\x1c" + chunk + b"\0" + b"\0"
    return b"PAR1" + page + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for version in ("1", "2"):
        for codec in ("none", "snappy", "gzip", "zstd"):
            for pages in ("plain", "dictionary"):
                write(f"{pages}-{codec}-{version}", compression=codec, use_dictionary=pages == "dictionary",
                      data_page_version=f"{version}.0")
    required = pyarrow.schema([pyarrow.field("text", pyarrow.string(), nullable=False)])
    write("required", pyarrow.table([pyarrow.array([text or "" for text in TEXTS])], schema=required))
    write("all-missing", pyarrow.table({"text": pyarrow.array([None] * 40, pyarrow.string())}))
    write("bad-list", pyarrow.table({"text": [[text] for text in TEXTS]}))
    write("bad-struct", pyarrow.table({"text": [{"x": text} for text in TEXTS]}))
    write("bad-numbers", pyarrow.table({"text": list(range(40)), "other": TEXTS}))
    write("bad-brotli", compression="brotli")
    write("bad-delta", use_dictionary=False, column_encoding={"n": "PLAIN", "text": "DELTA_BYTE_ARRAY"})
    sound = (FOLDER / "plain-none-1").read_bytes()
    (FOLDER / "bad-cut").write_bytes(sound[:-20])
    (FOLDER / "bad-encrypted").write_bytes(sound[:-4] + b"PARE")
    (FOLDER / "bad-length").write_bytes(sound[:-8] + b"\xff\xff\xff\x7fPAR1")
    (FOLDER / "bad-value").write_bytes(sound.replace(b"\x06\0\0\0text 1", b"\xff\xff\xff\0text 1", 1))
    (FOLDER / "bad-levels").write_bytes(lying_levels())


main()
