"""Accuracies over time as SVG: a panel for each model, a line for each way of summing."""

from __future__ import annotations

from html import escape

# Points: seconds, and per cent.
Line = list[tuple[float, float]]

WIDTH, HEIGHT = 380, 260
LEFT, TOP, RIGHT, BOTTOM = 50, 46, 16, 46
# Distinguishable with red-green colour blindness.
COLOURS = ["#787878", "#c85a00", "#005aa0", "#008246", "#963c96"]
DASHES = ["", "6 3", "", "2 3", "8 3 2 3"]
STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]


def drawn(panels: dict[str, dict[str, Line]]) -> str:
    """The picture."""
    width = WIDTH * len(panels)
    parts = [
        f'<svg width="{width}" height="{HEIGHT}" viewBox="0 0 {width} {HEIGHT}" '
        'xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{HEIGHT}" fill="#fff"/>',
    ]
    for at, (title, lines) in enumerate(panels.items()):
        parts += [f'<g transform="translate({at * WIDTH}, 0)">', *_panel(title, lines), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _panel(title: str, lines: dict[str, Line]) -> list[str]:
    longest = max(seconds for line in lines.values() for seconds, _ in line)
    step = next((step for step in STEPS if longest / step <= 8), STEPS[-1])
    end = step * (int(longest / step) + 1)
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def x(seconds: float) -> float:
        return round(LEFT + seconds / end * (right - LEFT), 1)

    def y(share: float) -> float:
        return round(bottom - share / 100 * (bottom - TOP), 1)

    parts = [_text(WIDTH / 2, 16, "middle", title)]
    for share in range(0, 101, 20):
        parts.append(_line(LEFT, y(share), right, y(share), "#ddd"))
        parts.append(_text(LEFT - 6, y(share) + 4, "end", str(share)))
    for seconds in range(0, end + 1, step):
        parts.append(_line(x(seconds), bottom, x(seconds), bottom + 4, "#000"))
        parts.append(_text(x(seconds), bottom + 16, "middle", str(seconds)))
    parts.append(_line(LEFT, bottom, right, bottom, "#000"))
    parts.append(_text((LEFT + right) / 2, HEIGHT - 12, "middle", "seconds"))
    parts.append(_text(LEFT - 6, TOP - 10, "end", "%"))
    for at, (name, line) in enumerate(lines.items()):
        colour = COLOURS[at % len(COLOURS)]
        dashes = f'stroke-dasharray="{DASHES[at % len(DASHES)]}"'
        places = " ".join(f"{x(seconds)},{y(share)}" for seconds, share in line)
        style = f'fill="none" stroke="{colour}" stroke-width="1.8" {dashes}'
        parts.append(f'<polyline points="{places}" {style}/>')
        begin = LEFT + at * (right - LEFT) / len(lines)
        parts.append(f'<polyline points="{begin:.0f},28 {begin + 16:.0f},28" {style}/>')
        parts.append(_text(begin + 20, 32, "start", name))
    return parts


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}"/>'


def _text(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'
