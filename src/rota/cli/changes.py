"""What applying a manifest changes: planned by the server first, shown, confirmed, done, and told."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import typer

from rota.cli.errors import Exit
from rota.cli.output import Output, printable
from rota.cli.remote import Remote
from rota.clock import SystemClock
from rota.domain.errors import FieldViolation, InvalidArgument
from rota.domain.rulespec import RuleKind
from rota.manifest import wire
from rota.manifest.document import Document, Item, name_of
from rota.manifest.problems import Refused

if TYPE_CHECKING:
    from rota_sdk.gen.rota.v1 import schedules_pb2

_COLUMNS: Final = ("ACTION", "NAME", "CHANGED", "NEXT")
_WORDS: Final = {"CREATE": "create", "UPDATE": "change", "DELETE": "delete"}
_DONE: Final = {"CREATE": "created", "UPDATE": "changed", "DELETE": "deleted"}


@dataclass(frozen=True, slots=True)
class How:
    """What is asked for beside the files."""

    dry_run: bool = False
    prune: bool = False
    yes: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to one resource; `action` is that of rota.v1.ApplyAction without its prefix."""

    name: str
    action: str
    fields: tuple[str, ...] = ()


@dataclass(slots=True)
class Plan:
    """What becomes of one file."""

    document: Document
    changes: list[Change] = field(default_factory=list)
    applied: bool = False

    @property
    def changing(self) -> list[Change]:
        return [change for change in self.changes if change.action in _WORDS]

    def counts(self, words: dict[str, str]) -> str:
        """2 to create, 1 to change, 5 as they are"""
        found = []
        for action, word in words.items():
            if count := sum(change.action == action for change in self.changes):
                found.append(f"{count} {word}")
        same = len(self.changes) - len(self.changing)
        if same and found:
            found.append(f"{same} as before")
        return ", ".join(found) or f"nothing changes ({same} as before)"


def apply(rota: Remote, out: Output, documents: Sequence[Document], how: How) -> list[Plan]:
    """Plans all files, shows that, and unless it is a dry run applies them one by one, each as a whole.

    Raises Refused, or the SDK's RotaError, before anything is written if a plan is refused. A file that is refused
    later, since something changed in between, leaves those before it applied, which is said.
    """
    plans = [Plan(document, _call(rota, document, how, validate_only=True)) for document in documents]
    if not out.json:
        for plan in plans:
            _show(out, plan)
    if how.dry_run:
        return plans
    if any(plan.changing for plan in plans) and not _confirmed(out, how):
        print("nothing was changed", file=sys.stderr)
        raise typer.Exit(Exit.REFUSED)
    for plan in plans:
        try:
            plan.changes = _call(rota, plan.document, how, validate_only=False)
        except Exception:
            _tell_interrupted(plans)
            raise
        plan.applied = True
        if not out.json and plan.changing:
            print(f"{_heading(plan)}: {plan.counts(_DONE)}", flush=True)
    return plans


def document_of(plan: Plan, how: How) -> dict[str, Any]:
    """A plan, or what was done, for scripts."""
    times = {f"schedules/{item.id}": _next_time(item) for item in plan.document.schedules}
    return {
        "file": plan.document.source,
        "set": plan.document.apply_set,
        "dry_run": how.dry_run,
        "applied": plan.applied,
        "changes": [
            {
                "name": change.name,
                "action": change.action,
                "changed_fields": list(change.fields),
                "next_time": times.get(change.name),
            }
            for change in plan.changes
        ],
    }


def show_refusal(error: Refused, out: Output) -> typer.Exit:
    """Tells all that is wrong with a file, a line each; for scripts as one object."""
    from rota.cli.errors import explain

    if out.json or len(error.problems) == 1:
        problem = explain(error)
        assert problem is not None
        problem.show(as_json=out.json)
    else:
        for line in error.lines:
            print(f"error: {printable(' '.join(line.split()))}", file=sys.stderr)
    return typer.Exit(Exit.USAGE)


def _call(rota: Remote, document: Document, how: How, *, validate_only: bool) -> list[Change]:
    from rota_sdk.errors import InvalidArgument as RefusedByServer

    request = wire.request(
        document,
        prune=how.prune,
        validate_only=validate_only,
        request_id="" if validate_only else SystemClock().new_id(),
    )
    try:
        response: schedules_pb2.ApplySchedulesResponse = rota.call(rota.schedules.ApplySchedules, request)
    except RefusedByServer as error:
        violations = [FieldViolation(found.field, found.description) for found in error.violations]
        raise document.refused(violations, error.message, error.reason) from None
    return [Change(change.name, _action(change), tuple(change.changed_fields.paths)) for change in response.changes]


def _action(change: "schedules_pb2.ApplyChange") -> str:
    from rota_sdk.gen.rota.v1 import schedules_pb2

    return schedules_pb2.ApplyAction.Name(change.action).removeprefix("APPLY_ACTION_")


def _show(out: Output, plan: Plan) -> None:
    words = {action: f"to {word}" for action, word in _WORDS.items()}
    print(f"{_heading(plan)}: {plan.counts(words)}")
    items = {f"schedules/{item.id}": item for item in plan.document.schedules}
    rows = [
        (
            _WORDS[change.action],
            change.name,
            ", ".join(name_of(field) for field in change.fields),
            _next(items[change.name]) if change.name in items else "",
        )
        for change in plan.changing
    ]
    if rows:
        out.table(_COLUMNS, rows, fold="CHANGED")
    for item in plan.document.schedules:
        for warning in _warnings(item):
            print(f"note: schedules/{item.id}: {printable(warning)}", file=sys.stderr)


def _warnings(item: Item) -> tuple[str, ...]:
    """What the rule warns of; a DTSTART that nobody wrote needs no word."""
    timing = item.definition.timing
    unwritten = timing.kind is RuleKind.RRULE and "DTSTART" not in timing.expression.upper()
    return () if unwritten else item.rule.warnings


def _heading(plan: Plan) -> str:
    return printable(f"{plan.document.source}, set {plan.document.apply_set}")


def _next(item: Item) -> str:
    """When it fires next, on the clock of its zone."""
    if item.paused:
        return "paused"
    if not item.next_known:
        return "known once it is stored"
    try:
        fire = item.rule.next_after(SystemClock().utc())
    except InvalidArgument:
        return ""
    return fire.local if fire is not None else "never again"


def _next_time(item: Item) -> str | None:
    """The instant of that, for scripts; None where there is none or the file alone does not tell."""
    from rota.cli.localtime import utc

    if item.paused or not item.next_known:
        return None
    try:
        fire = item.rule.next_after(SystemClock().utc())
    except InvalidArgument:
        return None
    return utc(fire.nominal) if fire is not None else None


def _confirmed(out: Output, how: How) -> bool:
    """Asks where somebody can answer."""
    if how.yes or out.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    return typer.confirm("Apply?", default=False)


def _tell_interrupted(plans: Sequence[Plan]) -> None:
    """Says what was done of several files when one of them fails."""
    done = [plan.document.source for plan in plans if plan.applied]
    if done:
        left = [plan.document.source for plan in plans if not plan.applied]
        print(f"applied: {', '.join(done)}; not applied: {', '.join(left)}", file=sys.stderr)
