"""The schedules of a running example, for people: a table on a terminal, a line for each fire elsewhere."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from rota.cli.checkschedules import ScheduleSummary
from rota.cli.driveschedules import ON_TIME_S, Happened, Row
from rota.cli.output import STATE_STYLES, instant, printable, span

if TYPE_CHECKING:
    from rich.table import Table

ROWS_MAX: Final = 12
SAID_FROM_WIDTH: Final = 110
"""Narrower terminals have no room for what commands print."""

SECONDS_UNTIL_S: Final = 120
"""What is nearer is counted down in seconds."""

_ID_WIDTH: Final = 30
_RULE_WIDTH: Final = 20
_OTHERS_WIDTH: Final = 58
"""What the other columns take, blanks between them included."""


def happened_line(happened: Happened) -> str:
    """heartbeat  FIRED  12:31:05Z, started 4 ms after it, SUCCEEDED: 2026-11-30T12:31:05Z"""
    words = [_clock(happened.due)]
    if happened.origin != "RULE":
        words.append(happened.origin)
    if happened.late_s is not None:
        words.append(f"started {span(happened.late_s)} after it")
    if happened.state:
        words.append(happened.state)
    told = happened.said or happened.reason
    return printable(f"{happened.id}  {happened.fate}  {', '.join(words)}{f': {told}' if told else ''}")


def schedule_table(rows: Sequence[Row], width: int) -> "Table":
    """Of many schedules those that fire next."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    columns = ["SCHEDULE", "RULE", "NEXT", "LAST", "FATE", "LATE", "FIRED"]
    # Ids and rules are what can be cut on a narrow terminal.
    left = max(width - _OTHERS_WIDTH, 2)
    most = {"SCHEDULE": min(_ID_WIDTH, left * 3 // 5), "RULE": min(_RULE_WIDTH, left * 2 // 5)}
    if width >= SAID_FROM_WIDTH:
        columns.append("SAID")
    for column in columns:
        right = column in ("LATE", "FIRED")
        table.add_column(
            column,
            no_wrap=True,
            overflow="ellipsis",
            justify="right" if right else "left",
            max_width=most.get(column),
        )
    for row in _shown(rows):
        last = row.last
        fate = last.fate if last is not None else ""
        cells: list[Any] = [printable(row.id), printable(row.rule), Text(_next(row), style=_state_style(row))]
        cells += [_clock(last.due) if last is not None else "", Text(fate, style=STATE_STYLES.get(fate, "yellow"))]
        late = span(last.late_s) if last is not None and last.late_s is not None else ""
        cells += [late, str(row.fired or ""), printable(last.said) if last is not None else ""]
        table.add_row(*cells[: len(columns)])
    if len(rows) > ROWS_MAX:
        table.add_row(Text(f"and {len(rows) - ROWS_MAX} more", style="dim"))
    return table


def schedule_summary_lines(summary: ScheduleSummary) -> Iterator[str]:
    """The summary for people."""
    others = "".join(f", {fate.lower()} {count}" for fate, count in summary.not_fired.items())
    fired = summary.fates["FIRED"]
    yield f"schedules {summary.schedules}, due {summary.due}, fired {fired}{others}, lost {summary.lost}"
    if summary.p50_s is not None and summary.max_s is not None:
        yield (
            f"due to started: p50 {span(summary.p50_s)}, max {span(summary.max_s)}; "
            f"{summary.on_time} within {ON_TIME_S:g} s"
        )
    if summary.failed:
        yield f"{summary.failed} of their jobs failed for good"
    if summary.unchecked:
        yield f"{summary.unchecked} schedules were not checked: changed during the run, or counted by the server alone"


def _shown(rows: Sequence[Row]) -> Sequence[Row]:
    if len(rows) <= ROWS_MAX:
        return rows
    soonest = sorted(rows, key=lambda row: (row.next_s is None, row.next_s or 0.0, row.id))[:ROWS_MAX]
    return sorted(soonest, key=lambda row: row.id)


def _next(row: Row) -> str:
    if row.next_s is None:
        return "" if row.state == "ACTIVE" else row.state
    seconds = round(row.next_s)
    if seconds < 1:
        return "now"
    return f"in {seconds} s" if seconds < SECONDS_UNTIL_S else f"in {span(seconds)}"


def _state_style(row: Row) -> str:
    return "" if row.next_s is not None else STATE_STYLES.get(row.state, "")


def _clock(at: datetime) -> str:
    """12:31:05Z"""
    return instant(at, timespec="seconds").partition("T")[2]
