"""What `rota doctor` says of what it found: how bad it is, and what to do."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from rota.service.audit import Audited
from rota.service.invariants import Checked
from rota.store.doctor import Overview, SchedulesOverview
from rota.store.schema import SchemaStatus

SHOWN_MAX = 3
"""Examples in one finding."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that `rota doctor` looked at."""

    name: str
    level: Literal["ok", "warning", "error"]
    text: str
    remedy: str = ""


def of_schema(status: SchemaStatus) -> Finding:
    if status.up_to_date:
        return Finding("schema", "ok", f"at revision {status.current}")
    found = status.current or "nothing"
    return Finding(
        "schema", "error", f"the schema is at {found}, this version needs {status.head}", "run: rota migrate"
    )


def of_overview(found: Overview, wall: datetime) -> list[Finding]:
    """`wall`: this machine's clock."""
    skew_s = wall.timestamp() - found.now.timestamp()
    findings = [
        Finding(
            "clock",
            "ok" if abs(skew_s) < 1 else "warning",
            f"this machine is {skew_s:+.3f} s apart from the database, whose clock decides",
            "" if abs(skew_s) < 1 else "synchronise both clocks; nothing fires wrongly, but logs disagree",
        ),
        Finding(
            "coordinators",
            "ok" if found.coordinators else "error",
            f"{found.coordinators} alive",
            "" if found.coordinators else "start one with: rota serve",
        ),
        Finding(
            "shards",
            "ok" if found.shards_owned == found.shards else "error",
            f"{found.shards_owned} of {found.shards} have a living owner",
            ""
            if found.shards_owned == found.shards
            else "jobs of the others wait; a coordinator takes them in seconds",
        ),
    ]
    late_s = found.oldest_due_s or 0.0
    findings.append(
        Finding(
            "due jobs",
            "ok" if late_s < 60 else "warning",
            "none waits" if found.oldest_due_s is None else f"the oldest has waited for {late_s:.0f} s",
            "" if late_s < 60 else "are workers for its queue and type running? see: rota worker list",
        )
    )
    findings.append(
        Finding(
            "leases",
            "ok" if not found.orphaned_leases else "warning",
            f"{found.orphaned_leases} are held by dead sessions",
            "" if not found.orphaned_leases else "a living coordinator ends them within seconds",
        )
    )
    return findings


def of_schedules(found: SchedulesOverview) -> list[Finding]:
    late_s = found.latest_s or 0.0
    firing = Finding(
        "schedules",
        "error" if found.unarmed or found.late else "ok",
        f"{found.active} active, {found.unarmed} of them wait for nothing, {found.late} are a minute late or more"
        + (f", the latest {late_s:.0f} s" if found.late else ""),
        "" if not (found.unarmed or found.late) else "a living coordinator repairs them within seconds; see its log",
    )
    failing = Finding(
        "schedules in error",
        "warning" if found.failed else "ok",
        f"{found.failed} stopped by an error",
        "" if not found.failed else "see why: rota schedule list --state error",
    )
    return [firing, failing]


def of_fates(found: Audited) -> Finding:
    shown = "; ".join(found.wrong[:3])
    return Finding(
        "fates",
        "error" if found.wrong else "ok",
        f"{found.schedules - len(found.wrong)} of {found.schedules} schedules add up, {found.by_rule} by their rule too"
        + (f": {shown}" if shown else ""),
        "" if not found.wrong else "please report this with the output of: rota schedule history ID --json",
    )


def document(checked: Checked) -> dict[str, Any]:
    """For scripts, in the contract's words; each example with what is wrong with it."""
    return {
        "name": checked.invariant.name,
        "description": checked.invariant.holds,
        "holds": checked.holds,
        "violation_count": checked.violations,
        "examples": [{"name": each.name, "found": each.found} for each in checked.examples],
        "repaired_count": checked.repaired,
    }


def of_invariant(checked: Checked) -> Finding:
    invariant = checked.invariant
    if checked.holds:
        return Finding(invariant.name, "ok", "holds")
    shown = "; ".join(f"{each.name}: {each.found}" for each in checked.examples[:SHOWN_MAX])
    more = "" if checked.violations <= SHOWN_MAX else "; …"
    text = f"{invariant.holds} Not so {checked.violations} times: {shown}{more}"
    if checked.repaired == checked.violations:
        return Finding(invariant.name, "warning", f"{text}; all repaired: {invariant.repair}")
    if not invariant.repair:
        return Finding(invariant.name, "error", text, invariant.remedy)
    if checked.repaired:
        text += f"; {checked.repaired} repaired: {invariant.repair}"
    return Finding(
        invariant.name,
        "error",
        text,
        f"run: rota doctor --invariants --repair ({invariant.repair}); a living coordinator does the same",
    )
