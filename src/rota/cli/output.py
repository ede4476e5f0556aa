"""What commands print: tables and fields for people, JSON for scripts. Instants are ISO 8601 in UTC."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

# Wide enough that nothing is cut or folded where no terminal says how wide it is.
_PIPE_WIDTH = 10_000
_GAP = 2


@dataclass(slots=True)
class Output:
    """Where results go. `color` None: as the terminal allows."""

    json: bool = False
    color: bool | None = None

    def document(self, value: Mapping[str, Any]) -> None:
        """One JSON object on a line of its own, at once."""
        text = json.dumps(value, ensure_ascii=_ascii_only(sys.stdout))
        print(text, flush=True)

    def console(self, *, stderr: bool = False) -> "Console":
        """Rich's view of the terminal; without markup, so that texts of others stay texts."""
        from rich.console import Console

        stream = sys.stderr if stderr else sys.stdout
        return Console(
            stderr=stderr,
            markup=False,
            emoji=False,
            highlight=False,
            color_system=None if self.color is False else "auto",
            width=None if stream.isatty() else _PIPE_WIDTH,
        )

    def table(
        self, columns: Sequence[str], rows: Iterable[Sequence[str]], *, fold: str, optional: Sequence[str] = ()
    ) -> None:
        """Rows under headings. Where the terminal is too narrow, the `optional` columns go, the first one first, and
        then `fold` takes several lines.
        """
        from rich.table import Table
        from rich.text import Text

        console = self.console()
        cells = [[printable(cell) for cell in row] for row in rows]
        shown = _fitting(columns, cells, console.width, optional)
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
        for index in shown:
            folds = columns[index] == fold
            table.add_column(columns[index], no_wrap=not folds, overflow="fold" if folds else "ellipsis")
        for row in cells:
            table.add_row(*(Text(row[index], style=STATE_STYLES.get(row[index], "")) for index in shown))
        _print(console, table)

    def fields(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Names and values, one pair a line; pairs without a value are left out."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=False)
        table.add_column(no_wrap=True, style="dim")
        table.add_column(overflow="fold")
        for name, value in pairs:
            if value:
                table.add_row(name, Text(printable(value), style=STATE_STYLES.get(value, "")))
        _print(self.console(), table)


def _fitting(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, optional: Sequence[str]
) -> Sequence[int]:
    """The columns, by index, that are shown in so many characters."""
    widths = [max(map(len, texts)) for texts in zip(columns, *rows, strict=True)]
    shown = list(range(len(columns)))
    for name in optional:
        if sum(widths[index] + _GAP for index in shown) - _GAP <= width:
            break
        shown.remove(columns.index(name))
    return shown


def _print(console: "Console", table: Any) -> None:
    if console.width < _PIPE_WIDTH:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    # A pipe gets no trailing blanks.
    sys.stdout.write("\n".join(line.rstrip() for line in captured.get().split("\n")))


STATE_STYLES = {
    "SUCCEEDED": "green",
    "ok": "green",
    "ACTIVE": "green",
    "LEASED": "cyan",
    "CANCELLING": "yellow",
    "RETRY_WAIT": "yellow",
    "warning": "yellow",
    "STALLED": "yellow",
    "PAUSED": "yellow",
    "BUFFERED": "yellow",
    "FIRED": "green",
    "ERROR": "red",
    "DRAINING": "yellow",
    "FAILED": "red",
    "TIMED_OUT": "red",
    "LEASE_LOST": "red",
    "DEAD": "red",
    "EXPIRED": "red",
    "error": "red",
}


def instant(at: datetime | None, *, timespec: str = "milliseconds") -> str:
    """2026-11-30T08:15:00.250Z; empty for None."""
    if at is None:
        return ""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=timespec) + "Z"


def span(seconds: float) -> str:
    """A span for people, to about two digits: 3 ms, 1.2 s, 4 min, 2 h, 3 d."""
    if seconds < 0.9995:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    for unit, size, most in (("s", 1, 120), ("min", 60, 7_200), ("h", 3_600, 172_800)):
        if seconds < most:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def printable(text: str) -> str:
    """A text of others made safe to show: control characters, which could drive a terminal, are spelt out."""
    return "".join(c if (c >= " " and not "\x7f" <= c <= "\x9f") or c in "\n\t" else ascii(c)[1:-1] for c in text)


def one_line(text: str, limit: int = 200) -> str:
    """The first line of a text, cut."""
    line = text.strip().partition("\n")[0]
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _ascii_only(stream: Any) -> bool:
    return (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "") != "utf8"
