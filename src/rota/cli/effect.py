"""`rota effect`: effects of which nobody knows whether they were applied, and the word that decides them."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rota.cli import values
from rota.cli.context import JsonFlag, output
from rota.cli.flaggroup import grouped
from rota.cli.output import Output, instant
from rota.cli.remote import PageFlags, at, document, enum_name, remote, show_pages
from rota.cli.scheduleflags import Reason

if TYPE_CHECKING:
    from rota_sdk.gen.rota.admin.v1.admin_pb2 import Effect

app = typer.Typer(name="effect", help="See effects that are in doubt, and decide them.", no_args_is_help=True)

COLUMNS: Final = ("EFFECT", "BEGUN", "JOB", "WAITS", "KEY")
_OPTIONS: Final = {
    "name": "EFFECT",
    "state": "DECISION",
    "job": "--job",
    "reference": "--reference",
    "reason": "--reason",
    "page_token": "--page-token",
}


class Decision(StrEnum):
    """What the target knows of an effect."""

    APPLIED = "applied"
    NOT_APPLIED = "not-applied"


@app.command("list")
@grouped
def list_(
    context: typer.Context,
    paging: PageFlags,
    job: Annotated[str, typer.Option(metavar="JOB", help="Only those of this job.")] = "",
    held: Annotated[bool, typer.Option("--held", help="Only those whose job waits for a decision.")] = False,
    json: JsonFlag = False,
) -> None:
    """List effects in doubt, oldest first. Needs a key with the role operator, as all of this."""
    out = output(context, json)
    values.utf8("--page-token", paging.page_token)
    of = values.job_id(job, "--job") if job else ""

    from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

    with remote(context, _OPTIONS) as api:

        def fetch(size: int, token: str) -> Any:
            request = pb.ListEffectsRequest(page_size=size, page_token=token, job=of, holding=held)
            page = api.call(api.admin.ListEffects, request)
            return page.effects, page.next_page_token

        def table(found: "list[Effect]") -> None:
            out.table(COLUMNS, map(_row, found), fold="KEY", optional=("JOB", "BEGUN"))

        show_pages(out, paging, fetch, table)


@app.command()
def resolve(
    context: typer.Context,
    effect: Annotated[
        str, typer.Argument(metavar="EFFECT", help="effects/<uuid>, or the uuid alone.", show_default=False)
    ],
    decision: Annotated[Decision, typer.Argument(help="What the target says of it.", show_default=False)],
    reference: Annotated[str, typer.Option(metavar="TEXT", help="The target's own name for it.")] = "",
    reason: Reason = "",
    json: JsonFlag = False,
) -> None:
    """Decide an effect that is in doubt, after a look at its target. A job that waits for it goes on.

    applied: a job whose whole effect it is succeeds without a further attempt. not-applied: it is tried again.
    """
    out, name = output(context, json), values.effect_name(effect)
    values.utf8("--reference", reference)
    values.utf8("--reason", reason)

    from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

    state: Any = f"EFFECT_STATE_{decision.name}"
    request = pb.ResolveEffectRequest(name=name, state=state, reference=reference, reason=reason)
    with remote(context, _OPTIONS) as api:
        _show(out, api.call(api.admin.ResolveEffect, request).effect)


def _row(effect: "Effect") -> tuple[str, ...]:
    return (
        effect.name,
        instant(at(effect, "begin_time"), timespec="seconds"),
        effect.job,
        "yes" if effect.holding else "",
        effect.effect_key,
    )


def _show(out: Output, effect: "Effect") -> None:
    if out.json:
        out.document(document(effect))
        return
    out.fields(
        [
            ("effect", effect.name),
            ("key", effect.effect_key),
            ("state", enum_name(effect.DESCRIPTOR.fields_by_name["state"].enum_type, effect.state)),
            ("job", effect.job),
            ("begun", instant(at(effect, "begin_time"))),
            ("reference", effect.receipt.reference),
            ("decided by", effect.resolved_by),
        ]
    )
