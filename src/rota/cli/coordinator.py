"""`rota coordinator`: the processes of the control plane."""

from typing import TYPE_CHECKING, Any, Final

import typer

from rota.cli import values
from rota.cli.context import JsonFlag, output
from rota.cli.flaggroup import grouped
from rota.cli.output import instant
from rota.cli.remote import PageFlags, at, remote, show_pages

if TYPE_CHECKING:
    from rota_sdk.gen.rota.admin.v1.admin_pb2 import Coordinator

app = typer.Typer(name="coordinator", help="See the coordinators.", no_args_is_help=True)

COLUMNS: Final = ("COORDINATOR", "ADDRESS", "STATE", "SHARDS", "SESSIONS", "VERSION", "STARTED")
_OPTIONS: Final = {"page_token": "--page-token"}


@app.callback()
def coordinator() -> None:
    """See the coordinators."""


@app.command("list")
@grouped
def list_(context: typer.Context, paging: PageFlags, json: JsonFlag = False) -> None:
    """List the coordinators that live. Needs a key of the tenant `default` with the role operator."""
    out = output(context, json)
    values.utf8("--page-token", paging.page_token)

    from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

    with remote(context, _OPTIONS) as api:

        def fetch(size: int, token: str) -> Any:
            request = pb.ListCoordinatorsRequest(page_size=size, page_token=token)
            page = api.call(api.admin.ListCoordinators, request)
            return page.coordinators, page.next_page_token

        def table(found: "list[Coordinator]") -> None:
            out.table(COLUMNS, map(_row, found), fold="ADDRESS", optional=("VERSION", "STARTED"))

        show_pages(out, paging, fetch, table)


def _row(coordinator: "Coordinator") -> tuple[str, ...]:
    return (
        coordinator.name.removeprefix("coordinators/"),
        coordinator.address,
        "DRAINING" if coordinator.draining else "ACTIVE",
        str(coordinator.shard_count),
        str(coordinator.session_count),
        coordinator.version,
        instant(at(coordinator, "start_time"), timespec="seconds"),
    )
