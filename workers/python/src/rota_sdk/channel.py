"""Where the server is, how it is trusted, who the caller is, and how a channel to it is set up.

Environment: ROTA_ADDRESS (default 127.0.0.1:7070), ROTA_API_KEY, ROTA_TLS=1 (system roots), ROTA_TLS_CA,
ROTA_TLS_CERT, ROTA_TLS_KEY (files), ROTA_HOME (default ~/.rota). A scheme https:// or grpcs://, or any of the TLS
settings, turns TLS on.
"""

import ipaddress
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import grpc

from rota_sdk import limits
from rota_sdk.version import SDK

DEFAULT_ADDRESS: Final = "127.0.0.1:7070"
DEFAULT_PORT: Final = 7070
_SECURE_SCHEMES: Final = frozenset({"https", "grpcs"})
_PLAIN_SCHEMES: Final = frozenset({"http", "grpc"})

Metadata = tuple[tuple[str, str | bytes], ...]


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM form. Without `ca` the system's roots are trusted; `cert` and `key` identify the caller."""

    ca: str = ""
    cert: str = ""
    key: str = ""

    def __post_init__(self) -> None:
        if bool(self.cert) != bool(self.key):
            raise ValueError("TLS: expected both a certificate and its key, found only one; set both or neither")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server to talk to. Opens no connection by itself."""

    target: str
    address: str
    loopback: bool
    api_key: str
    tls: Tls | None

    @classmethod
    def resolve(
        cls,
        address: str | None = None,
        api_key: str | None = None,
        tls: "Tls | bool | None" = None,
        environ: Mapping[str, str] = os.environ,
    ) -> "Endpoint":
        """Arguments first, then the environment.

        The key: argument, ROTA_API_KEY, else, only when the address is loopback, $ROTA_HOME/dev/api-key, which
        `rota dev` writes. Raises ValueError on an address that cannot be one.
        """
        given = address or environ.get("ROTA_ADDRESS") or DEFAULT_ADDRESS
        target, secure, loopback = _parse(given)
        if tls is None:
            files = Tls(*(environ.get(f"ROTA_TLS_{part}", "") for part in ("CA", "CERT", "KEY")))
            wanted = secure or files != Tls() or environ.get("ROTA_TLS", "") not in ("", "0")
            trust = files if wanted else None
        elif isinstance(tls, Tls):
            trust = tls
        else:
            trust = Tls() if tls else None
        if api_key is None:
            api_key = environ.get("ROTA_API_KEY") or (_dev_key(environ) if loopback else "")
        return cls(target, given, loopback, api_key, trust)

    @property
    def metadata(self) -> Metadata:
        """What every call carries."""
        return (("authorization", f"Bearer {self.api_key}"),) if self.api_key else ()

    def open(self) -> grpc.Channel:
        """A channel for calls from threads. Connects at the first call. Raises OSError on unreadable TLS files."""
        if self.tls is None:
            return grpc.insecure_channel(self.target, options=self._options())
        return grpc.secure_channel(self.target, _credentials(self.tls), options=self._options())

    def open_aio(self) -> grpc.aio.Channel:
        """A channel for the running event loop that carries `metadata` on every call."""
        kinds = (_AioUnaryAuth, _AioDownAuth, _AioBothAuth) if self.api_key else ()
        auth = [kind(self.metadata) for kind in kinds]
        if self.tls is None:
            return grpc.aio.insecure_channel(self.target, options=self._options(), interceptors=auth)
        return grpc.aio.secure_channel(self.target, _credentials(self.tls), options=self._options(), interceptors=auth)

    def open_authorized(self) -> grpc.Channel:
        """As `open`, with `metadata` on every call."""
        channel = self.open()
        return grpc.intercept_channel(channel, _Auth(self.metadata)) if self.api_key else channel

    def _options(self) -> list[tuple[str, Any]]:
        return [
            ("grpc.primary_user_agent", SDK),
            ("grpc.keepalive_time_ms", round(limits.KEEPALIVE_S * 1e3)),
            # grpc.keepalive_timeout_ms does not shorten the minute after which an unanswered ping ends a connection.
            ("grpc.http2.ping_timeout_ms", round(limits.KEEPALIVE_TIMEOUT_S * 1e3)),
            # A parked poll sends no data for longer than two pings, the default allowance.
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.max_receive_message_length", limits.RECEIVE_BYTES),
            ("grpc.max_send_message_length", -1),
            ("grpc.initial_reconnect_backoff_ms", round(limits.CONNECT_BACKOFF_FIRST_S * 1e3)),
            ("grpc.max_reconnect_backoff_ms", round(limits.CONNECT_BACKOFF_MOST_S * 1e3)),
            ("grpc.min_reconnect_backoff_ms", round(limits.CONNECT_TIMEOUT_S * 1e3)),
            # Channels with equal settings share their connections by default; a new channel must mean a new one.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0 if self.loopback else 1),
            ("grpc.service_config", SERVICE_CONFIG),
        ]


_RETRY: Final = {
    "maxAttempts": limits.CALL_ATTEMPTS,
    "initialBackoff": "0.1s",
    "maxBackoff": "1s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"],
}
_WORKER: Final = "rota.worker.v1.WorkerService"
SERVICE_CONFIG: Final = json.dumps(
    {
        "methodConfig": [
            {
                "name": [{"service": _WORKER, "method": "SendHeartbeat"}],
                "waitForReady": True,
                "retryPolicy": _RETRY,
            },
            # Polls are the SDK's own to repeat: none must arrive after the word that the worker leaves.
            {"name": [{"service": _WORKER, "method": "Lease"}]},
            # Broken streams are the SDK's own to mend: it must tell its inventory on the new one.
            {"name": [{"service": _WORKER, "method": "Heartbeat"}], "waitForReady": True},
            {"name": [{}], "retryPolicy": _RETRY},
        ]
    }
)


def _parse(address: str) -> tuple[str, bool, bool]:
    """gRPC target, whether the scheme asks for TLS, whether it is this machine."""
    if address.startswith(("unix:", "unix-abstract:")):
        return address, False, True
    if address.startswith(("dns:", "ipv4:", "ipv6:", "xds:")):
        return address, False, _is_loopback(address.rpartition("/")[2].rpartition(":")[0].removeprefix("ipv4:"))
    parts = urlsplit(address if "://" in address else f"grpc://{address}")
    if parts.scheme not in _SECURE_SCHEMES | _PLAIN_SCHEMES or parts.path not in ("", "/") or not parts.hostname:
        raise ValueError(
            f"address: expected host:port, grpc://host:port or grpcs://host:port, found {address!r}; "
            "set ROTA_ADDRESS or pass address="
        )
    try:
        port = parts.port or DEFAULT_PORT
    except ValueError as error:
        raise ValueError(f"address: expected a port from 1 to 65535, found {address!r}") from error
    host = parts.hostname
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return target, parts.scheme in _SECURE_SCHEMES, _is_loopback(host)


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _dev_key(environ: Mapping[str, str]) -> str:
    home = Path(environ.get("ROTA_HOME") or Path.home() / ".rota")
    try:
        return (home / "dev" / "api-key").read_text().strip()
    except OSError:
        return ""


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    ca, cert, key = (Path(name).read_bytes() if name else None for name in (tls.ca, tls.cert, tls.key))
    return grpc.ssl_channel_credentials(ca, key, cert)


class _CallDetails(grpc.ClientCallDetails):
    """A copy of a call's details with more metadata."""

    def __init__(self, details: grpc.ClientCallDetails, metadata: Metadata) -> None:
        self.method = details.method
        self.timeout = details.timeout
        self.metadata = (*(details.metadata or ()), *metadata)
        self.credentials = details.credentials
        self.wait_for_ready = details.wait_for_ready
        self.compression = details.compression


class _Auth(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor, grpc.StreamStreamClientInterceptor):
    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata

    def _intercept(self, go_on: Callable[..., Any], details: grpc.ClientCallDetails, request: Any) -> Any:
        return go_on(_CallDetails(details, self._metadata), request)

    intercept_unary_unary: Any = _intercept
    intercept_unary_stream: Any = _intercept
    intercept_stream_stream: Any = _intercept


class _AioAuth:
    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata

    async def _intercept(self, go_on: Callable[..., Any], details: grpc.aio.ClientCallDetails, request: Any) -> Any:
        carried = grpc.aio.Metadata(*(details.metadata or ()), *self._metadata)
        return await go_on(
            grpc.aio.ClientCallDetails(
                details.method, details.timeout, carried, details.credentials, details.wait_for_ready
            ),
            request,
        )


# grpc.aio sorts an interceptor into one kind only, so each kind has its class.
class _AioUnaryAuth(_AioAuth, grpc.aio.UnaryUnaryClientInterceptor):
    intercept_unary_unary: Any = _AioAuth._intercept


class _AioDownAuth(_AioAuth, grpc.aio.UnaryStreamClientInterceptor):
    intercept_unary_stream: Any = _AioAuth._intercept


class _AioBothAuth(_AioAuth, grpc.aio.StreamStreamClientInterceptor):
    intercept_stream_stream: Any = _AioAuth._intercept
