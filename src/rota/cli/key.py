"""`rota key`: the API keys, made in the database itself, since the first one cannot come from a call."""

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli import values
from rota.cli.context import JsonFlag, output, settings
from rota.cli.devhome import database
from rota.cli.errors import Exit, Problem
from rota.cli.flags import DATABASE, setting_flags
from rota.cli.output import instant
from rota.domain.model import Role

if TYPE_CHECKING:
    from rota.domain.model import ApiKey

app = typer.Typer(name="key", help="Create, list and revoke API keys. Needs the database.", no_args_is_help=True)

COLUMNS = ("KEY", "TENANT", "ROLES", "LABEL", "STATE", "CREATED", "EXPIRES")


@app.command()
@setting_flags(*DATABASE)
def create(
    context: typer.Context,
    role: Annotated[
        list[Role], typer.Option(help="What the key may do; repeatable. An operator may do what a client may.")
    ],
    tenant: Annotated[str, typer.Option(help="Whose jobs it sees; made when it is new.")] = "default",
    label: Annotated[str, typer.Option(help="What the key is for.")] = "",
    expires: Annotated[str | None, typer.Option(metavar="DURATION", help="Its life, such as 90d.")] = None,
    json: JsonFlag = False,
    **flags: str | None,
) -> None:
    """Create a key and print it. The secret is shown this once and kept as a hash only."""
    out, given = output(context, json), settings(context, flags)
    values.utf8("--label", label)
    values.utf8("--tenant", tenant)
    ttl_s = values.duration("--expires", expires)

    from rota import bootstrap

    with database(given) as url:
        secret, key = bootstrap.create_key(url, tenant=tenant, label=label, roles=frozenset(role), ttl_s=ttl_s)
    if out.json:
        out.document({"secret": secret, **key_json(key)})
        return
    # The key alone on stdout, so that a script can take it: ROTA_API_KEY=$(rota key create --role client).
    print(secret, flush=True)
    roles, until = ", ".join(sorted(key.roles)), instant(key.expires_at, timespec="seconds")
    about = f"key {key.id} of tenant {key.tenant} with {roles}; {f'valid until {until}' if until else 'no expiry'}"
    print(f"{about}. It is not shown again.", file=sys.stderr)


@app.command("list")
@setting_flags(*DATABASE)
def list_(
    context: typer.Context,
    tenant: Annotated[str | None, typer.Option(help="Only keys of this tenant.")] = None,
    json: JsonFlag = False,
    **flags: str | None,
) -> None:
    """List keys, without their secrets."""
    out, given = output(context, json), settings(context, flags)

    from rota import bootstrap
    from rota.clock import SystemClock

    with database(given) as url:
        keys = bootstrap.list_keys(url, tenant)
    if out.json:
        for key in keys:
            out.document(key_json(key))
        return
    out.table(COLUMNS, [_row(key, SystemClock().utc()) for key in keys], fold="LABEL", optional=("CREATED", "EXPIRES"))


@app.command()
@setting_flags(*DATABASE)
def revoke(
    context: typer.Context,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key's id.", show_default=False)],
    json: JsonFlag = False,
    **flags: str | None,
) -> None:
    """Revoke a key: within seconds it is refused everywhere."""
    out, given = output(context, json), settings(context, flags)
    values.utf8("KEY", key)

    from rota import bootstrap

    with database(given) as url:
        known = bootstrap.revoke_key(url, key)
    if not known:
        message, hint = f"no key {key!r} that could be revoked", "rota key list shows the ids"
        Problem(Exit.NOT_FOUND, "RESOURCE_NOT_FOUND", message, hint).show(as_json=out.json)
        raise typer.Exit(Exit.NOT_FOUND)
    if out.json:
        out.document({"id": key, "revoked": True})
    else:
        print(f"revoked {key}")


def key_json(key: "ApiKey") -> dict[str, Any]:
    """A key for scripts, without its secret."""
    return {
        "id": key.id,
        "tenant": key.tenant,
        "label": key.label,
        "roles": sorted(key.roles),
        "create_time": instant(key.created_at),
        "expire_time": instant(key.expires_at) or None,
        "revoke_time": instant(key.revoked_at) or None,
    }


def _row(key: "ApiKey", now: datetime) -> tuple[str, ...]:
    expired = key.expires_at is not None and key.expires_at <= now
    state = "REVOKED" if key.revoked_at else "EXPIRED" if expired else "ACTIVE"
    created, expires = (instant(at, timespec="seconds") for at in (key.created_at, key.expires_at))
    return key.id, key.tenant, ",".join(sorted(key.roles)), key.label, state, created, expires
