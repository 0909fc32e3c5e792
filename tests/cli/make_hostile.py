#!/usr/bin/env python3
"""Writes a hostile file: a small one that asks its reader for much memory or time.

usage: make_hostile.py KIND PATH [FILE [MEGABYTES]]
FILE is what some kinds are made from: a tokenizer.json, or a text, of which MEGABYTES are made.
"""

import json
import struct
import sys
import zlib

MEGABYTE = 1 << 20


def repeated(piece, count, wbits):
    """The deflate stream of `piece` repeated: one block, flushed so that it can be repeated too."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packer.compress(piece)
    packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)
    body = block * count + packer.flush(zlib.Z_FINISH)
    if wbits < 0:
        return body
    check = 0
    for _ in range(count):
        check = zlib.crc32(piece, check) if wbits > 15 else zlib.adler32(piece, check or 1)
    if wbits > 15:
        return b"\x1f\x8b\x08\0\0\0\0\0\0\3" + body + struct.pack("<II", check, len(piece) * count & 0xFFFFFFFF)
    return b"\x78\xda" + body + struct.pack(">I", check)


# --- text ---


def gzip_of_lines():
    """2.4 MB that hold 880 MB of JSON lines."""
    return repeated(b'{"text":"the cat sat on the mat and so on"}\n' * 20000, 1000, 31)


def gzip_of_one_line():
    """1 MB that hold one line of 1 GB."""
    return repeated(b"a" * MEGABYTE, 1024, 31)


def dense_line():
    """One line of JSON that takes forty times its size to parse."""
    return b'{"text": "a", "more": [' + b"{}," * (20 * MEGABYTE // 3) + b"{}]}\n"


def long_line():
    return b'{"text": "' + b"a " * (40 * MEGABYTE) + b'"}\n'


def long_text():
    """128 MB, or as many as are named, of which a window takes a few hundred bytes."""
    with open(sys.argv[3], "rb") as file:
        text = file.read()
    megabytes = int(sys.argv[4]) if len(sys.argv) > 4 else 128
    return text * (megabytes * MEGABYTE // len(text))


def many_ids():
    """A header for 300 million ids, or as many as are named, which are a hole in the file."""
    count = sys.argv[3] if len(sys.argv) > 3 else "300000000"
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({count},), }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header


# --- tokenizers ---


def tokenizer(change):
    """The tokenizer of the demonstration model, changed."""
    with open(sys.argv[3]) as file:
        made = json.load(file)
    change(made)
    return json.dumps(made).encode()


def exponential_pattern():
    return tokenizer(lambda t: t.update(pre_tokenizer={
        "type": "Split", "pattern": {"Regex": "(?:[a-z]|[a-y]|[b-z])+(?=[A-Z0-9]{2})"}, "behavior": "Isolated"}))


def quadratic_pattern():
    """A pattern that searches the rest of the text at every character."""
    return tokenizer(lambda t: t.update(pre_tokenizer={
        "type": "Split", "pattern": {"Regex": "(?=[^#]*#)|[^#]"}, "behavior": "Isolated"}))


def quadratic_scan():
    """The same without backtracking."""
    return tokenizer(lambda t: t.update(pre_tokenizer={
        "type": "Split", "pattern": {"Regex": "(?=[^#]*+#)|[^#]"}, "behavior": "Isolated"}))


def doubling_steps():
    """Steps that each double what is not ASCII."""
    step = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    return tokenizer(lambda t: t.update(
        pre_tokenizer={"type": "Sequence", "pretokenizers": [step] * 31}))


def growing_steps():
    """Replacements that multiply the text."""
    step = {"type": "Replace", "pattern": {"String": "e"}, "content": "e" * 60}
    return tokenizer(lambda t: t.update(normalizer={"type": "Sequence", "normalizers": [step] * 31}))


def long_added_token():
    return tokenizer(lambda t: t["added_tokens"].append(
        {"id": 600, "content": "a" * 500000 + "#", "normalized": False}))


def crowded_tokenizer():
    return b'{"model": [' + b"{}," * (30 * MEGABYTE // 3) + b"{}]}"


# --- weights ---


def member(name, stored, size, method, crc=0):
    name = name.encode()
    fields = struct.pack("<HHHHHIIIHH", 20, 0, method, 0, 0x21, crc, len(stored), size, len(name), 0)
    return (b"PK\3\4" + fields + name + stored,
            b"PK\1\2\x14\0" + fields + struct.pack("<HHHII", 0, 0, 0, 0, 0)[:-4], name)


def archive(members):
    """members: (name, stored bytes, size, checksum; None where it is stored as it is)."""
    body, directory = b"", b""
    for name, stored, size, check in members:
        deflated = check is not None
        record, entry, encoded = member(name, stored, size, 8 if deflated else 0,
                                        check if deflated else zlib.crc32(stored))
        directory += entry + struct.pack("<I", len(body)) + encoded
        body += record
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, len(members), len(members), len(directory),
                      len(body), 0)
    return body + directory + end


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def pickled_tensor(key, elements):
    storage = (b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(str(key)) + text("cpu") +
               b"J" + struct.pack("<i", elements) + b"tQ")
    return (b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\0(J" +
            struct.pack("<i", elements) + b"t(K\1t\x89ccollections\nOrderedDict\n)Rt" + b"R")


def zip_of_zeros():
    """A compressed member, which is refused before it is looked at; 1 MB holds 128 MB."""
    zeros = repeated(bytes(MEGABYTE), 128, -15)
    pickle = b"\x80\2}(" + text("weight") + pickled_tensor(0, 32 * MEGABYTE) + b"u."
    return archive([("a/data.pkl", pickle, len(pickle), None), ("a/data/0", zeros, 128 * MEGABYTE, 0)])


def pickle_of(opcodes, megabytes):
    """A pickle that only pushes values."""
    pickle = b"\x80\2" + opcodes * (megabytes * MEGABYTE // len(opcodes)) + b"."
    return archive([("a/data.pkl", pickle, len(pickle), None)])


def crowded_header():
    header = b'{"a":[' + b"{}," * (30 * MEGABYTE // 3) + b"{}]}"
    return struct.pack("<Q", len(header)) + header


# --- images ---


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, colour, idat, between=b""):
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + between + chunk(b"IDAT", idat) +
            chunk(b"IEND", b""))


def png_tall():
    """As many pixels as are allowed, one to a row."""
    rows = 178956970
    return png(1, rows, 0, repeated(bytes(MEGABYTE), 2 * rows // MEGABYTE + 1, 15))


def png_flat():
    """0.7 MB of 179 million pixels in four colours."""
    side = 13377
    return png(side, side, 6, repeated(bytes(1 + 4 * side), side, 15))


def png_many_chunks():
    """Texts and a colour profile that unpack to a gigabyte, around one pixel."""
    bomb = repeated(bytes(MEGABYTE), 1000, 15)
    between = chunk(b"iCCP", b"icc\0\0" + bomb) + chunk(b"zTXt", b"a\0\0" + bomb)
    return png(1, 1, 0, zlib.compress(b"\0\0"), between)


def segment(marker, data):
    return bytes([0xFF, marker]) + struct.pack(">H", len(data) + 2) + data


def stuffed(bits):
    bits += "1" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")


def jpeg(width, height, scans):
    """A progressive grey JPEG whose scans hold only zeros: a few bytes take a walk over all
    pixels."""
    blocks = -(-width // 8) * -(-height // 8)
    start = (b"\xff\xd8" + segment(0xDB, b"\0" + b"\1" * 64) +
             segment(0xC2, struct.pack(">BHHB", 8, height, width, 1) + b"\1\x11\0") +
             segment(0xC4, b"\x10" + b"\1" + bytes(15) + b"\xe0"))
    runs = -(-blocks // 32767)
    scan = segment(0xDA, b"\1\1\0\1\5\0") + stuffed(("0" + "1" * 14) * runs)
    return start + scan * scans + b"\xff\xd9"


def jpeg_of_scans():
    """40 kB of 499 walks over 178 million pixels."""
    return jpeg(13376, 13376, 499)


def jpeg_flat():
    return jpeg(13376, 13376, 1)


KINDS = {
    "gzip-lines": gzip_of_lines,
    "gzip-line": gzip_of_one_line,
    "dense-line": dense_line,
    "long-line": long_line,
    "long-text": long_text,
    "many-ids": many_ids,
    "exponential-pattern": exponential_pattern,
    "quadratic-pattern": quadratic_pattern,
    "quadratic-scan": quadratic_scan,
    "doubling-steps": doubling_steps,
    "growing-steps": growing_steps,
    "long-added-token": long_added_token,
    "crowded-json": crowded_tokenizer,
    "zip-zeros": zip_of_zeros,
    "pickle-values": lambda: pickle_of(b"}", 40),
    "pickle-marks": lambda: pickle_of(b"(", 40),
    "pickle-memo": lambda: pickle_of(b"N" + b"\x94" * 1000, 40),
    "pickle-stack": lambda: pickle_of(b"Nq\0" + b"h\0" * 100000, 40),
    "crowded-header": crowded_header,
    "png-tall": png_tall,
    "png-flat": png_flat,
    "png-chunks": png_many_chunks,
    "jpeg-scans": jpeg_of_scans,
    "jpeg-flat": jpeg_flat,
}


def main():
    with open(sys.argv[2], "wb") as file:
        file.write(KINDS[sys.argv[1]]())


main()
