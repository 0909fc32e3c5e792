#!/usr/bin/env python3
"""Writes tests/golden/images: small JPEG and PNG files of every kind that is read, and what Pillow
9.4 and torchvision 0.14 make of them.

usage: make_image_golden.py [FOLDER]

expected.txt has lines "file preset size sha256": the hash of the network's input, f32, [size, size,
3], channel last. FOLDER is a folder of other images that are not committed (the ImageNet sample of
the shared data); their hashes go to sample.txt.

Made with Pillow 9.4.0 on libjpeg-turbo 2.1.5, torchvision 0.14.1, torch 1.13.0 (Debian 12).
"""

import hashlib
import io
import pathlib
import struct
import sys
import zlib

import numpy as np
from PIL import Image
from torchvision import transforms

IMAGES = pathlib.Path(__file__).resolve().parent / "images"
BILINEAR = transforms.InterpolationMode.BILINEAR
BICUBIC = transforms.InterpolationMode.BICUBIC
CIFAR = ([0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010])
IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
CLIP = ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711])
HALF = ([0.5] * 3, [0.5] * 3)


def to_rgb(picture):
    return picture.convert("RGB")


def pipeline(preset, size):
    """The steps after Image.open."""
    finish = [transforms.ToTensor()]
    if preset == "imagenet":
        steps = [to_rgb, transforms.Resize(size * 256 // 224, BILINEAR), transforms.CenterCrop(size)]
        scale = IMAGENET
    elif preset == "vit":
        steps = [to_rgb, transforms.Resize(int(size / 0.9), BICUBIC), transforms.CenterCrop(size)]
        scale = HALF
    elif preset == "clip":
        steps = [transforms.Resize(size, BICUBIC), transforms.CenterCrop(size), to_rgb]
        scale = CLIP
    else:
        steps, scale = [to_rgb, transforms.CenterCrop(size)], CIFAR
    return transforms.Compose(steps + finish + [transforms.Normalize(*scale)])


def digest(path, preset, size):
    with Image.open(path) as picture:
        tensor = pipeline(preset, size)(picture)
    values = tensor.permute(1, 2, 0).contiguous().numpy()
    assert values.shape == (size, size, 3) and values.dtype == np.float32
    return hashlib.sha256(values.tobytes()).hexdigest()


def scene(height, width, channels, top):
    """Waves, an edge and noise: integers from 0 to `top`, [height, width, channels]."""
    random = np.random.default_rng(height * 1000 + width * 10 + channels)
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    values = 0.5 + 0.3 * np.sin(x / (5 + c) + y / 9) + 0.2 * np.cos(y / (3 + c))
    values += np.where(x * height > y * width, 0.25, -0.15) + random.normal(0, 0.06, values.shape)
    return np.clip(np.rint(values * top), 0, top).astype(np.int64)


def jpeg(height, width, mode, **options):
    values = scene(height, width, len(Image.new(mode, (1, 1)).getbands()), 255).astype(np.uint8)
    picture = Image.fromarray(values[:, :, 0] if mode == "L" else values, mode)
    stream = io.BytesIO()
    picture.save(stream, "JPEG", **options)
    return stream.getvalue()


def with_adobe_transform(data, transform):
    """The file with the colour transform of its Adobe segment replaced, or with one inserted."""
    segment = b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00"
    at = data.find(b"\xff\xee\x00\x0eAdobe")
    if at >= 0:
        return data[:at + 15] + bytes([transform]) + data[at + 16:]
    return data[:2] + segment + bytes([transform]) + data[2:]


def without_jfif(data):
    assert data[2:4] == b"\xff\xe0"
    return data[:2] + data[4 + struct.unpack(">H", data[4:6])[0]:]


def exif(orientation):
    data = Image.Exif()
    data[0x0112] = orientation
    return data.tobytes()


PASSES = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2),
          (1, 0, 2, 1)]


def pack_rows(values, depth):
    """Rows of [height, width, channels], each behind filter type 0."""
    rows = b""
    for row in values:
        samples = row.reshape(-1)
        if depth == 16:
            packed = samples.astype(">u2").tobytes()
        else:
            bits = (samples[:, None] >> np.arange(depth - 1, -1, -1)) & 1
            packed = np.packbits(bits.astype(np.uint8).reshape(-1)).tobytes()
        rows += b"\0" + packed
    return rows


def png(values, depth, colour, chunks=(), interlaced=False):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    height, width = values.shape[:2]
    if interlaced:
        parts = [values[y::dy, x::dx] for y, x, dy, dx in PASSES]
        rows = b"".join(pack_rows(part, depth) for part in parts if part.size > 0)
    else:
        rows = pack_rows(values, depth)
    header = struct.pack(">2I5B", width, height, depth, colour, 0, 0, int(interlaced))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        chunk(name, data) for name, data in
        [(b"IHDR", header), *chunks, (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b"")])


GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6


def png_scene(height, width, depth, colour, chunks=(), interlaced=False):
    channels = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}[colour]
    return png(scene(height, width, channels, 2**depth - 1), depth, colour, chunks, interlaced)


def palette(count):
    random = np.random.default_rng(count)
    return b"PLTE", random.integers(0, 256, 3 * count).astype(np.uint8).tobytes()


def jpeg_files():
    yield "rgb-420.jpg", jpeg(45, 61, "RGB", quality=80, subsampling="4:2:0")
    yield "rgb-422.jpg", jpeg(37, 52, "RGB", quality=60, subsampling="4:2:2")
    yield "rgb-444.jpg", jpeg(52, 37, "RGB", quality=90, subsampling="4:4:4")
    yield "rgb-progressive.jpg", jpeg(50, 43, "RGB", quality=70, progressive=True)
    yield "rgb-turned.jpg", jpeg(30, 44, "RGB", quality=70, exif=exif(6))
    yield "rgb-untransformed.jpg", with_adobe_transform(
        without_jfif(jpeg(35, 36, "RGB", quality=80)), 0)
    yield "rgb-narrow.jpg", jpeg(70, 3, "RGB", quality=90)
    yield "rgb-square.jpg", jpeg(32, 32, "RGB", quality=95)
    yield "grey.jpg", jpeg(41, 58, "L", quality=75)
    yield "grey-progressive.jpg", jpeg(33, 29, "L", quality=75, progressive=True)
    yield "cmyk.jpg", jpeg(36, 49, "CMYK", quality=70)
    yield "ycck.jpg", with_adobe_transform(jpeg(49, 36, "CMYK", quality=70), 2)
    yield "cmyk-no-adobe.jpg", jpeg(25, 31, "CMYK", quality=70).replace(b"Adobe", b"Other", 1)
    yield "png-by-another-name.JPEG", png_scene(24, 20, 8, RGB)


def png_files():
    profile = zlib.compress(b"not a profile")
    yield "grey-1.png", png_scene(39, 50, 1, GREY)
    yield "grey-2.png", png_scene(39, 50, 2, GREY)
    yield "grey-4.png", png_scene(39, 50, 4, GREY)
    yield "grey-8.png", png_scene(27, 22, 8, GREY, [(b"tRNS", b"\0\x40")])
    yield "grey-16.png", png_scene(27, 22, 16, GREY)
    yield "grey-16-dark.png", png(scene(22, 27, 1, 300), 16, GREY)
    yield "grey-alpha-8.png", png_scene(24, 30, 8, GREY_ALPHA)
    yield "grey-alpha-16.png", png_scene(23, 17, 16, GREY_ALPHA)
    yield "rgb-8.png", png_scene(21, 26, 8, RGB, [(b"gAMA", struct.pack(">I", 100000)),
                                                  (b"tRNS", bytes(6))])
    yield "rgb-16.png", png_scene(20, 15, 16, RGB)
    yield "rgb-profile.png", png_scene(18, 19, 8, RGB, [(b"iCCP", b"x\0\0" + profile),
                                                        (b"eXIf", exif(8)[6:])])
    yield "rgba-8.png", png_scene(20, 27, 8, RGBA)
    yield "rgba-16.png", png_scene(16, 20, 16, RGBA)
    yield "palette-1.png", png_scene(31, 38, 1, PALETTE, [palette(2)])
    yield "palette-2.png", png_scene(31, 38, 2, PALETTE, [palette(4)])
    yield "palette-4.png", png_scene(38, 31, 4, PALETTE, [palette(16)])
    yield "palette-8.png", png_scene(33, 28, 8, PALETTE, [palette(256), (b"tRNS", bytes(range(99)))])
    yield "palette-short.png", png_scene(29, 35, 8, PALETTE, [palette(100)])
    yield "interlaced-rgb.png", png_scene(21, 23, 8, RGB, interlaced=True)
    yield "interlaced-grey-1.png", png_scene(34, 45, 1, GREY, interlaced=True)
    yield "interlaced-grey-16.png", png_scene(17, 21, 16, GREY, interlaced=True)
    yield "interlaced-palette-4.png", png_scene(30, 25, 4, PALETTE, [palette(16)], interlaced=True)
    yield "interlaced-tiny.png", png_scene(1, 2, 8, RGBA, interlaced=True)


def write_hashes(name, folder, cases):
    lines = [f"{path.name} {preset} {size} {digest(path, preset, size)}\n"
             for path in sorted(folder.iterdir()) if path.suffix.lower() in (".jpg", ".jpeg", ".png")
             for preset, size in cases(path)]
    (IMAGES / name).write_text("".join(lines))


def committed_cases(path):
    yield from ((preset, size) for preset in ("imagenet", "clip", "vit") for size in (13, 64))
    if path.name == "rgb-square.jpg":
        yield "cifar", 32


def main():
    IMAGES.mkdir(exist_ok=True)
    for name, data in [*jpeg_files(), *png_files()]:
        (IMAGES / name).write_bytes(data)
    write_hashes("expected.txt", IMAGES, committed_cases)
    if len(sys.argv) > 1:
        write_hashes("sample.txt", pathlib.Path(sys.argv[1]),
                     lambda path: [("imagenet", 224), ("clip", 224), ("vit", 224)])


if __name__ == "__main__":
    main()
