"""Every line of cases/recurrence.jsonl: what other schedulers got wrong, each with its source.

Where a line says `choice`, projects differ and ours is written down: as the line has it, or below, where the design
decides otherwise and the line names that answer as acceptable.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from rota.domain import cron, limits
from rota.domain.errors import InvalidArgument
from rota.domain.recurrence import compile_rule
from rota.domain.rule import Rule
from rota.domain.rulespec import RuleKind, RuleSpec

from .rules import UID, instant, shown, walk

FILE: Final = Path(__file__).parent / "cases" / "recurrence.jsonl"
CASES: Final[list[dict[str, Any]]] = [json.loads(line) for line in FILE.read_bytes().split(b"\n") if line]
KINDS: Final = {"cron": RuleKind.CRON, "rrule": RuleKind.RRULE, "interval": RuleKind.INTERVAL}
DIALECTS_NOT_OFFERED: Final = ("aws", "quartz")


@dataclass(frozen=True)
class Difference:
    """What Rota answers in place of the line's answer, and the sentence of the design that decides it."""

    why: str
    expect_next_utc: tuple[str, ...]


DIFFERENCES: Final = {
    "int-subsecond-anchor": Difference(
        "an interval counts whole seconds, and its anchor is truncated to the second",
        ("2025-09-05T00:00:03Z", "2025-09-05T00:00:06Z"),
    ),
    "rr-err-secondly-floor": Difference(
        "the floor on frequency is one second",
        ("2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z", "2026-01-01T00:00:03Z", "2026-01-01T00:00:04Z"),
    ),
}


def compiled(case: dict[str, Any]) -> Rule:
    spec = RuleSpec(
        KINDS[case["rule_kind"]],
        case["expression"],
        cron_fields=cron.fields_of(case["dialect"], "dialect") if case["rule_kind"] == "cron" else None,
        time_zone=case["timezone"],
        anchor=instant(case["anchor_utc"]) if "anchor_utc" in case else None,
    )
    return compile_rule(spec, UID)


def answers(case: dict[str, Any], count: int) -> list[str]:
    rule, start = compiled(case), instant(case["start_utc"])
    fires = walk(rule, start, count)
    if fires:
        assert rule.between(start, fires[-1].nominal, count) == fires
    return [shown(fire.nominal) for fire in fires]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(case: dict[str, Any]) -> None:
    if case["dialect"] in DIALECTS_NOT_OFFERED:
        with pytest.raises(InvalidArgument) as refused:
            compiled(case)
        assert refused.value.violations[0].field == "dialect"
        assert f"expected posix5 or sec6, found '{case['dialect']}'; " in refused.value.message
    elif case["id"] in DIFFERENCES:
        assert case["choice"] and case["also_acceptable"]
        expected = list(DIFFERENCES[case["id"]].expect_next_utc)
        assert answers(case, len(expected)) == expected
    elif case.get("expect_error"):
        with pytest.raises(InvalidArgument) as refused:
            compiled(case)
        check_refusal(case, refused.value)
    else:
        expected = case["expect_next_utc"]
        # Some lines list fewer than they ask for without saying that there are no more.
        count = case["asked"] if case.get("exhausted_after") else len(expected)
        assert answers(case, count) == expected


def check_refusal(case: dict[str, Any], error: InvalidArgument) -> None:
    """It names the field, what was expected, what was found and what to do, and can be stored and sent."""
    fields = {"rule.cron.expression", "rule.time_zone", "rule.rrule.text", "rule.interval.every"}
    assert {violation.field for violation in error.violations} <= fields
    if case["kind"] == "timezone alias":
        assert error.violations[0].field == "rule.time_zone"
    said = error.violations[0].description
    assert "expected " in said and ", found " in said and "; " in said
    assert len(said.encode()) < limits.REASON_BYTES_MAX
    assert said.isprintable()


def test_all_cases_are_here() -> None:
    assert len(CASES) == len({case["id"] for case in CASES}) == 235
    assert DIFFERENCES.keys() < {case["id"] for case in CASES}
    assert sum(case["dialect"] in DIALECTS_NOT_OFFERED for case in CASES) == 8
