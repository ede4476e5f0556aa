"""Calls that the SDK has no methods for: refusals in terms of the command's options, pages, JSON documents."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from rota.cli.context import client
from rota.cli.output import Output, instant
from rota.domain.limits import PAGE_SIZE_MAX

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from rota_sdk import Client
    from rota_sdk.gen.rota.admin.v1.admin_pb2_grpc import AdminServiceStub
    from rota_sdk.gen.rota.v1.schedules_pb2_grpc import CalendarServiceStub, ScheduleServiceStub

T = TypeVar("T")

LIST_DEFAULT: Final = 50
_WRAPPERS: Final = ("schedule.", "calendar.", "backfill.", "queue.", "tenant.", "redrive.")


class Remote:
    """The services behind one connection. `options` names the option that each field of a request comes from."""

    def __init__(self, rota: "Client", options: Mapping[str, str]) -> None:
        self.rota = rota
        self.options = options

    @property
    def schedules(self) -> "ScheduleServiceStub":
        return self.rota.stubs.schedules

    @property
    def calendars(self) -> "CalendarServiceStub":
        return self.rota.stubs.calendars

    @property
    def admin(self) -> "AdminServiceStub":
        return self.rota.stubs.admin

    def call(self, method: Callable[..., T], request: "Message", options: Mapping[str, str] | None = None) -> T:
        """One call. Raises the SDK's RotaError, whose fields are options where `options` knows them."""
        import grpc
        from rota_sdk import limits
        from rota_sdk.errors import from_rpc

        try:
            return method(request, timeout=limits.CALL_TIMEOUT_S)
        except grpc.RpcError as error:
            refusal = from_rpc(error, self.rota.address)
            _speak_in_options(refusal, {**self.options, **(options or {})})
            raise refusal from None


@contextmanager
def remote(context: typer.Context, options: Mapping[str, str]) -> Iterator[Remote]:
    """The services of the coordinator at --address."""
    with client(context) as rota:
        yield Remote(rota, options)


def option_of(field: str, options: Mapping[str, str]) -> str:
    """The option that a field, by its path in a request, comes from; the path itself where none is known.

    The nearest field above it counts, too: job.payload.data is --data as job.payload is.
    """
    path = field
    for wrapper in _WRAPPERS:
        path = path.removeprefix(wrapper)
    known = [name for name in options if path == name or path.startswith((f"{name}.", f"{name}["))]
    if not known:
        return field
    nearest = max(known, key=len)
    rest = path[len(nearest) :]
    return options[nearest] + (rest if rest.startswith("[") else "")


def _speak_in_options(error: Any, options: Mapping[str, str]) -> None:
    from rota_sdk.errors import Violation

    spoken = {violation.field: option_of(violation.field, options) for violation in error.violations}
    # Longer paths first, of which a shorter one may be a part.
    for field in sorted(spoken, key=len, reverse=True):
        error.message = error.message.replace(f"{field}: ", f"{spoken[field]}: ")
    error.violations = tuple(Violation(spoken[v.field], v.description) for v in error.violations)


@dataclass(frozen=True, slots=True)
class PageFlags:
    """How much of a list is shown."""

    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = LIST_DEFAULT
    all: Annotated[bool, typer.Option("--all", help="Without a limit.")] = False
    page_token: Annotated[
        str, typer.Option(metavar="TOKEN", help="Go on where an earlier list, with the same filters, ended.")
    ] = ""


def show_pages(
    out: Output,
    flags: PageFlags,
    fetch: "Callable[[int, str], tuple[Sequence[Message], str]]",
    table: Callable[[list[Any]], None],
) -> None:
    """Prints a list, for scripts page by page. `fetch` takes a page's size and token, and gives the next token, too."""
    left, token = flags.limit, flags.page_token
    shown: list[Any] = []
    while True:
        found, token = fetch(PAGE_SIZE_MAX if flags.all else min(left, PAGE_SIZE_MAX), token)
        left -= len(found)
        if out.json:
            for message in found:
                out.document(document(message))
        else:
            shown += found
        if not token or (left <= 0 and not flags.all):
            break
    if not out.json:
        table(shown)
    if token:
        typer.echo(f"more: --page-token {token}", err=True)


def document(message: "Message") -> dict[str, Any]:
    """A message for scripts: the contract's names, enums without their prefix, instants in ISO 8601, spans as 90s.

    Payloads and jobs are as `rota job` has them. What is unset, empty or false is left out; counts of 0 are not.
    """
    found = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if isinstance(value, (str, bytes, bool)) and not value:
            continue
        if field.enum_type is not None and not value:
            continue
        if hasattr(value, "items"):
            shown: Any = dict(value)
        elif isinstance(value, (str, bytes, int, float)) or field.has_presence:
            shown = _value(field, value)
        else:
            shown = [_value(field, one) for one in value]
        if shown not in (None, {}, []):
            found[field.name] = shown
    return found


def _value(field: Any, value: Any) -> Any:
    if field.enum_type is not None:
        return enum_name(field.enum_type, value)
    if field.message_type is None:
        return value
    from rota_sdk import codec

    from rota.cli.jobview import job_json, payload_json

    match field.message_type.full_name:
        case "google.protobuf.Timestamp":
            return instant(value.ToDatetime(tzinfo=UTC))
        case "google.protobuf.Duration":
            return value.ToJsonString()
        case "rota.v1.Payload":
            return payload_json(codec.payload(value))
        case "rota.v1.Job":
            return job_json(codec.job(value))
    return document(value)


def enum_name(enum: Any, number: int) -> str:
    """SCHEDULE_STATE_ACTIVE as ACTIVE; the number for one of a newer server."""
    value = enum.values_by_number.get(number)
    if value is None:
        return str(number)
    return str(value.name.removeprefix(enum_prefix(enum)))


def enum_prefix(enum: Any) -> str:
    """SCHEDULE_STATE_ of ScheduleState, by its descriptor."""
    return str(enum.values_by_number[0].name.removesuffix("UNSPECIFIED"))


def at(message: "Message", name: str) -> datetime | None:
    """The Timestamp field `name`; None when unset."""
    from rota_sdk import codec

    return codec.instant(message, name)
