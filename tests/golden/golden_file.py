"""Safetensors files of f32 arrays, read and written with numpy alone."""

import json
import struct

import numpy


def read_safetensors(path):
    if not path.exists():
        return {}
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        found[name] = numpy.frombuffer(data[8 + size + begin:8 + size + end],
                                       numpy.float32).reshape(entry["shape"])
    return found


def write_safetensors(path, tensors, versions):
    header = {"__metadata__": versions}
    offset = 0
    for name, value in sorted(tensors.items()):
        header[name] = {"dtype": "F32", "shape": list(value.shape),
                        "data_offsets": [offset, offset + value.nbytes]}
        offset += value.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(numpy.ascontiguousarray(value).tobytes()
                    for _, value in sorted(tensors.items()))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
