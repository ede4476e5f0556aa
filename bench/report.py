"""The table of the standard set, for people: each figure beside its target and its floor."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from bench.figures import rounded
from bench.targets import ROWS, Row

Runs = Mapping[str, Sequence[Mapping[str, Any]]]
"""By step, the figures of each of its runs."""

HEAD = ("what", "figure", "unit", "target", "", "SQL floor")


def values(runs: Runs, row: Row, figure: str) -> list[float]:
    """A figure of a row's step, of each run that has it."""
    return [run[figure] for run in runs.get(row.step, ()) if isinstance(run.get(figure), int | float)]


def table(runs: Runs) -> str:
    """Medians, with the smallest and the largest value where there are several runs. Rows without any are left out."""
    lines = [HEAD]
    for row in ROWS:
        found = values(runs, row, row.figure)
        if found:
            met = row.met(statistics.median(found))
            word = "" if met is None else "met" if met else "MISSED"
            lines.append((row.what, _spread(found), row.unit, row.target, word, _spread(values(runs, row, row.floor))))
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    right = {1, 3, 5}
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _spread(found: Sequence[float]) -> str:
    if not found:
        return ""
    median = shown(statistics.median(found))
    if len(found) == 1:
        return median
    return f"{median} ({shown(min(found))}–{shown(max(found))})"


def shown(value: float) -> str:
    """Three digits, or the whole number."""
    short = rounded(value)
    return f"{short:,.0f}" if abs(short) >= 100 else f"{short:g}"
