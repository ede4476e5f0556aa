"""The two faces of a running example: a live table on a terminal, a line now and then elsewhere."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from rota.cli.drive import Snapshot, Summary
from rota.cli.driveschedules import Happened, Row
from rota.cli.output import STATE_STYLES, Output, span
from rota.cli.showschedules import ROWS_MAX, happened_line, schedule_table
from rota.clock import Clock

if TYPE_CHECKING:
    from rich.console import RenderableType

LINE_EVERY_S: Final = 2.0
REFRESH_PER_S: Final = 4
JOB_ROWS_MIN: Final = 3
_FRAME_ROWS: Final = 7
"""Lines beside the rows of both tables: heads, counts and blanks."""

_ORDER: Final = (
    "SCHEDULED",
    "READY",
    "LEASED",
    "RETRY_WAIT",
    "CANCELLING",
    "SUCCEEDED",
    "CANCELLED",
    "EXPIRED",
    "DEAD",
)


class View(Protocol):
    """Shows snapshots until closed."""

    def update(self, snapshot: Snapshot, doing: str, schedules: Sequence[Row] = ()) -> None: ...

    def tell(self, happened: Happened) -> None: ...

    def close(self) -> None: ...


class LineView:
    """A line every two seconds, and one for each occurrence of a schedule."""

    def __init__(self, stream: TextIO, clock: Clock) -> None:
        self._stream = stream
        self._clock = clock
        self._begun = self._last = clock.monotonic()

    def update(self, snapshot: Snapshot, doing: str, schedules: Sequence[Row] = ()) -> None:
        now = self._clock.monotonic()
        if now - self._last < LINE_EVERY_S:
            return
        self._last = now
        counts = ", ".join(f"{name.lower()} {snapshot.states[name]}" for name in _ORDER if snapshot.states[name])
        line = f"{now - self._begun:5.0f} s  {doing}, created {snapshot.created}: {counts}; {snapshot.rate:.1f}/s"
        print(line, file=self._stream, flush=True)

    def tell(self, happened: Happened) -> None:
        elapsed_s = self._clock.monotonic() - self._begun
        print(f"{elapsed_s:5.0f} s  {happened_line(happened)}", file=self._stream, flush=True)

    def close(self) -> None:
        pass


class LiveView:
    """Counts by state, throughput, the schedules and the newest jobs, redrawn in place."""

    def __init__(self, output: Output) -> None:
        from rich.live import Live

        self._console = output.console()
        self._live = Live(console=self._console, refresh_per_second=REFRESH_PER_S, transient=True)
        self._live.start()

    def update(self, snapshot: Snapshot, doing: str, schedules: Sequence[Row] = ()) -> None:
        self._live.update(_picture(snapshot, doing, schedules, *self._console.size))

    def tell(self, happened: Happened) -> None:
        # The table has it.
        pass

    def close(self) -> None:
        self._live.stop()


def view(output: Output, clock: Clock) -> View:
    """The face that fits: lines go to stderr where stdout is for the summary alone."""
    if output.json:
        return LineView(sys.stderr, clock)
    return LiveView(output) if sys.stdout.isatty() else LineView(sys.stdout, clock)


def summary_lines(summary: Summary) -> Sequence[str]:
    """The summary for people."""
    lines = [
        f"created {summary.created}, succeeded {summary.succeeded}, dead {summary.dead}, lost {summary.lost}; "
        f"{summary.failed_attempts} failed attempts"
    ]
    if summary.p50_ms is not None and summary.p99_ms is not None:
        lines.append(f"due to leased: p50 {summary.p50_ms:g} ms, p99 {summary.p99_ms:g} ms")
    if summary.unfinished:
        lines.append(f"{summary.unfinished} not finished yet: it goes on with the next start")
    return lines


def _picture(snapshot: Snapshot, doing: str, schedules: Sequence[Row], width: int, height: int) -> "RenderableType":
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    counts = Text()
    for name in _ORDER:
        if snapshot.states[name]:
            counts.append(f"{name.lower()} ", style="dim")
            counts.append(f"{snapshot.states[name]}   ", style=STATE_STYLES.get(name, ""))
    head = Text(f"{doing}   ", style="bold")
    head.append(f"created {snapshot.created}   {snapshot.rate:.1f} jobs/s", style="not bold")
    if snapshot.p50_ms is not None:
        head.append(f"   due to leased p50 {snapshot.p50_ms:g} ms, p99 {snapshot.p99_ms:g} ms", style="not bold dim")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("JOB", "TYPE", "STATE", "TRIES", "WAITED"):
        table.add_column(column, no_wrap=True, overflow="ellipsis", justify="right" if column == "WAITED" else "left")
    parts: list[RenderableType] = [head, counts, Text()]
    newest = snapshot.newest
    if schedules:
        parts += [schedule_table(schedules, width), Text()]
        # What is cut off at the end of a low terminal are the older jobs.
        newest = newest[: max(JOB_ROWS_MIN, height - min(len(schedules), ROWS_MAX + 1) - _FRAME_ROWS)]
    for seen in newest:
        waited = span(seen.latency_s) if seen.latency_s is not None else ""
        cells: list[Any] = [seen.name, seen.type, Text(seen.state, style=STATE_STYLES.get(seen.state, ""))]
        table.add_row(*cells, str(seen.attempt or ""), waited)
    return Group(*parts, table)
