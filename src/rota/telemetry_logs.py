"""Logs: stdlib logging to stderr, as lines for people or as JSON, with the ids of the trace they belong to.

A line belongs to the span that is current, or to the one whose traceparent the caller hands over:
`log.warning("…", extra={"traceparent": job.traceparent})`. Everything else in `extra` becomes a field of the line.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final

from opentelemetry import trace
from opentelemetry.trace import SpanContext

from rota.domain.errors import InvalidArgument
from rota.telemetry_traces import parse

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
FORMATS: Final = ("text", "json")

OURS: Final = ("rota", "rota_sdk")
EXPORTER: Final = "opentelemetry"
"""Loggers below this name tell of the export itself."""

EXPORTER_LINE_EVERY_S: Final = 60.0

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "traceparent"}
# A line is a line: what a worker calls itself must not forge the next one.
_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), 127)} | {10: "\\n", 13: "\\r", 9: "\\t"}


def check(level: str, format: str) -> None:
    """Raises InvalidArgument for words that are not in LEVELS or FORMATS, in either case."""
    if level.lower() not in LEVELS:
        raise InvalidArgument.field("log_level", f"expected one of {', '.join(LEVELS)}, found {level[:40]!r}")
    if format.lower() not in FORMATS:
        raise InvalidArgument.field("log_format", f"expected one of {', '.join(FORMATS)}, found {format[:40]!r}")


def configure(level: str, format: str) -> None:
    """Sends the process's logs to stderr, once, in place of what an earlier call set up.

    `level` holds for Rota's own loggers; libraries speak from warnings on.
    """
    check(level, format)
    number = LEVELS[level.lower()]
    handler = _Stderr(sys.stderr)
    handler.setFormatter(JsonFormatter() if format.lower() == "json" else TextFormatter())
    handler.addFilter(_Seldom())
    # Libraries that set a level of their own must not be louder than was asked for.
    handler.setLevel(number)
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old, _Stderr)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(max(number, logging.WARNING))
    for name in OURS:
        logging.getLogger(name).setLevel(number)
    logging.getLogger(EXPORTER).setLevel(logging.WARNING)


def hush_exporter() -> None:
    """Says no more of failed exports, until the next `configure`: at the end they are no news."""
    logging.getLogger(EXPORTER).setLevel(logging.CRITICAL + 1)


def context_of(record: logging.LogRecord) -> SpanContext | None:
    """The context that a line belongs to; None: to no trace."""
    handed = getattr(record, "traceparent", None)
    if handed and isinstance(handed, str):
        return parse(handed, "")
    current = trace.get_current_span().get_span_context()
    return current if current.is_valid else None


def extras(record: logging.LogRecord) -> dict[str, object]:
    """What the caller gave in `extra`."""
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (RFC 3339, UTC), level, logger, message, trace_id, span_id, exception, extras."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = extras(record)
        line |= {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        context = context_of(record)
        if context is not None:
            line["trace_id"] = f"{context.trace_id:032x}"
            line["span_id"] = f"{context.span_id:016x}"
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        # ASCII, so that no terminal and no lone surrogate can break the line.
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """Time, level, logger, message, then key=value; a traceback on the lines below."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage().translate(_CONTROLS)
        fields = {key: str(value).translate(_CONTROLS) for key, value in extras(record).items()}
        context = context_of(record)
        if context is not None:
            fields["trace_id"] = f"{context.trace_id:032x}"
            fields["span_id"] = f"{context.span_id:016x}"
        line = f"{_time(record)} {record.levelname:<7} {record.name}: {message}"
        line += "".join(f" {key}={value}" for key, value in fields.items())
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class _Stderr(logging.StreamHandler):  # type: ignore[type-arg]
    """The handler that `configure` sets and replaces."""


class _Seldom(logging.Filter):
    """A collector that is down is worth one line a minute, not one for every batch."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith(EXPORTER):
            return True
        if record.created - self._last.get(record.name, 0.0) < EXPORTER_LINE_EVERY_S:
            return False
        self._last[record.name] = record.created
        return True


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
