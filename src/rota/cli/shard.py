"""`rota shard`: the parts of all work, and who owns them."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rota.cli import values
from rota.cli.context import JsonFlag, output
from rota.cli.flaggroup import grouped
from rota.cli.output import instant
from rota.cli.remote import PageFlags, at, remote, show_pages

if TYPE_CHECKING:
    from rota_sdk.gen.rota.admin.v1.admin_pb2 import Shard

app = typer.Typer(name="shard", help="See the shards and their owners.", no_args_is_help=True)

COLUMNS: Final = ("SHARD", "EPOCH", "COORDINATOR", "EXPIRES", "WATERMARK")
_OPTIONS: Final = {"coordinator": "--coordinator", "page_token": "--page-token"}


@app.callback()
def shard() -> None:
    """See the shards and their owners."""


@app.command("list")
@grouped
def list_(
    context: typer.Context,
    paging: PageFlags,
    coordinator: Annotated[
        str, typer.Option(metavar="COORDINATOR", help="Only those of coordinators/<uuid>, or the uuid alone.")
    ] = "",
    json: JsonFlag = False,
) -> None:
    """List shards by number. Needs a key of the tenant `default` with the role operator."""
    out = output(context, json)
    values.utf8("--page-token", paging.page_token)
    owner = values.coordinator_name("--coordinator", coordinator) if coordinator else ""

    from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

    with remote(context, _OPTIONS) as api:

        def fetch(size: int, token: str) -> Any:
            request = pb.ListShardsRequest(page_size=size, page_token=token, coordinator=owner)
            page = api.call(api.admin.ListShards, request)
            return page.shards, page.next_page_token

        def table(found: "list[Shard]") -> None:
            out.table(COLUMNS, map(_row, found), fold="COORDINATOR", optional=("WATERMARK", "EXPIRES"))

        show_pages(out, paging, fetch, table)


def _row(shard: "Shard") -> tuple[str, ...]:
    return (
        shard.name.removeprefix("shards/"),
        str(shard.epoch),
        shard.coordinator.removeprefix("coordinators/"),
        instant(at(shard, "expire_time"), timespec="seconds"),
        instant(at(shard, "watermark_time"), timespec="seconds"),
    )
