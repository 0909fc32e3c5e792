#!/usr/bin/env python3
"""Draws small colour images of ten classes of shapes and textures, the same ones for the same seed.

Each image holds one object of its class: six shapes (cross, disc, ring, square, star, triangle) and
four patterns (checker, dots, spiral, stripes) on a patch. What makes the classes hard to tell
apart: the object's size, place, turn, aspect and colours are random, its contrast is often weak;
small discs, squares, triangles and bars lie behind it, a bar or blob often hides part of it; the
ground has its own gradient, clouds and waves; grain covers everything.

Images are numbered, image i is of class i mod 10, and depends on the seed, the side and i's block
of 500 alone. Needs numpy, and Pillow for files.

usage: make_images.py --out DIR --count N --seed N [--format png|jpeg] [--unlabelled]
writes DIR/CLASS/INDEX.png, or DIR/INDEX.png with --unlabelled
"""

import argparse
import io
import pathlib

import numpy

CLASSES = ("checker", "cross", "disc", "dots", "ring", "spiral", "square", "star", "stripes",
           "triangle")
SIDE = 32
BLOCK = 500
# Grain and fine pattern leave little for a higher quality to keep; colour is not halved (4:4:4).
JPEG = {"quality": 88, "subsampling": 0, "optimize": True}
FORMATS = {"png": (".png", {"format": "PNG", "optimize": True}),
           "jpeg": (".jpg", {"format": "JPEG", **JPEG})}


class Draw:
    """Random numbers for a block of images, each shaped [count, 1, 1] to go with pixels."""

    def __init__(self, random, count):
        self.random, self.count = random, count

    def between(self, low, high):
        return self.random.uniform(low, high, (self.count, 1, 1)).astype(numpy.float32)

    def chance(self, probability):
        return self.between(0, 1) < probability

    def colour(self):
        return self.random.uniform(0.05, 0.95, (self.count, 1, 1, 3)).astype(numpy.float32)

    def direction(self):
        """Unit vectors of colour space, uniform over the sphere."""
        vector = self.random.standard_normal((self.count, 1, 1, 3)).astype(numpy.float32)
        return vector / numpy.linalg.norm(vector, axis=-1, keepdims=True)


# ---- geometry: pixel centres span [-1, 1] in both directions, an object's own frame has radius 1

def pixels():
    centres = (numpy.arange(SIDE, dtype=numpy.float32) + 0.5) * (2 / SIDE) - 1
    return centres[None, None, :], centres[None, :, None]


def frame(draw, x, y, scale, aspect, angle=None):
    """Coordinates (u, v) relative to centre (x, y), turned by a random angle; one pixel's width."""
    angle = draw.between(0, 2 * numpy.pi) if angle is None else angle
    column, row = pixels()
    dx, dy = (column - x) / scale, (row - y) / scale
    u = (numpy.cos(angle) * dx + numpy.sin(angle) * dy) * aspect
    v = (numpy.cos(angle) * dy - numpy.sin(angle) * dx) / aspect
    return u, v, 2 / SIDE / scale


def cover(distance, pixel):
    """How much of a pixel lies inside, for a signed distance that is negative inside."""
    return numpy.clip(0.5 - distance / pixel, 0, 1)


def disc(draw, u, v):
    return numpy.hypot(u, v) - 0.95


def ring(draw, u, v):
    return numpy.abs(numpy.hypot(u, v) - 0.75) - draw.between(0.12, 0.3)


def square(draw, u, v):
    return numpy.maximum(numpy.abs(u), numpy.abs(v)) - 0.82


def triangle(draw, u, v):
    side = 0.5 * v
    return numpy.maximum(-v, numpy.maximum(side + 0.866 * u, side - 0.866 * u)) - 0.55


def cross(draw, u, v):
    arm = draw.between(0.2, 0.36)
    across = numpy.maximum(numpy.abs(u) - 1, numpy.abs(v) - arm)
    return numpy.minimum(across, numpy.maximum(numpy.abs(u) - arm, numpy.abs(v) - 1))


def star(draw, u, v):
    """Five points: folded about their axes, one edge from the tip (1.1, 0) to the notch."""
    fifth = 2 * numpy.pi / 5
    folded = numpy.abs((numpy.arctan2(v, u) + fifth / 2) % fifth - fifth / 2)
    notch = draw.between(0.4, 0.52)
    edge_x, edge_y = notch * numpy.cos(fifth / 2) - 1.1, notch * numpy.sin(fifth / 2)
    radius = numpy.hypot(u, v)
    along, off = radius * numpy.cos(folded) - 1.1, radius * numpy.sin(folded)
    return (edge_y * along - edge_x * off) / numpy.hypot(edge_x, edge_y)


def wave(phase, cycle, pixel):
    """Anti-aliased bands of one half in [0, 1]: the sign of a sine of the given cycle length."""
    slope = cycle / (2 * numpy.pi * pixel)
    return 0.5 + numpy.clip(numpy.sin(2 * numpy.pi * phase) * slope, -0.5, 0.5)


def stripes(draw, u, v, pixel):
    cycle = draw.between(0.45, 0.75)
    return wave(u / cycle + draw.between(0, 1), cycle, pixel)


def checker(draw, u, v, pixel):
    cycle = draw.between(0.65, 1.0)
    columns = wave(u / cycle + draw.between(0, 1), cycle, pixel)
    rows = wave(v / cycle + draw.between(0, 1), cycle, pixel)
    return columns * rows + (1 - columns) * (1 - rows)


def dots(draw, u, v, pixel):
    pitch = draw.between(0.5, 0.75)
    first, second = u / pitch + draw.between(0, 1), v / pitch + draw.between(0, 1)
    first = first + numpy.where(draw.chance(0.5), 0.5 * (numpy.floor(second) % 2), 0)
    away = numpy.hypot(first % 1 - 0.5, second % 1 - 0.5) * pitch
    return cover(away - pitch * draw.between(0.25, 0.36), pixel)


def spiral(draw, u, v, pixel):
    cycle = draw.between(0.5, 0.8)
    turns = numpy.arctan2(v, u) / (2 * numpy.pi)
    turns = numpy.where(draw.chance(0.5), turns, -turns)
    return wave(numpy.hypot(u, v) / cycle + turns, cycle, pixel)


SHAPES = {"cross": cross, "disc": disc, "ring": ring, "square": square, "star": star,
          "triangle": triangle}
PATTERNS = {"checker": checker, "dots": dots, "spiral": spiral, "stripes": stripes}


# ---- layers, each [count, SIDE, SIDE, 3] over the one before

def fold(colour):
    """Into [0, 1] by reflection, which keeps two colours apart where clipping would merge them."""
    return 1 - numpy.abs(1 - numpy.abs(colour))


def over(image, coverage, colour):
    return image + coverage[..., None] * (fold(colour) - image)


def clouds(draw, cells):
    """Noise of few cells, interpolated linearly to the image's size, mean 0, about [-1, 1]."""
    grid = draw.random.uniform(-1, 1, (draw.count, cells, cells, 3)).astype(numpy.float32)
    place = numpy.linspace(0, cells - 1, SIDE, dtype=numpy.float32)
    first = numpy.minimum(place.astype(int), cells - 2)
    share = place - first
    rows = grid[:, first] * (1 - share)[:, None, None] + grid[:, first + 1] * share[:, None, None]
    return (rows[:, :, first] * (1 - share)[:, None] + rows[:, :, first + 1] * share[:, None])


def ground(draw):
    u, v, pixel = frame(draw, 0, 0, 1, 1)
    slope = draw.between(-0.25, 0.25)[..., None] * u[..., None] * draw.direction()
    waves = numpy.sin(2 * numpy.pi * v / draw.between(0.25, 0.8))
    waves = draw.between(-0.12, 0.12)[..., None] * waves[..., None] * draw.direction()
    colour = draw.colour()
    return colour, colour + slope + waves + draw.between(0, 0.24)[..., None] * clouds(draw, 5)


def clutter(draw, image):
    """One small shape, or a bar across the entire image."""
    size = draw.between(0.1, 0.26)
    u, v, pixel = frame(draw, draw.between(-1, 1), draw.between(-1, 1), size, 1)
    kind = draw.between(0, 4)
    distance = numpy.select([kind < 1, kind < 2, kind < 3],
                            [disc(draw, u, v), square(draw, u, v), triangle(draw, u, v)],
                            numpy.abs(u) - 0.3)
    coverage = cover(distance, pixel) * draw.between(0.5, 1) * draw.chance(0.75)
    return over(image, coverage, draw.colour())


def objects(draw, image, kind, colour, x, y, scale):
    """The object of class `kind` that gives the image its label."""
    aspect = numpy.exp(draw.between(-0.16, 0.16))
    u, v, pixel = frame(draw, x, y, scale, aspect)
    body = colour + 0.8 * draw.between(0.32, 1)[..., None] * draw.direction()
    shade = 0.12 * draw.between(-1, 1)[..., None] * u[..., None]
    if kind in SHAPES:
        return over(image, cover(SHAPES[kind](draw, u, v), pixel), body + shade)
    # The patch is round or square and turned on its own, so its outline tells nothing.
    patch = frame(draw, x, y, scale, 1)[:2]
    outline = numpy.where(draw.chance(0.5), disc(draw, *patch), square(draw, *patch))
    one = fold(body)
    other = fold(body + draw.between(0.35, 0.75)[..., None] * draw.direction())
    share = PATTERNS[kind](draw, u, v, pixel)[..., None]
    return over(image, cover(outline, pixel), one + share * (other - one) + shade)


def occlude(draw, image, x, y, scale):
    """A bar or a blob over the edge or the middle of the object, on every second image."""
    far = draw.between(0, 0.9) * scale
    angle = draw.between(0, 2 * numpy.pi)
    u, v, pixel = frame(draw, x + far * numpy.cos(angle), y + far * numpy.sin(angle), scale, 1)
    bar = numpy.abs(u) - draw.between(0.08, 0.22)
    blob = numpy.hypot(u, v) - draw.between(0.2, 0.45)
    coverage = cover(numpy.where(draw.chance(0.5), bar, blob), pixel) * draw.chance(0.5)
    return over(image, coverage, draw.colour())


def expose(draw, image, plain):
    """Brightness, contrast, grain unless plain; then 8 bits."""
    image = (image - 0.5) * draw.between(0.7, 1.15)[..., None] + 0.5
    image = image + draw.between(-0.12, 0.12)[..., None]
    grain = draw.random.standard_normal(image.shape, dtype=numpy.float32)
    image = image + (0 if plain else draw.between(0.01, 0.09)[..., None]) * grain
    return (numpy.clip(image, 0, 1) * 255 + 0.5).astype(numpy.uint8)


def make_block(seed, block, plain=False):
    """Images [BLOCK, SIDE, SIDE, 3] in 8 bits; classes take turns. Plain ones have the object alone
    on its ground, to begin to learn from."""
    result = numpy.empty((BLOCK, SIDE, SIDE, 3), numpy.uint8)
    for index, kind in enumerate(CLASSES):
        members = range(index, BLOCK, len(CLASSES))
        draw = Draw(numpy.random.default_rng((seed, block, index)), len(members))
        colour, image = ground(draw)
        for _ in range(0 if plain else 3):
            image = clutter(draw, image)
        scale = draw.between(0.46, 0.82)
        reach = numpy.maximum(1 - 0.85 * scale, 0.15)
        x, y = draw.between(-1, 1) * reach, draw.between(-1, 1) * reach
        image = objects(draw, image, kind, colour, x, y, scale)
        if not plain:
            image = clutter(draw, occlude(draw, image, x, y, scale))
        result[list(members)] = expose(draw, image, plain)
    return result


def make_images(seed, count):
    """Images [count, SIDE, SIDE, 3] in 8 bits and their classes [count]."""
    blocks = [make_block(seed, block) for block in range(-(-count // BLOCK))]
    return numpy.concatenate(blocks)[:count], numpy.arange(count) % len(CLASSES)


# ---- files

def encode(image, form):
    from PIL import Image
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, **FORMATS[form][1])
    return stream.getvalue()


def through_jpeg(images):
    """What a reader of the JPEG files sees."""
    from PIL import Image
    return numpy.stack([numpy.asarray(Image.open(io.BytesIO(encode(image, "jpeg"))))
                        for image in images])


def write_images(folder, seed, count, form, unlabelled):
    images, labels = make_images(seed, count)
    for index, (image, label) in enumerate(zip(images, labels)):
        place = folder if unlabelled else folder / CLASSES[label]
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{index:05d}{FORMATS[form][0]}").write_bytes(encode(image, form))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--format", choices=sorted(FORMATS), default="png")
    parser.add_argument("--unlabelled", action="store_true", help="no folder for each class")
    options = parser.parse_args()
    write_images(options.out, options.seed, options.count, options.format, options.unlabelled)


if __name__ == "__main__":
    main()
