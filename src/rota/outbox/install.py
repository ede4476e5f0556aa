"""Installing the outbox in a schema of an application."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files

import psycopg
from psycopg import sql

from rota.domain import limits
from rota.domain.errors import FailedPrecondition
from rota.outbox.database import Place, Row
from rota.outbox.limits import ORDERING_KEY_BYTES_MAX

VERSION = 1
SERVER_MAJOR_MIN = 13
LOCK_TIMEOUT_S = 3
_ONE_AT_A_TIME = 0x526F7462

_RELAY_RIGHTS = "grant select, update, delete on {schema}.rota_outbox, {schema}.rota_outbox_keys to {role}"
_ENQUEUE_RIGHTS = "grant execute on function {schema}.rota_enqueue to {role}"
_USAGE = "grant usage on schema {schema} to {role}"

# Ten years less a day, so that clocks which differ do not make the relay's call too late.
_HORIZON_S = limits.HORIZON_S - limits.DAY_S


@dataclass(frozen=True, slots=True)
class Installed:
    """`version` None: not installed there. `before` is what there was at first."""

    server: str
    before: int | None
    version: int | None

    @property
    def up_to_date(self) -> bool:
        """Versions only add: a newer one serves too."""
        return self.version is not None and self.version >= VERSION


@dataclass(frozen=True, slots=True)
class Grants:
    """Roles that may enqueue, and roles that may relay."""

    enqueue: Sequence[str] = ()
    relay: Sequence[str] = ()


def script(schema: str, grants: Grants | None = None) -> str:
    """All that an installation runs, as one transaction for a person to apply."""
    statements = "\n".join(f"{text};" for text in _grants(schema, grants or Grants()))
    return f"begin;\n\n{_definition(schema)}\n{statements}{chr(10) if statements else ''}\ncommit;\n"


def install(place: Place, grants: Grants | None = None) -> Installed:
    """Installs what is missing, and grants what is asked for. Safe to repeat, and from many places at once."""
    with _connect(place) as conn, conn.transaction():
        conn.execute(f"set local lock_timeout = '{LOCK_TIMEOUT_S}s'")
        conn.execute("select pg_advisory_xact_lock(%s)", [_ONE_AT_A_TIME])
        found = _status(conn, place)
        if found.version is None or found.version < VERSION:
            conn.execute(_definition(place.schema).encode())
        for statement in _grants(place.schema, grants or Grants()):
            conn.execute(statement.encode())
        return Installed(found.server, found.version, max(found.version or 0, VERSION))


def status(place: Place) -> Installed:
    """What is installed there."""
    with _connect(place) as conn:
        return _status(conn, place)


def check(place: Place) -> None:
    """Refuses an outbox that this version cannot serve."""
    found = status(place)
    if found.version is None:
        raise FailedPrecondition(
            f"schema {place.schema}: expected Rota's outbox in the database {place}, found none; "
            "install it by rota migrate --outbox URL --schema NAME"
        )
    if not found.up_to_date:
        raise FailedPrecondition(
            f"schema {place.schema}: expected version {VERSION} of Rota's outbox, found {found.version}; "
            "run rota migrate --outbox URL --schema NAME"
        )


@contextmanager
def _connect(place: Place) -> Iterator[psycopg.Connection[Row]]:
    try:
        with psycopg.connect(**place.arguments) as conn:
            yield conn
    except psycopg.Error as error:
        raise place.explain(error) from error


def _status(conn: psycopg.Connection[Row], place: Place) -> Installed:
    number = conn.info.server_version
    server = conn.info.parameter_status("server_version") or str(number)
    if number // 10_000 < SERVER_MAJOR_MIN:
        raise FailedPrecondition(
            f"PostgreSQL {server} is too old: the outbox needs {SERVER_MAJOR_MIN} or newer; upgrade the server"
        )
    if not conn.execute("select from pg_namespace where nspname = %s", [place.schema]).fetchall():
        raise psycopg.errors.InvalidSchemaName(place.schema)
    known = conn.execute(
        "select from pg_proc where proname = 'rota_outbox_version' and pronamespace = "
        "(select oid from pg_namespace where nspname = %s)",
        [place.schema],
    ).fetchall()
    if not known:
        return Installed(server, None, None)
    ask = sql.SQL("select {}()").format(sql.Identifier(place.schema, "rota_outbox_version"))
    found = conn.execute(ask).fetchone()
    assert found is not None
    version = int(found[0])
    return Installed(server, version, version)


def _definition(schema: str) -> str:
    text = files("rota.outbox").joinpath(f"sql/{VERSION:04}.sql").read_text()
    values = {name: f"{value:.0f}" for name, value in _limits().items()}
    return re.sub(r"@(\w+)@", lambda found: (values | {"schema": _quoted(schema)})[found[1]], text)


def _limits() -> dict[str, int | float]:
    named = {name: value for name, value in vars(limits).items() if isinstance(value, int | float)}
    return named | {"ORDERING_KEY_BYTES_MAX": ORDERING_KEY_BYTES_MAX, "HORIZON_S": _HORIZON_S}


def _grants(schema: str, grants: Grants) -> Iterator[str]:
    for rights, roles in ((_ENQUEUE_RIGHTS, grants.enqueue), (_RELAY_RIGHTS, grants.relay)):
        for role in roles:
            names = {"schema": _quoted(schema), "role": _quoted(role)}
            yield _USAGE.format(**names)
            yield rights.format(**names)


def _quoted(name: str) -> str:
    return sql.Identifier(name).as_string()
