"""One picture of the standard set, as SVG: how far each figure is from its target, on either side.

A few rectangles and words, so no library is asked for them.
"""

import math
import statistics
from collections.abc import Iterator
from html import escape

from bench import report
from bench.targets import ROWS

WIDTH, LABEL_WIDTH, FIGURE_WIDTH = 980, 360, 190
ROW_HEIGHT, HEAD_HEIGHT, MARGIN = 22, 44, 8
TIMES_MAX = 10.0
"""Better or worse by more is drawn as this."""

GRID = (0.1, 0.2, 0.5, 1, 2, 5, 10)
MET, MISSED, LINE, TEXT = "#2f855a", "#c53030", "#cbd5e0", "#1a202c"


def margins(runs: report.Runs) -> str:
    """A bar for each figure that has a target: to the right of 1 it is met, by so many times."""
    bars = list(_bars(runs))
    bottom = HEAD_HEIGHT + ROW_HEIGHT * len(bars)
    height = bottom + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="12" fill="{TEXT}">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _words(MARGIN, 18, "Figures of the standard set: so many times better than their target"),
    ]
    for times in GRID:
        x = _x(times)
        colour = TEXT if times == 1 else LINE
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{HEAD_HEIGHT}" y2="{bottom}" stroke="{colour}"/>')
        parts.append(_words(x, HEAD_HEIGHT - 6, f"{times:g}×", "middle"))
    for index, (what, figure, margin) in enumerate(bars):
        y = HEAD_HEIGHT + index * ROW_HEIGHT
        left, right = sorted((_x(1), _x(margin)))
        parts.append(_words(LABEL_WIDTH - MARGIN, y + 15, what, "end"))
        parts.append(
            f'<rect x="{left:.1f}" y="{y + 4}" width="{max(right - left, 1):.1f}" height="{ROW_HEIGHT - 8}" '
            f'fill="{MET if margin >= 1 else MISSED}"/>'
        )
        parts.append(_words(WIDTH - FIGURE_WIDTH + MARGIN, y + 15, figure))
    return "\n".join([*parts, "</svg>\n"])


def _bars(runs: report.Runs) -> Iterator[tuple[str, str, float]]:
    """What it is, the figure beside its target, and how many times better it is."""
    for row in ROWS:
        found = report.values(runs, row, row.figure)
        if not found:
            continue
        value = statistics.median(found)
        margin = row.margin(value)
        if margin is not None:
            yield row.what, f"{report.shown(value)} {row.unit} ({row.target})".replace("  ", " "), margin


def _x(times: float) -> float:
    """On a logarithmic axis."""
    share = math.log(min(max(times, 1 / TIMES_MAX), TIMES_MAX) * TIMES_MAX) / math.log(TIMES_MAX**2)
    return LABEL_WIDTH + share * (WIDTH - LABEL_WIDTH - FIGURE_WIDTH)


def _words(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'
