#!/usr/bin/env python3
"""Draws README's picture, docs/results/curve.svg: what is left of two networks by the share of parameters that goes, for
each repair. Its figures are those of results of sweeps.

usage: curve.py            writes the picture
       curve.py --check    says whether the picture is what it would draw
"""

import math
import pathlib
import sys
from html import escape

import table

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURE = "docs/results/curve.svg"

# A line's name, the class of its colour, and the conditions of its cells as bench/table.py takes them.
REPAIRS = (("plain cut", "plain", "budget=uniform compensate=none"), ("paper's repair", "paper", "budget=uniform compensate=grail"),
           ("default repair", "default", "budget=uniform compensate=full heal=none"))
PANELS = (
    {"title": "Demonstration language model", "what": "perplexity on held-out text, log axis; lower is better",
     "results": "docs/results/best.jsonl", "where": ["checkpoint=demo"], "shares": ("0.3", "0.5", "0.7"),
     "lines": (*REPAIRS, ("searched, healed", "healed", "budget=search compensate=full heal=model")),
     "x": (0.0, 20.0, 40.0, 60.0), "y": (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0), "room": (1.0, 1600.0), "log": True},
    {"title": "ResNet-20", "what": "top-1 on CIFAR-10 in %; higher is better",
     "results": "docs/results/best.jsonl", "where": ["checkpoint=ResNet-20"], "shares": ("0.3", "0.5", "0.7"),
     "lines": (*REPAIRS, ("healed", "healed", "budget=uniform compensate=full heal=block,model")),
     "x": (0.0, 20.0, 40.0, 60.0), "y": (0.0, 20.0, 40.0, 60.0, 80.0), "room": (0.0, 90.0), "log": False},
)
WIDTH, HEIGHT = 920, 400
LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT, STEP = 48, 76, 262, 262, 450
LABEL_APART = 16.0
STYLE = """
svg { font-family: system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif; font-size: 13px; }
.card { fill: #ffffff; stroke: #d8dee4; }
.ink { fill: #1f2328; }
.soft { fill: #59636e; font-size: 12px; }
.title { font-size: 15px; font-weight: 600; }
.grid { stroke: #e6e9ed; }
.dense { color: #1f2328; }
.plain { color: #7a828b; }
.paper { color: #b35900; }
.default { color: #0969da; }
.healed { color: #1a7f37; }
.line { fill: none; stroke: currentColor; stroke-width: 2; stroke-linejoin: round; }
.dash { stroke-dasharray: 5 4; stroke-width: 1.5; }
.dot { fill: currentColor; }
.name { fill: currentColor; font-weight: 600; }
@media (prefers-color-scheme: dark) {
.card { fill: #0d1117; stroke: #3d444d; }
.ink { fill: #f0f6fc; }
.soft { fill: #9198a1; }
.grid { stroke: #262c36; }
.dense { color: #f0f6fc; }
.plain { color: #9198a1; }
.paper { color: #e09b4f; }
.default { color: #58a6ff; }
.healed { color: #3fb950; }
}
"""


def shown(figure):
    """With three digits or more."""
    return f"{figure:,.{0 if figure >= 100 else 1 if figure >= 10 else 2}f}"


class Panel:
    """A plot at `left`, with the points of its lines: the share of the parameters that went, in %, and the figure."""

    def __init__(self, asked, left):
        self.asked, self.left = asked, left
        found = table.Table(ROOT / asked["results"], asked["where"], 2)
        self.dense = table.figure_of(found.dense_of(found.where))
        whole = found.dense[found.where["checkpoint"]]["parameters"]
        self.lines = []
        for name, colour, conditions in asked["lines"]:
            points = [(0.0, self.dense)]
            for share in asked["shares"]:
                wanted = {**found.where, **table.conditions_of(conditions.split()), "sparsity": share}
                line = found.line(wanted)
                points.append((100 * (1 - line["parameters"] / whole), table.figure_of(found.evaluation(line, wanted))))
            self.lines.append((name, colour, points))
        self.last = max(points[-1][0] for _, _, points in self.lines)

    def x(self, share):
        return self.left + PLOT_WIDTH * share / self.last

    def y(self, figure):
        low, high = self.asked["room"]
        scale = math.log if self.asked["log"] else float
        return TOP + PLOT_HEIGHT * (1 - (scale(figure) - scale(low)) / (scale(high) - scale(low)))

    def frame(self):
        right = self.left + PLOT_WIDTH
        yield f'<text class="ink title" x="{self.left - 28}" y="36">{escape(self.asked["title"])}</text>'
        yield f'<text class="soft" x="{self.left - 28}" y="55">{escape(self.asked["what"])}</text>'
        for figure in self.asked["y"]:
            y = self.y(figure)
            yield f'<path class="grid" d="M{self.left} {y:.1f}H{right}"/>'
            yield f'<text class="soft" x="{self.left - 7}" y="{y + 4:.1f}" text-anchor="end">{figure:,.0f}</text>'
        for share in self.asked["x"]:
            yield f'<text class="soft" x="{self.x(share):.1f}" y="{TOP + PLOT_HEIGHT + 20}" text-anchor="middle">{share:g} %</text>'

    def drawn(self):
        ends = [("dense", "dense", self.dense)]
        yield f'<path class="line dash dense" d="M{self.left} {self.y(self.dense):.1f}H{self.left + PLOT_WIDTH}"/>'
        for name, colour, points in self.lines:
            places = [(self.x(share), self.y(figure)) for share, figure in points]
            yield f'<path class="line {colour}" d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in places)}"/>'
            yield from (f'<circle class="dot {colour}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in places[1:])
            ends.append((name, colour, points[-1][1]))
        ends.sort(key=lambda end: self.y(end[2]))
        below = -math.inf
        for name, colour, figure in ends:  # each label beside its end, or below the one before
            below = max(self.y(figure) + 4.5, below + LABEL_APART)
            yield f'<text class="name {colour}" x="{self.left + PLOT_WIDTH + 9}" y="{below:.1f}">{escape(name)} {shown(figure)}</text>'

    def told(self):
        """The figures in words, for who does not see the picture."""
        lines = [f"{name} " + ", ".join(f"{shown(figure)} without {share:.0f} %" for share, figure in points[1:]) for name, _, points in self.lines]
        return f"{self.asked['title']}, {self.asked['what']}: dense {shown(self.dense)}; " + "; ".join(lines) + "."


def picture():
    panels = [Panel(asked, LEFT + STEP * i) for i, asked in enumerate(PANELS)]
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">',
             "<title>What repairs keep of two networks</title>", f"<desc>{escape(' '.join(panel.told() for panel in panels))}</desc>",
             f"<style>{STYLE}</style>", f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8"/>']
    for panel in panels:
        parts += [*panel.frame(), *panel.drawn()]
        parts.append(f'<text class="soft" x="{panel.left + PLOT_WIDTH / 2:g}" y="{HEIGHT - 20}" text-anchor="middle">parameters removed</text>')
    return "\n".join([*parts, "</svg>", ""])


def problems():
    path = ROOT / PICTURE
    try:
        drawn = picture()
    except (table.Refused, OSError) as error:
        return [f"{PICTURE}: bench/curve.py cannot draw it: {error}"]
    if not path.is_file() or path.read_text() != drawn:
        return [f"{PICTURE} is not what bench/curve.py draws; run it"]
    return []


def main():
    if sys.argv[1:] == ["--check"]:
        found = problems()
        print("\n".join(found), end="\n" * bool(found))
        return 1 if found else 0
    if sys.argv[1:]:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    (ROOT / PICTURE).write_text(picture())
    return 0


if __name__ == "__main__":
    sys.exit(main())
