"""What calls of schedules and calendars have in common: what makes them repeatable, and checks of their requests."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from rota.api.jobs import TRACEPARENT_CHARS_MAX
from rota.api.rpc import Context
from rota.domain import ids, limits
from rota.domain.errors import InvalidArgument
from rota.domain.rulespec import RuleKind
from rota.domain.schedule import Definition, JobTemplate, MissedPolicy, OverlapPolicy, Timing, check_definition
from rota.domain.text import Problems
from rota.store.scheduleport import RequestKey

_SAMPLE: Final = Definition(Timing(RuleKind.ONCE), JobTemplate("any"))
_WHENEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)


def request_key(problems: Problems, method: int, request: Any, *, changes: bool = True) -> RequestKey:
    """What makes a call repeatable. `changes` False: it changes nothing, so there is nothing to repeat."""
    problems.text("request_id", request.request_id, limits.REQUEST_ID_BYTES_MAX)
    if not request.request_id or not changes:
        return RequestKey(method, "", b"")
    return RequestKey(method, request.request_id, ids.digest(request.SerializeToString(deterministic=True)))


def traceparent(context: Context) -> str:
    """The trace context of the caller."""
    for key, value in context.invocation_metadata() or ():
        if key == "traceparent" and isinstance(value, str):
            return value[:TRACEPARENT_CHARS_MAX]
    return ""


def check_unique(problems: Problems, field: str, name: str, found: Sequence[str]) -> None:
    """Refuses ids that are given twice in a list. `name` is the field of an entry that has the id; empty ones pass."""
    first: dict[str, int] = {}
    for index, id in enumerate(found):
        if id and first.setdefault(id, index) != index:
            where = f"{field}[{index}].{name}"
            problems.add(where, f"{id[:80]!r} is given twice, at {first[id]} too; give each its own")


def check_count(problems: Problems, field: str, found: Sequence[Any], most: int) -> None:
    if len(found) > most:
        problems.add(field, f"must have at most {most} entries, found {len(found)}; split it into sets")


def check_overlap(problems: Problems, at: str, policy: OverlapPolicy) -> None:
    """Checks the overlap_policy of the message at this path, as that of a schedule."""
    check_definition(problems, at, replace(_SAMPLE, overlap=policy), _WHENEVER)


def check_missed(problems: Problems, at: str, policy: MissedPolicy) -> None:
    """Checks the missed-run policy at this path, as that of a schedule."""
    found = Problems()
    check_definition(found, at, replace(_SAMPLE, missed=policy), _WHENEVER)
    try:
        found.raise_any()
    except InvalidArgument as refusal:
        for violation in refusal.violations:
            problems.add(violation.field.replace(".missed_run_policy", "", 1), violation.description)
