"""`rota tenant`: those who share an installation, and their shares."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rota.cli import values
from rota.cli.context import JsonFlag, output
from rota.cli.flaggroup import grouped
from rota.cli.output import Output, instant, span
from rota.cli.remote import PageFlags, at, document, enum_name, remote, show_pages
from rota.cli.scheduleflags import Etag
from rota.cli.unset import Unset, changed_options

if TYPE_CHECKING:
    from rota_sdk.gen.rota.admin.v1.admin_pb2 import Tenant

app = typer.Typer(
    name="tenant", help="See the tenants, and change their shares, limits and history.", no_args_is_help=True
)

COLUMNS: Final = ("TENANT", "STATE", "WEIGHT", "IN FLIGHT", "CREATED")
_OPTIONS: Final = {
    "name": "TENANT",
    "weight": "--weight",
    "quota.max_in_flight": "--max-in-flight",
    "history_retention": "--history",
    "etag": "--etag",
    "page_token": "--page-token",
}
_FIELDS: Final = {option: field for field, option in _OPTIONS.items()}

TenantId = Annotated[str, typer.Argument(metavar="TENANT", help="tenants/<id>, or the id alone.", show_default=False)]


@app.command("list")
@grouped
def list_(context: typer.Context, paging: PageFlags, json: JsonFlag = False) -> None:
    """List tenants by id. Needs a key of the tenant `default` with the role operator."""
    out = output(context, json)
    values.utf8("--page-token", paging.page_token)

    from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

    with remote(context, _OPTIONS) as api:

        def fetch(size: int, token: str) -> Any:
            page = api.call(api.admin.ListTenants, pb.ListTenantsRequest(page_size=size, page_token=token))
            return page.tenants, page.next_page_token

        def table(found: "list[Tenant]") -> None:
            out.table(COLUMNS, map(_row, found), fold="TENANT", optional=("CREATED",))

        show_pages(out, paging, fetch, table)


@app.command()
def get(context: typer.Context, tenant: TenantId, json: JsonFlag = False) -> None:
    """Show a tenant. Every operator may see their own."""
    out, name = output(context, json), values.tenant_name(tenant)

    from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

    with remote(context, _OPTIONS) as api:
        _show(out, api.call(api.admin.GetTenant, pb.GetTenantRequest(name=name)).tenant)


@app.command()
def update(
    context: typer.Context,
    tenant: TenantId,
    weight: Annotated[
        int | None, typer.Option(help="Its share of dispatch among tenants, 1 to 1000; 100 by default.")
    ] = None,
    max_in_flight: Annotated[int | None, typer.Option(help="Jobs that run at a time, at most.")] = None,
    history: Annotated[
        str | None,
        typer.Option(metavar="SPAN", help="How long what is over stays readable, such as 90d; 1d to 3660d."),
    ] = None,
    unset: Unset = None,
    etag: Etag = "",
    json: JsonFlag = False,
) -> None:
    """Change what is given and leave the rest, at once for what waits already."""
    out, name = output(context, json), values.tenant_name(tenant)
    history_s = values.duration("--history", history)
    given = {"--weight": weight, "--max-in-flight": max_in_flight, "--history": history_s}
    changed = changed_options(given, unset, "TENANT")

    from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

    settings = pb.Tenant(name=name, etag=values.utf8("--etag", etag), weight=weight)
    if max_in_flight is not None:
        settings.quota.max_in_flight = max_in_flight
    if history_s is not None:
        settings.history_retention.FromTimedelta(timedelta(seconds=history_s))
    request = pb.UpdateTenantRequest(tenant=settings)
    request.update_mask.paths.extend(_FIELDS[option] for option in changed)
    with remote(context, _OPTIONS) as api:
        _show(out, api.call(api.admin.UpdateTenant, request).tenant)


def _row(tenant: "Tenant") -> tuple[str, ...]:
    return (
        tenant.name.removeprefix("tenants/"),
        _state(tenant),
        str(tenant.weight),
        _in_flight(tenant),
        instant(at(tenant, "create_time"), timespec="seconds"),
    )


def _show(out: Output, tenant: "Tenant") -> None:
    if out.json:
        out.document(document(tenant))
        return
    out.fields(
        [
            ("tenant", tenant.name),
            ("state", _state(tenant)),
            ("weight", str(tenant.weight)),
            ("in flight", _in_flight(tenant)),
            ("history", _history(tenant)),
            ("etag", tenant.etag),
            ("created", instant(at(tenant, "create_time"))),
        ]
    )


def _state(tenant: "Tenant") -> str:
    return enum_name(tenant.DESCRIPTOR.fields_by_name["state"].enum_type, tenant.state)


def _in_flight(tenant: "Tenant") -> str:
    return f"at most {tenant.quota.max_in_flight}" if tenant.quota.HasField("max_in_flight") else ""


def _history(tenant: "Tenant") -> str:
    if not tenant.HasField("history_retention"):
        return ""
    return span(tenant.history_retention.ToTimedelta().total_seconds())
