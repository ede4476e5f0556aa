"""`rota worker`: what the workers are doing."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.context import JsonFlag, client, output
from rota.cli.output import instant, span

if TYPE_CHECKING:
    from rota_sdk.gen.rota.admin.v1.admin_pb2 import Session

app = typer.Typer(name="worker", help="See the workers.", no_args_is_help=True)

COLUMNS = ("WORKER", "STATE", "QUEUES", "FREE", "LEASES", "LAST BEAT", "SDK", "SESSION")


@app.callback()
def worker() -> None:
    """See the workers."""


@app.command("list")
def list_(
    context: typer.Context,
    queue: Annotated[str, typer.Option(help="Only workers of this queue.")] = "",
    json: JsonFlag = False,
) -> None:
    """List the worker sessions that have not ended, newest first. Needs a key with the role operator."""
    from rota.clock import SystemClock

    out = output(context, json)
    with client(context) as rota:
        sessions = [s for s in rota.list_sessions() if not queue or queue in s.queues]
    if out.json:
        for session in sessions:
            out.document(session_json(session))
        return
    out.table(COLUMNS, [_row(s, SystemClock().utc()) for s in sessions], fold="QUEUES", optional=("SESSION", "SDK"))


def session_json(session: "Session") -> dict[str, Any]:
    """A session for scripts."""
    return {
        "name": session.name,
        "worker": session.worker,
        "state": _state(session),
        "queues": list(session.queues),
        "types": list(session.types),
        "slots": session.slots,
        "free_slots": session.free_slots,
        "leases": session.leases,
        "open_time": _time(session, "open_time"),
        "last_beat_time": _time(session, "last_beat_time"),
        "expire_time": _time(session, "expire_time"),
        "sdk": session.sdk,
        "build_id": session.build_id,
        "labels": dict(session.labels),
        "coordinator": session.coordinator,
        "protocol_version": session.protocol_version,
    }


def _row(session: "Session", now: datetime) -> tuple[str, ...]:
    beat = _instant(session, "last_beat_time")
    return (
        session.worker,
        _state(session),
        ",".join(session.queues),
        f"{session.free_slots}/{session.slots}",
        str(session.leases),
        f"{span(max((now - beat).total_seconds(), 0))} ago" if beat else "",
        session.sdk,
        session.name,
    )


def _state(session: "Session") -> str:
    from rota_sdk.gen.rota.admin.v1.admin_pb2 import SessionState

    try:
        return SessionState.Name(session.state).removeprefix("SESSION_STATE_")
    except ValueError:  # of a newer server
        return str(session.state)


def _time(session: "Session", name: str) -> str | None:
    return instant(_instant(session, name)) or None


def _instant(session: "Session", name: str) -> datetime | None:
    if not session.HasField(name):
        return None
    at: datetime = getattr(session, name).ToDatetime(tzinfo=UTC)
    return at
