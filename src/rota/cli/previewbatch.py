"""`rota schedule preview --batch`: many rules, a line of JSON each, one line of JSON back for each, in order.

{"rule_kind": "cron", "expression": "30 2 * * *", "timezone": "America/New_York", "start_utc": "2026-03-07T12:00:00Z",
 "count": 5}  →  {"next_utc": ["2026-03-08T07:00:00Z", …], "exhausted": false}

or {"error": {"field": …, "reason": …, "message": …}}. exhausted: there are no more, and so fewer than count. rule_kind
is cron, rrule, interval (an ISO 8601 duration, from anchor_utc or start_utc) or once (a local time, or an instant).
dialect, if given, is posix5 or sec6 for cron, rfc5545 for rrule, iso8601 for interval and once. Other keys are not
looked at. No line ends the batch, whatever it holds.
"""

import json
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

from rota.cli import values
from rota.cli.localtime import utc
from rota.clock import SystemClock
from rota.domain import cron, limits
from rota.domain.errors import InvalidArgument
from rota.domain.recurrence import compile_rule
from rota.domain.rulespec import RuleKind, RuleSpec
from rota.domain.text import refusal

LINE_BYTES_MAX: Final = 64 * 1024
_DIALECTS: Final = {RuleKind.RRULE: "rfc5545", RuleKind.INTERVAL: "iso8601", RuleKind.ONCE: "iso8601"}
_KEYS: Final = {
    "cron.expression": "expression",
    "rrule.text": "expression",
    "rrule.anchor": "anchor_utc",
    "interval.every": "expression",
    "interval.anchor_time": "anchor_utc",
    "once.local_time": "expression",
    "once.run_time": "expression",
    "time_zone": "timezone",
}
_UID: Final = "preview"


def answer_all(source: str) -> None:
    """Answers each line of a file, or of standard input for `-`, as soon as it is read."""
    if source == "-":
        _answer_stream(sys.stdin.buffer)
        return
    try:
        stream = Path(source).open("rb")  # noqa: SIM115
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise refusal("--batch", source, "a readable file", f"{why}") from None
    with stream:
        _answer_stream(stream)


def _answer_stream(stream: BinaryIO) -> None:
    for line in _lines(stream):
        print(json.dumps(answer(line)), flush=True)


def answer(line: bytes | None) -> dict[str, Any]:
    """What is said to one line; None: a line over the limit."""
    try:
        return _preview(_read(line))
    except InvalidArgument as error:
        found = error.violations[0]
        return {
            "error": {
                "field": _KEYS.get(found.field, found.field),
                "reason": error.reason,
                "message": found.description,
            }
        }


def _lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """The lines, None for each that is too long. Blank ones at the end are no lines."""
    blank = 0
    while line := stream.readline(LINE_BYTES_MAX + 1):
        whole = line.endswith(b"\n") or len(line) <= LINE_BYTES_MAX
        while not whole:
            rest = stream.readline(LINE_BYTES_MAX)
            whole = not rest or rest.endswith(b"\n")
            line = b""
        if line and not line.strip():
            blank += 1
            continue
        for _ in range(blank):
            yield b""
        blank = 0
        yield line or None


def _read(line: bytes | None) -> dict[str, Any]:
    if line is None:
        raise refusal("line", "more", f"a line of at most {LINE_BYTES_MAX} bytes", "shorten it")
    try:
        found = json.loads(line.decode())
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise refusal("line", line.decode("utf-8", "replace").strip(), "a JSON object", "correct the line")
    return found


def _preview(given: dict[str, Any]) -> dict[str, Any]:
    kind = _kind(given)
    expression = _text(given, "expression")
    zone = _text(given, "timezone", "UTC")
    dialect = _text(given, "dialect", "") or None
    fields = None
    if dialect is not None and kind is RuleKind.CRON:
        fields = cron.fields_of(dialect, "dialect")
    elif dialect is not None and dialect != _DIALECTS[kind]:
        raise refusal("dialect", dialect, f"{_DIALECTS[kind]} with this rule_kind", "correct it or leave it out")
    after = _instant(given, "start_utc") or SystemClock().utc()
    count = given.get("count", limits.PREVIEW_COUNT_DEFAULT)
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= limits.PREVIEW_COUNT_MAX:
        raise refusal("count", _shown(count), f"a number from 1 to {limits.PREVIEW_COUNT_MAX}", "correct it")
    spec = RuleSpec(
        kind,
        expression="" if kind is RuleKind.ONCE else expression,
        cron_fields=fields,
        time_zone=zone,
        anchor=_instant(given, "anchor_utc") or after,
        **_once(expression) if kind is RuleKind.ONCE else {},
    )
    rule = compile_rule(spec, _UID, "")
    fires = [line.nominal for line in rule.preview(after, count) if not line.removed]
    exhausted = len(fires) < count and rule.exhausted(fires[-1] if fires else after)
    return {"next_utc": [utc(at) for at in fires], "exhausted": exhausted}


def _kind(given: dict[str, Any]) -> RuleKind:
    text = _text(given, "rule_kind")
    if text not in (kind.name.lower() for kind in RuleKind):
        raise refusal("rule_kind", text, "cron, rrule, interval or once", "correct it")
    return RuleKind[text.upper()]


def _once(expression: str) -> dict[str, Any]:
    if expression.endswith("Z") or "+" in expression:
        return {"run_time": values.instant("expression", expression)}
    return {"local_start": expression}


def _text(given: dict[str, Any], key: str, default: str | None = None) -> str:
    found = given.get(key, default)
    if not isinstance(found, str):
        raise refusal(key, _shown(found), "a text", "correct it" if key in given else "add it")
    return found


def _instant(given: dict[str, Any], key: str) -> datetime | None:
    if given.get(key) is None:
        return None
    return values.instant(key, _text(given, key))


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value
    return "nothing" if value is None else repr(value)
