"""What a coordinator is told: one frozen Settings, read once, later sources over earlier ones.

    defaults  <  TOML file  <  environment (ROTA_*)  <  flags

The file is the one given (`--config`, ROTA_CONFIG), else $ROTA_HOME/rota.toml when there is one. A key is spelled
`session_ttl` in the file, ROTA_SESSION_TTL in the environment and `--session-ttl` as a flag. A key that nobody knows is
refused, with the nearest known one, because a setting that is silently ignored is found out in production.

ROTA_TLS_CERT and ROTA_TLS_KEY are read by clients and workers too: they name the certificate that a process shows.
"""

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Self

from rota.domain.duration import format_duration, parse_duration
from rota.domain.errors import FailedPrecondition, InvalidArgument
from rota.domain.wording import suggestion

DEFAULT_HOME: Final = "~/.rota"
DEFAULT_LISTEN: Final = "127.0.0.1:7070"
HTTP_PORT_ABOVE: Final = 10
"""Above the port of gRPC, where no other is given."""
OFF: Final = "off"
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
LOG_FORMATS: Final = ("text", "json")
CONFIG_FILE_BYTES_MAX: Final = 1024 * 1024


# Read by the SDK, the command line and the tests, not by Settings.
_ENVIRONMENT_OF_OTHERS: Final = frozenset(
    {
        "ROTA_ADDRESS",
        "ROTA_API_KEY",
        "ROTA_CONFIG",
        "ROTA_OUTBOX_SCHEMA",
        "ROTA_OUTBOX_URL",
        "ROTA_TLS",
        "ROTA_TLS_CA",
        "ROTA_TLS_CERT",
        "ROTA_TLS_KEY",
    }
)
# What `rota exec` tells its commands, which may well call `rota` themselves.
_ENVIRONMENT_OF_COMMANDS: Final = frozenset(
    {
        "ROTA_JOB",
        "ROTA_ATTEMPT",
        "ROTA_FENCE",
        "ROTA_EFFECT_KEY",
        "ROTA_SCHEDULE",
        "ROTA_NOMINAL_TIME",
        "ROTA_DUE_TIME",
        "ROTA_DEADLINE_S",
    }
)
_PREFIXES_OF_OTHERS: Final = ("ROTA_TEST_", "ROTA_BENCH_")
# Kubernetes sets these in every pod for a Service whose name begins with rota.
_SERVICE_LINK: Final = re.compile(r"ROTA(_\w+)?(_SERVICE_HOST|_SERVICE_PORT(_\w+)?|_PORT_[0-9]+_(TCP|UDP|SCTP)(_\w+)?)")
_SERVICE_LINK_URL: Final = re.compile(r"ROTA(_\w+)?_PORT=(tcp|udp|sctp)://.*")


def hide_password(url: str) -> str:
    """A URL or connection text with every password replaced by ***, and rather too much hidden than too little."""
    hidden = re.sub(r"^((?:[\w+.-]*:)?//)?+([^:@]*):.*@", r"\1\2:***@", url, flags=re.DOTALL)
    return re.sub(r"(?i)(password=)[^&\s]*", r"\1***", hidden)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected text, found {_shown(value)}")
    if "\0" in value or not value.isprintable():
        raise ValueError(f"expected text without control characters, found {_shown(value)}")
    return value


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("1", "true", "yes", "on"):
        return True
    if isinstance(value, str) and value.lower() in ("0", "false", "no", "off"):
        return False
    raise ValueError(f"expected true or false, found {_shown(value)}")


def _path(value: object) -> Path:
    if isinstance(value, Path):
        return value.expanduser()
    try:
        return Path(_text(value)).expanduser()
    except RuntimeError:
        raise ValueError(f"expected a path, found {_shown(value)}, whose user is unknown here") from None


def _database_url(value: object) -> str:
    url = _text(value).strip()
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.partition("+")[0] not in ("postgresql", "postgres") or not rest:
        raise ValueError(f"expected postgresql://user:password@host:port/database, found {hide_password(url)!r}")
    return url


def _address(lowest_port: int) -> Callable[[object], str]:
    def read(value: object) -> str:
        text = _text(value).strip()
        host, separator, port = text.rpartition(":")
        if ":" in host and not (host.startswith("[") and host.endswith("]")):
            raise ValueError(f"expected host:port with an IPv6 host in brackets, such as [::1]:7070, found {text!r}")
        number = int(port) if re.fullmatch("[0-9]{1,5}", port) else -1
        if not separator or not host or not lowest_port <= number <= 65_535 or re.search(r"[\s/@]", host):
            raise ValueError(
                f"expected host:port with a port from {lowest_port} to 65535, such as {DEFAULT_LISTEN}, found {text!r}"
            )
        return text

    return read


def _address_or_off(value: object) -> str:
    if isinstance(value, str) and value.strip().lower() == OFF:
        return OFF
    return _address(0)(value)


def _origins(value: object) -> tuple[str, ...]:
    texts = value if isinstance(value, list | tuple) else _text(value).split(",")
    origins = tuple(_text(text).strip() for text in texts if text != "")
    for origin in origins:
        if origin != "*" and not re.fullmatch(r"https?://[^\s/@*]+", origin):
            raise ValueError(f"expected origins such as https://app.example.com, or *, found {_shown(origin)}")
    return origins


def _span(low_s: float, high_s: float) -> Callable[[object], float]:
    def read(value: object) -> float:
        span_s = parse_duration(value)
        if not low_s <= span_s <= high_s:
            raise ValueError(
                f"expected {format_duration(low_s)} to {format_duration(high_s)}, found {format_duration(span_s)}"
            )
        return span_s

    return read


def _one_of(choices: tuple[str, ...]) -> Callable[[object], str]:
    def read(value: object) -> str:
        text = _text(value).strip().lower()
        if text not in choices:
            raise ValueError(f"expected one of {', '.join(choices)}, found {_shown(value)}")
        return text

    return read


def _http_url(value: object) -> str:
    url = _text(value).strip()
    if not re.fullmatch(r"https?://[^\s/]+(/\S*)?", url):
        raise ValueError(f"expected http://host:port or https://host:port, found {hide_password(url)!r}")
    return url


def _ratio(value: object) -> float:
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not 0 <= number <= 1:
        raise ValueError(f"expected a number from 0 to 1, found {_shown(value)}")
    return number


def _shown(value: object) -> str:
    text = repr(hide_password(value)) if isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _option(read: Callable[[object], object], help: str) -> dict[str, Any]:
    return {"read": read, "help": help}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All that a coordinator is told. Spans are seconds.

    `load` checks each value; a Settings made directly holds what it is given, so that tests may go below the bounds.
    """

    database_url: str | None = field(
        default=None,
        repr=False,
        metadata=_option(
            _database_url,
            "PostgreSQL 15 or newer, several hosts separated by commas; unset: an embedded one below `home`",
        ),
    )
    database_wait_s: float = field(
        default=300.0,
        metadata=_option(_span(0, 86_400), "at start, a database that cannot be reached is waited for this long"),
    )
    home: Path = field(
        default_factory=lambda: Path(DEFAULT_HOME).expanduser(),
        metadata=_option(_path, "folder of the embedded database, the local API key and `rota.toml`"),
    )
    listen: str = field(
        default=DEFAULT_LISTEN,
        metadata=_option(_address(0), "address to serve gRPC at; port 0 takes a free one"),
    )
    advertise: str | None = field(
        default=None, metadata=_option(_address(1), "address at which others reach it; unset: `listen`")
    )
    tls_cert: Path | None = field(default=None, metadata=_option(_path, "certificate chain, PEM; turns TLS on"))
    tls_key: Path | None = field(default=None, metadata=_option(_path, "private key of `tls_cert`, PEM"))
    tls_client_ca: Path | None = field(
        default=None,
        metadata=_option(_path, "authorities of client certificates, PEM; turns mutual TLS on"),
    )
    http_listen: str | None = field(
        default=None,
        metadata=_option(
            _address_or_off, "address to serve HTTP/JSON at, or `off`; unset: 127.0.0.1, the port of `listen` + 10"
        ),
    )
    http_internal_listen: str | None = field(
        default=None,
        metadata=_option(
            _address_or_off,
            "address to serve `/internal` and `/admin` at too, or `off`; unset: `http_listen`, if that is on loopback",
        ),
    )
    http_cors_origins: tuple[str, ...] | None = field(
        default=None,
        metadata=_option(
            _origins, "origins whose pages may call by HTTP, such as `https://app.example.com`; unset: none"
        ),
    )
    peer_listen: str | None = field(
        default=None,
        metadata=_option(
            _address(0), "address at which other coordinators call it; unset: the host of `listen`, a free port"
        ),
    )
    peer_advertise: str | None = field(
        default=None,
        metadata=_option(_address(1), "the same as they see it; unset: found out, with the port of `peer_listen`"),
    )
    tls_peer_ca: Path | None = field(
        default=None,
        metadata=_option(
            _path, "authorities of other coordinators' certificates, PEM; unset: `tls_client_ca`, else `tls_cert`"
        ),
    )
    tls_peer_name: str | None = field(
        default=None, metadata=_option(_text, "name in other coordinators' certificates; unset: the host called")
    )
    allow_plaintext: bool = field(
        default=False,
        metadata=_option(_flag, "serve without TLS off loopback too, behind a proxy that adds it"),
    )
    session_ttl_s: float = field(
        default=12.0, metadata=_option(_span(1, 3_600), "a worker without a beat for this long is dead")
    )
    delivery_ttl_s: float = field(
        default=5.0,
        metadata=_option(_span(0.1, 300), "a lease whose receipt is not proven by then is given to another"),
    )
    shard_term_s: float = field(
        default=9.0,
        metadata=_option(_span(1, 300), "a coordinator that is silent for this long loses its shards"),
    )
    drain_timeout_s: float = field(
        default=30.0, metadata=_option(_span(0, 3_600), "after SIGTERM, running calls get this long")
    )
    history_s: float = field(
        default=14 * 86_400.0,
        metadata=_option(_span(60, 3_650 * 86_400.0), "finished jobs are kept this long"),
    )
    log_level: str = field(default="info", metadata=_option(_one_of(LOG_LEVELS), f"one of {', '.join(LOG_LEVELS)}"))
    log_format: str = field(
        default="text", metadata=_option(_one_of(LOG_FORMATS), f"one of {', '.join(LOG_FORMATS)}; on stderr")
    )
    otlp_endpoint: str | None = field(
        default=None,
        metadata=_option(_http_url, "OTLP/gRPC receiver of traces, metrics and logs; also OTEL_EXPORTER_OTLP_ENDPOINT"),
    )
    trace_ratio: float = field(
        default=1.0, metadata=_option(_ratio, "share of traces recorded when the caller does not decide")
    )

    @classmethod
    def load(
        cls,
        flags: Mapping[str, object] | None = None,
        *,
        config: Path | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> Self:
        """Reads and checks every source. `flags` are by key; None means not given.

        Raises InvalidArgument, which names the source's own spelling of the key, the value and what was expected.
        """
        _refuse_unknown_environment(environ)
        given = [*_from_environment(environ), *_from_flags(flags or {})]
        homes = [_Given(OPTIONS["home"], DEFAULT_HOME, "ROTA_HOME", Path.cwd())]
        homes += [g for g in given if g.option.key == "home"]
        values: dict[str, Any] = {"home": homes[-1].read()}
        file = _config_file(config, environ, values["home"])
        for g in [*(_from_file(file) if file else ()), *given]:
            values[g.option.field] = g.read()
        settings = cls(**values)
        settings._check_together()
        return settings

    def _check_together(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            there, missing = ("tls_cert", "tls_key") if self.tls_cert else ("tls_key", "tls_cert")
            raise InvalidArgument.field(missing, f"expected beside {there}, found only that; set both or neither")
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise InvalidArgument.field(
                "tls_client_ca", "expected together with tls_cert and tls_key, found alone; set all three"
            )
        for key in ("tls_peer_ca", "tls_peer_name"):
            if getattr(self, key) is not None and self.tls_cert is None:
                raise InvalidArgument.field(
                    key, "expected together with tls_cert and tls_key, found alone; set all three"
                )

    def redacted(self) -> dict[str, str]:
        """Every setting by key, as text, with passwords hidden. What is unset is left out."""
        return {option.key: hide_password(text) for option, text in self._texts()}

    def environ(self) -> dict[str, str]:
        """The environment from which `load` makes the same settings, passwords included."""
        return {option.environment: text for option, text in self._texts()}

    def _texts(self) -> "Iterator[tuple[Option, str]]":
        for option in OPTIONS.values():
            value = getattr(self, option.field)
            if value is not None:
                yield option, option.text(value)


@dataclass(frozen=True, slots=True)
class Option:
    """One setting as people see it."""

    key: str
    field: str
    default: Any
    help: str
    read: Callable[[object], object]

    @property
    def environment(self) -> str:
        return f"ROTA_{self.key.upper()}"

    @property
    def flag(self) -> str:
        return f"--{self.key.replace('_', '-')}"

    def text(self, value: Any) -> str:
        """A value of it, as in the environment."""
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, tuple):
            return ",".join(value)
        return format_duration(value) if self.field.endswith("_s") else str(value)


OPTIONS: Final[Mapping[str, Option]] = {
    key: Option(key, f.name, DEFAULT_HOME if f.name == "home" else f.default, f.metadata["help"], f.metadata["read"])
    for f in fields(Settings)
    for key in (f.name.removesuffix("_s"),)
}
_BY_ENVIRONMENT: Final = {option.environment: option for option in OPTIONS.values()}


@dataclass(frozen=True, slots=True)
class _Given:
    """A value as its source spells it. Relative paths start at `base`."""

    option: Option
    value: object
    name: str
    base: Path

    def read(self) -> Any:
        try:
            read = self.option.read(self.value)
        except ValueError as error:
            raise InvalidArgument.field(self.name, str(error)) from None
        return (self.base / read).absolute() if isinstance(read, Path) else read


def http_beside(listen: str, grpc_port: int) -> str:
    """Where HTTP is served if no address is given for it: on loopback, beside the port of gRPC as bound; 0: nobody has
    to find it there."""
    above = grpc_port + HTTP_PORT_ABOVE
    # A port that was free by chance says nothing of the one above it.
    by_chance = grpc_port == 0 or listen.endswith(":0") or above > 65_535
    return f"127.0.0.1:{0 if by_chance else above}"


def cannot_listen(setting: str, address: str) -> FailedPrecondition:
    """The refusal of an address to serve at, which this setting names."""
    return FailedPrecondition(
        f"cannot listen on {address}: the port is taken or the address is not this machine's; "
        f"stop the other process, or choose another with {OPTIONS[setting].flag}"
    )


def _known(key: str, name: str) -> Option:
    try:
        return OPTIONS[key]
    except KeyError:
        raise InvalidArgument.field(name, f"no such setting; {suggestion(key, sorted(OPTIONS))}") from None


def _from_environment(environ: Mapping[str, str]) -> list[_Given]:
    # An empty variable is an unset one, as compose files and shells make them.
    values = {name: environ[name] for name in _BY_ENVIRONMENT if environ.get(name)}
    if endpoint := environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        values.setdefault("ROTA_OTLP_ENDPOINT", endpoint)
    return [_Given(_BY_ENVIRONMENT[name], value, name, Path.cwd()) for name, value in values.items()]


def _from_flags(flags: Mapping[str, object]) -> list[_Given]:
    known = [(_known(key, key), value) for key, value in flags.items() if value is not None]
    return [_Given(option, value, option.flag, Path.cwd()) for option, value in known]


def _refuse_unknown_environment(environ: Mapping[str, str]) -> None:
    for name, value in environ.items():
        if (
            not name.startswith("ROTA_")
            or name in _BY_ENVIRONMENT
            or name in _ENVIRONMENT_OF_OTHERS
            or name in _ENVIRONMENT_OF_COMMANDS
            or name.startswith(_PREFIXES_OF_OTHERS)
            or _SERVICE_LINK.fullmatch(name)
            or _SERVICE_LINK_URL.fullmatch(f"{name}={value}")
        ):
            continue
        near = suggestion(name, sorted([*_BY_ENVIRONMENT, *_ENVIRONMENT_OF_OTHERS]), "ROTA_")
        raise InvalidArgument.field(name, f"no such environment variable of Rota; {near}")


def _config_file(given: Path | None, environ: Mapping[str, str], home: Path) -> Path | None:
    if given is None and environ.get("ROTA_CONFIG"):
        given = Path(environ["ROTA_CONFIG"])
    if given is not None:
        return given.expanduser().absolute()
    usual = home / "rota.toml"
    return usual if usual.exists() else None


def _from_file(file: Path) -> list[_Given]:
    table = {f"{file}: {key}": (key, value) for key, value in _read_toml(file).items()}
    return [_Given(_known(key, name), value, name, file.parent) for name, (key, value) in table.items()]


def _read_toml(file: Path) -> dict[str, object]:
    import tomllib

    try:
        with file.open("rb") as stream:
            content = stream.read(CONFIG_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidArgument.field(
            str(file), f"expected a readable configuration file, found none ({error.strerror}); correct --config"
        ) from None
    if len(content) > CONFIG_FILE_BYTES_MAX:
        raise InvalidArgument.field(str(file), f"expected at most {CONFIG_FILE_BYTES_MAX} bytes of TOML, found more")
    try:
        return tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise InvalidArgument.field(str(file), f"expected TOML in UTF-8, found otherwise ({error})") from None
