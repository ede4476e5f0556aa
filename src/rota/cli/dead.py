"""`rota dead`: jobs that failed for good; looking at them, bringing them back, letting them go."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rota.cli import values
from rota.cli.context import JsonFlag, output
from rota.cli.flaggroup import grouped
from rota.cli.output import Output, instant, one_line
from rota.cli.redrive import redrive_fields, watch_redrive
from rota.cli.remote import PageFlags, at, document, enum_name, remote, show_pages
from rota.cli.scheduleflags import Reason, RequestId
from rota.cli.schedulesteer import confirm
from rota.domain.errors import InvalidArgument
from rota.domain.limits import DEAD_LETTERS_NAMED_MAX

if TYPE_CHECKING:
    from rota_sdk.gen.rota.admin.v1.admin_pb2 import DeadLetter, DeadLetterFilter

app = typer.Typer(name="dead", help="See the dead letters, bring them back, discard them.", no_args_is_help=True)

COLUMNS: Final = ("LETTER", "TYPE", "QUEUE", "DEAD", "TRIES", "REDRIVES", "CAUSE", "FAILURE")
_OPTIONS: Final = {
    "name": "LETTER",
    "dead_letters": "LETTER",
    "filter.queue": "--queue",
    "filter.type": "--type",
    "filter.schedule": "--schedule",
    "filter.failure_type": "--failure",
    "filter.cause": "--cause",
    "filter.start_time": "--from",
    "filter.end_time": "--to",
    "filter.labels": "--label",
    "rate": "--rate",
    "max_count": "--limit",
    "reason": "--reason",
    "request_id": "--request-id",
    "page_token": "--page-token",
}


class Cause(StrEnum):
    """Why a job is dead, as a filter."""

    ATTEMPTS_EXHAUSTED = "attempts-exhausted"
    NOT_RETRYABLE = "not-retryable"
    TOTAL_TIMEOUT = "total-timeout"


@dataclass(frozen=True, slots=True)
class FilterFlags:
    """Which dead letters: those that meet all that is given."""

    queue: Annotated[str, typer.Option(help="Only of this queue.")] = ""
    type: Annotated[str, typer.Option(help="Only of this type.")] = ""
    schedule: Annotated[str, typer.Option(metavar="SCHEDULE", help="Only of this schedule.")] = ""
    failure: Annotated[str, typer.Option(metavar="TYPE", help="Only those whose latest failure has this type.")] = ""
    cause: Annotated[Cause | None, typer.Option(help="Only those that are dead for this cause.")] = None
    since: Annotated[
        str | None, typer.Option("--from", metavar="INSTANT", help="Only those dead at or after this instant.")
    ] = None
    until: Annotated[str | None, typer.Option("--to", metavar="INSTANT", help="Only those dead before it.")] = None
    label: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Only those with this label; repeatable.")
    ] = None

    @property
    def given(self) -> bool:
        return any((self.queue, self.type, self.schedule, self.failure, self.cause, self.since, self.until, self.label))

    def message(self) -> "DeadLetterFilter":
        from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

        for name, text in (("--queue", self.queue), ("--type", self.type), ("--failure", self.failure)):
            values.utf8(name, text)
        return pb.DeadLetterFilter(
            queue=self.queue,
            type=self.type,
            schedule=f"schedules/{values.schedule_id(self.schedule, '--schedule')}" if self.schedule else "",
            failure_type=self.failure,
            cause=f"DEAD_CAUSE_{self.cause.name if self.cause else 'UNSPECIFIED'}",
            start_time=values.instant("--from", self.since),
            end_time=values.instant("--to", self.until),
            labels=values.pairs("--label", self.label),
        )


Letters = Annotated[
    list[str] | None,
    typer.Argument(metavar="LETTER", help="deadLetters/<uuid>, jobs/<uuid> or the uuid.", show_default=False),
]
All = Annotated[bool, typer.Option("--all", help="All there are, where neither letters nor a filter are given.")]


@app.command("list")
@grouped
def list_(context: typer.Context, where: FilterFlags, paging: PageFlags, json: JsonFlag = False) -> None:
    """List dead letters, latest death first. Needs a key with the role operator, as all of this."""
    out, wanted = output(context, json), where.message()
    values.utf8("--page-token", paging.page_token)

    from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

    with remote(context, _OPTIONS) as api:

        def fetch(size: int, token: str) -> Any:
            request = pb.ListDeadLettersRequest(page_size=size, page_token=token, filter=wanted)
            page = api.call(api.admin.ListDeadLetters, request)
            return page.dead_letters, page.next_page_token

        show_pages(out, paging, fetch, lambda found: _table(out, found))


@app.command()
def get(
    context: typer.Context,
    letter: Annotated[
        str, typer.Argument(metavar="LETTER", help="deadLetters/<uuid>, jobs/<uuid> or the uuid.", show_default=False)
    ],
    json: JsonFlag = False,
) -> None:
    """Show a dead letter in full. `rota job attempts` lists its attempts."""
    out, name = output(context, json), values.letter_name(letter)

    from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

    with remote(context, _OPTIONS) as api:
        found = api.call(api.admin.GetDeadLetter, pb.GetDeadLetterRequest(name=name)).dead_letter
    if out.json:
        out.document(document(found))
        return

    from rota_sdk import codec

    from rota.cli.jobview import job_fields

    out.fields(
        [
            ("letter", found.name),
            ("cause", _cause(found)),
            ("redriven", f"{found.redrive_count} times" if found.redrive_count else ""),
            ("redriven by", found.last_redriven_by),
            *job_fields(codec.job(found.job)),
        ]
    )


@app.command()
@grouped
def redrive(
    context: typer.Context,
    where: FilterFlags,
    letters: Letters = None,
    all: All = False,
    rate: Annotated[float | None, typer.Option(help="Jobs a second, at most; 10 when not given.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many, oldest death first.")] = None,
    new_generation: Annotated[
        bool, typer.Option("--new-generation", help="Give them new effect keys, so that targets take them for new.")
    ] = False,
    reason: Reason = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count and show, and redrive none.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show the progress to the end.")] = False,
    request_id: RequestId = None,
    json: JsonFlag = False,
) -> None:
    """Make dead letters ready again, at a rate, each with a fresh budget of attempts."""
    out = output(context, json)
    if dry_run and watch:
        raise InvalidArgument.field("--watch", "expected --dry-run or --watch, found both; give one")
    names = _which(letters, where, all)
    values.utf8("--reason", reason)

    from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

    wanted = pb.Redrive(
        dead_letters=names,
        filter=None if names else where.message(),
        rate=rate,
        max_count=limit,
        new_generation=new_generation,
        reason=reason,
    )
    request = pb.RedriveDeadLettersRequest(
        redrive=wanted, request_id=values.request_id(request_id), validate_only=dry_run
    )
    with remote(context, _OPTIONS) as api:
        answer = api.call(api.admin.RedriveDeadLetters, request)
        if watch:
            watch_redrive(api, out, answer.redrive)
        elif out.json:
            shown = document(answer.redrive)
            if dry_run:
                shown["examples"] = [document(each) for each in answer.examples]
            out.document(shown)
        else:
            out.fields(redrive_fields(answer.redrive))
            if dry_run:
                if answer.examples:
                    _table(out, answer.examples)
                typer.echo("Nothing was redriven.", err=True)


@app.command()
@grouped
def discard(
    context: typer.Context,
    where: FilterFlags,
    letters: Letters = None,
    all: All = False,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many, oldest death first.")] = None,
    reason: Reason = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and discard none.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; without a terminal nobody is asked.")] = False,
    json: JsonFlag = False,
) -> None:
    """Discard dead letters for good. Their end stays in history."""
    out = output(context, json)
    names = _which(letters, where, all)
    if names and limit is not None:
        raise InvalidArgument.field("--limit", "expected with a filter or --all, found letters; name fewer")
    values.utf8("--reason", reason)

    from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

    request = pb.DiscardDeadLettersRequest(dead_letters=names, reason=reason, validate_only=dry_run)
    if not names:
        request.filter.CopyFrom(where.message())
    if not dry_run:
        what = f"{len(names)} dead letters" if names else "the dead letters that meet the filter"
        confirm(out, f"Discard {'all dead letters' if all else what} for good?", yes, "Nothing was discarded.")
    discarded, more = 0, True
    with remote(context, _OPTIONS) as api:
        while more and (limit is None or discarded < limit):
            if limit is not None:
                request.max_count = min(limit - discarded, DEAD_LETTERS_NAMED_MAX)
            answer = api.call(api.admin.DiscardDeadLetters, request)
            discarded, more = discarded + answer.discarded_count, answer.more
            if dry_run:
                # What is not discarded would be counted again.
                break
    if out.json:
        out.document({"discarded_count": discarded, "more": more, "dry_run": dry_run})
    else:
        verb = "would be discarded" if dry_run else "discarded"
        print(f"{discarded}{' or more' if dry_run and more else ''} {verb}")
    if more and not dry_run:
        typer.echo("more are left", err=True)


def _which(letters: Sequence[str] | None, where: FilterFlags, all: bool) -> list[str]:
    """The names of letters; none: those that the filter means, or all."""
    found = [what for what, given in (("letters", bool(letters)), ("a filter", where.given), ("--all", all)) if given]
    if len(found) != 1:
        told = " and ".join(found) if found else "none of them"
        raise InvalidArgument.field("LETTER", f"expected letters, a filter or --all, found {told}; give one")
    return [values.letter_name(letter) for letter in letters or ()]


def _table(out: Output, letters: "Sequence[DeadLetter]") -> None:
    out.table(COLUMNS, map(_row, letters), fold="FAILURE", optional=("REDRIVES", "QUEUE", "TRIES", "CAUSE"))


def _row(letter: "DeadLetter") -> tuple[str, ...]:
    failure = letter.job.last_failure
    about = f"{failure.type}: {one_line(failure.message)}" if failure.message else failure.type
    return (
        letter.name.removeprefix("deadLetters/"),
        letter.job.type,
        letter.job.queue,
        instant(at(letter, "dead_time"), timespec="seconds"),
        str(letter.job.attempt),
        str(letter.redrive_count),
        _cause(letter),
        about,
    )


def _cause(letter: "DeadLetter") -> str:
    if not letter.cause:
        return ""
    return enum_name(letter.DESCRIPTOR.fields_by_name["cause"].enum_type, letter.cause).replace("_", " ").lower()
