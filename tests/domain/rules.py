"""Rules for tests: compiled from a few words, and compared as texts."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rota.domain.recurrence import compile_rule
from rota.domain.rule import Fire, Rule
from rota.domain.rulespec import RuleKind, RuleSpec

UID = "0195a000-0000-7000-8000-0000000000c1"


def instant(text: str) -> datetime:
    """An instant from ISO 8601."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def shown(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def cron(expression: str, zone: str = "UTC", *, uid: str = UID, **spec: Any) -> Rule:
    return compile_rule(RuleSpec(RuleKind.CRON, expression, time_zone=zone, **spec), uid)


def rrule(rule: str, start: str = "", zone: str = "UTC", **spec: Any) -> Rule:
    """`start` is a local time; `rule` one or more lines of iCalendar."""
    return compile_rule(RuleSpec(RuleKind.RRULE, rule, time_zone=zone, local_start=start, **spec), UID)


def once(local: str, zone: str = "UTC", **spec: Any) -> Rule:
    return compile_rule(RuleSpec(RuleKind.ONCE, time_zone=zone, local_start=local, **spec), UID)


def every(seconds: float, anchor: str, **spec: Any) -> Rule:
    return compile_rule(RuleSpec(RuleKind.INTERVAL, every_s=seconds, anchor=instant(anchor), **spec), UID)


def walk(rule: Rule, after: datetime, count: int) -> list[Fire]:
    """The next `count` fires, asked for one by one."""
    found: list[Fire] = []
    while len(found) < count and (fire := rule.next_after(after)) is not None:
        assert fire.nominal > after
        found.append(fire)
        after = fire.nominal
    return found


def check(rule: Rule, after: str, expected: Sequence[str], *, ends: bool = False) -> None:
    """The rule fires at these local times or, where they end with Z, instants, and not in between.

    With `ends` nothing comes after them. One by one and in one go the answers are the same.
    """
    fires = walk(rule, instant(after), len(expected) + ends)
    found = [
        shown(fire.nominal) if text.endswith("Z") else fire.local for fire, text in zip(fires, expected, strict=False)
    ]
    found += [fire.local for fire in fires[len(expected) :]]
    assert found == list(expected)
    if fires:
        assert rule.between(instant(after), fires[-1].nominal, len(fires) + 1) == fires
