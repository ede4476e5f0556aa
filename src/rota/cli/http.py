"""`rota http`: a worker that makes HTTP calls; and the options by which jobs and schedules name one."""

import asyncio
import json as jsonlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rota.cli import values
from rota.cli.context import Globals, JsonFlag, output
from rota.config import DEFAULT_HOME
from rota.domain.errors import InvalidArgument
from rota.domain.limits import PAYLOAD_BYTES_MAX, SLOTS_MAX

if TYPE_CHECKING:
    from ssl import SSLContext

# As rota.targets.http has them, which is costly to import.
JOB_TYPE: Final = "rota.http"
QUEUE_DEFAULT: Final = "http"
SLOTS: Final = 50
CALLS: Final = 10
DRAIN: Final = "35s"
CREDENTIALS: Final = "credentials.toml"


@dataclass(frozen=True, slots=True)
class HttpFlags:
    """A call, in place of a type and a payload."""

    http: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A call that `rota http` makes, instead of a type and --data."),
    ] = None
    method: Annotated[
        str | None, typer.Option(metavar="METHOD", help="With --http: GET when not given, with a body POST.")
    ] = None
    body: Annotated[str | None, typer.Option(metavar="TEXT|@FILE|-", help="With --http: what is sent, as it is.")] = (
        None
    )
    auth: Annotated[str | None, typer.Option(metavar="NAME", help="With --http: a credential that the runner has.")] = (
        None
    )

    def payload(
        self, headers: Mapping[str, str], stored: Mapping[str, Any] | None = None, *, of_schedule: bool = True
    ) -> bytes:
        """The payload of the call, with what a stored one has and is not given. Raises InvalidArgument.

        Without a schedule nothing may be asked of one.
        """
        from rota.targets.http.request import parse_request

        found: dict[str, Any] = dict(stored or {})
        given = {"url": self.http, "method": self.method, "auth": self.auth, "headers": dict(headers) or None}
        found |= {key: value for key, value in given.items() if value is not None}
        if self.body is not None:
            found.pop("body_base64", None)
            found |= _body(self.body, {name.lower() for name in found.get("headers", {})})
            if "content_type" in found:
                found["headers"] = {**found.get("headers", {}), "Content-Type": found.pop("content_type")}
        data = jsonlib.dumps(found, ensure_ascii=False).encode("utf-8", "replace")
        try:
            request = parse_request(data)
        except InvalidArgument as error:
            raise _of_options(error) from None
        if request.of_schedule and not of_schedule:
            name = min(request.of_schedule)
            raise InvalidArgument.field(
                "--http", f"expected what a job without a schedule has, found {{{{{name}}}}}; leave it out"
            )
        return data

    def refuse_strays(self) -> None:
        """Refuses what only means something with --http."""
        for name in ("method", "body", "auth"):
            if self.http is None and getattr(self, name) is not None:
                raise InvalidArgument.field(f"--{name}", "expected together with --http, found without; leave it out")


def http(
    context: typer.Context,
    queue: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"Take jobs from it; repeatable. [default: {QUEUE_DEFAULT}]"),
    ] = None,
    slots: Annotated[int, typer.Option(min=1, max=SLOTS_MAX, help="Calls at a time.")] = SLOTS,
    host_calls: Annotated[int, typer.Option(min=1, max=SLOTS_MAX, help="Calls at a time of one host.")] = CALLS,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST|HOST:PORT|NETWORK",
            help="An inside target that may be called: localhost:8000, *.corp, 10.2.0.0/16; repeatable.",
        ),
    ] = None,
    credentials: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"What calls prove themselves with. [default: $ROTA_HOME/{CREDENTIALS}]"),
    ] = None,
    ca: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Authorities of targets' certificates besides the system's, PEM."),
    ] = None,
    name: Annotated[str, typer.Option(help="The worker's name, for people. [default: host and pid]")] = "",
    drain_timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="How long calls on their way may go on after SIGTERM.")
    ] = DRAIN,
    otlp_endpoint: Annotated[
        str | None,
        typer.Option(metavar="URL", help="OTLP/gRPC receiver of its spans; also OTEL_EXPORTER_OTLP_ENDPOINT."),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Make HTTP calls: a worker for jobs of type rota.http, until SIGTERM or Ctrl-C. Needs a key with the role worker.

    rota job create --http https://api.example.com/invoices --body '{"job": "{{job.id}}"}' --auth billing

    The payload is {"url": …}, with "method", "headers", "body" (a text or a JSON value) or "body_base64", "auth",
    "timeout" (30 s), "connect_timeout", "success" (200-299), "retry" (408, 409, 425, 429, 5xx), "redirects" (0),
    "in_doubt", "idempotency_window" and "template" beside it where they are wanted. URL, headers and body may hold
    {{job.id}}, {{job.attempt}}, {{job.fence}}, {{job.queue}}, {{job.effect_key}}, {{job.due_time}}, {{schedule.id}} and
    {{occurrence.time}}.

    Every call has Idempotency-Key, the same in all attempts of a job, and Rota-Fence, Rota-Job, Rota-Attempt and
    traceparent. A call that is sent and not answered fails with its effect UNKNOWN. A host that fails three times in a
    row rests, and its jobs are given back meanwhile without counting an attempt.

    Only public addresses are called, redirects included: loopback, private and link-local networks and the metadata
    services of clouds are refused unless --allow names them. Proxies of the environment are not used.

    Credentials are tables of a TOML file that only its owner may read, each bound to hosts:

    [billing]

    kind = "bearer"

    token = "env:BILLING_TOKEN"

    hosts = ["api.example.com"]

    Kinds are bearer (token), basic (username, password), header (name, value), hmac (key_id, secret) and oidc
    (token_url, client_id, client_secret). Secrets may be env:NAME or file:PATH.

    With --json the log on stderr is JSON, a line each.
    """
    out, given = output(context, json), Globals.of(context)
    queues = [values.utf8("--queue", text) for text in queue or [QUEUE_DEFAULT]]
    drain_timeout_s = values.duration("--drain-timeout", drain_timeout)
    assert drain_timeout_s is not None

    from rota.clock import SystemClock
    from rota.targets.http import credentials as files
    from rota.targets.http import runner
    from rota.targets.http.address import AllowList
    from rota.telemetry_logs import configure

    configure("info", "json" if out.json else "text")
    end_traces = _traced(otlp_endpoint or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", ""))
    path = credentials
    if path is None:
        usual = Path(os.environ.get("ROTA_HOME") or DEFAULT_HOME).expanduser() / CREDENTIALS
        path = usual if usual.exists() else None
    try:
        asyncio.run(
            runner.serve(
                queues,
                slots,
                SystemClock(),
                address=given.address,
                api_key=given.api_key,
                name=values.utf8("--name", name),
                allowed=AllowList.parse([values.utf8("--allow", text) for text in allow or ()]),
                credentials=files.load(path, os.environ) if path is not None else {},
                calls_per_host=host_calls,
                drain_timeout_s=drain_timeout_s,
                tls=_tls(ca),
            )
        )
    finally:
        end_traces()


def _traced(endpoint: str) -> Callable[[], None]:
    if not endpoint:
        return lambda: None
    try:
        from rota.telemetry_otlp import trace_runner
    except ImportError:
        raise InvalidArgument.field(
            "--otlp-endpoint", 'expected the OpenTelemetry SDK installed, found none: pip install "rota[otel]"'
        ) from None
    return trace_runner(endpoint, "rota-http")


def _tls(ca: Path | None) -> "SSLContext":
    import ssl

    context = ssl.create_default_context()
    if ca is not None:
        try:
            context.load_verify_locations(ca)
        except (OSError, ssl.SSLError) as error:
            reason = getattr(error, "strerror", None) or "no certificate"
            raise InvalidArgument.field("--ca", f"expected certificates in PEM, found {str(ca)!r} ({reason})") from None
    return context


def _body(text: str, headers: "set[str]") -> dict[str, Any]:
    """The body as it was given, and what it is where no header says so."""
    data = values.read_bytes("--body", text)
    if len(data) > PAYLOAD_BYTES_MAX:
        raise InvalidArgument.field("--body", f"expected at most {PAYLOAD_BYTES_MAX} bytes, found more; send less")
    try:
        found: dict[str, Any] = {"body": data.decode()}
    except UnicodeDecodeError:
        from base64 import b64encode

        return {"body_base64": b64encode(data).decode()}
    if "content-type" not in headers and _is_json(found["body"]):
        found["content_type"] = "application/json"
    return found


def _is_json(text: str) -> bool:
    try:
        jsonlib.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _of_options(error: InvalidArgument) -> InvalidArgument:
    """The refusal of a payload in terms of the options that it comes from."""
    options = {"url": "--http", "method": "--method", "body": "--body", "auth": "--auth", "headers": "--header"}
    options["payload"] = "--body"
    first = error.violations[0] if error.violations else None
    if first is None:
        return error
    field = first.field.partition("[")[0]
    return InvalidArgument.field(options.get(field, field), first.description, reason=error.reason)
