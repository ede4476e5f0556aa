"""What a runner proves itself with, by names that payloads use. Secrets are in its file, not in jobs:

    [billing]
    kind = "bearer"                  # bearer, basic, header, hmac, oidc
    hosts = ["api.example.com"]      # where it may be sent to: host, host:port, *.domain
    token = "env:BILLING_TOKEN"      # or file:/run/secrets/billing, or the secret itself

    bearer   token                                   Authorization: Bearer …
    basic    username, password                      Authorization: Basic …
    header   name, value                             such as X-Api-Key
    hmac     key_id, secret                          Rota-Signature: see `signing.py`
    oidc     token_url, client_id, client_secret     Authorization: Bearer …, with a token by client credentials;
             and perhaps scope, audience,            `client_auth` is basic or post
             client_auth

A credential goes over https alone, unless it says `allow_http = true`. Secrets of files are read for each call, so that
they may be renewed; those of the environment and the file's own at the start.
"""

import base64
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rota.domain.errors import FailedPrecondition, InvalidArgument
from rota.domain.text import Problems, shown
from rota.domain.wording import json_kind, suggestion
from rota.targets.http.address import HostPattern
from rota.targets.http.request import CONNECTION_HEADERS, OWN_HEADERS
from rota.targets.http.url import Url, parse_url

FILE_BYTES_MAX: Final = 1024 * 1024
SECRET_BYTES_MAX: Final = 16 * 1024

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_KEY_ID: Final = re.compile(r"[A-Za-z0-9._:/-]{1,128}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class SecretMissing(Exception):
    """A secret's file cannot be read now."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A text that no message, log or repr shows."""

    _value: str = field(repr=False)
    file: str = ""

    def read(self) -> str:
        """Raises SecretMissing."""
        if not self.file:
            return self._value
        try:
            with Path(self.file).open("rb") as found:
                text = found.read(SECRET_BYTES_MAX + 1).decode()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise SecretMissing(f"expected a secret in {self.file}, found none that can be read: {reason}") from None
        text = text.rstrip("\r\n")
        if not text or len(text) > SECRET_BYTES_MAX or _CONTROL.search(text):
            raise SecretMissing(f"expected one line with a secret in {self.file}, found otherwise")
        return text


@dataclass(frozen=True, slots=True)
class Bearer:
    token: Secret


@dataclass(frozen=True, slots=True)
class Basic:
    username: str
    password: Secret


@dataclass(frozen=True, slots=True)
class Header:
    name: str
    value: Secret


@dataclass(frozen=True, slots=True)
class Hmac:
    key_id: str
    secret: Secret


@dataclass(frozen=True, slots=True)
class Oidc:
    token_url: Url
    client_id: str
    client_secret: Secret
    scope: str = ""
    audience: str = ""
    post: bool = False
    """Client id and secret in the form instead of an Authorization header."""


Scheme = Bearer | Basic | Header | Hmac | Oidc


@dataclass(frozen=True, slots=True)
class Credential:
    """A scheme, and the hosts that it may be sent to."""

    name: str
    hosts: tuple[HostPattern, ...]
    scheme: Scheme
    allow_http: bool = False

    def why_not(self, url: Url) -> str:
        """Why it must not be sent there; empty: it may."""
        if not any(pattern.matches(url.host, url.port) for pattern in self.hosts):
            return f"the credential {self.name!r} is not for {url.authority}"
        if url.scheme != "https" and not self.allow_http:
            return f"the credential {self.name!r} goes over https alone"
        return ""


Credentials = Mapping[str, Credential]

_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "bearer": ("token",),
    "basic": ("username", "password"),
    "header": ("name", "value"),
    "hmac": ("key_id", "secret"),
    "oidc": ("token_url", "client_id", "client_secret"),
}
_MORE: Final[Mapping[str, tuple[str, ...]]] = {"oidc": ("scope", "audience", "client_auth")}
_COMMON: Final = ("kind", "hosts", "allow_http")
_SECRETS: Final = ("token", "password", "value", "secret", "client_secret")


def load(path: Path, environ: Mapping[str, str]) -> dict[str, Credential]:
    """Reads a file of credentials. Raises InvalidArgument, or FailedPrecondition when others may write or read it."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidArgument.field(
            "--credentials", f"expected a readable file, found {str(path)!r} ({error.strerror})"
        ) from None
    if len(data) > FILE_BYTES_MAX:
        raise InvalidArgument.field("--credentials", f"expected at most {FILE_BYTES_MAX} bytes, found more")
    try:
        document = tomllib.loads(data.decode())
    except ValueError as error:
        # A parser's message may quote a line with a secret.
        place = re.search(r"\(at [^)]*\)$", str(error))
        where = f" {place[0]}" if place else ""
        raise InvalidArgument.field("--credentials", f"expected TOML, found otherwise{where}") from None
    found, literal = read(document, environ)
    if mode & 0o022 or (literal and mode & 0o077):
        what = "with secrets in it that only its owner can read" if literal else "that only its owner can write"
        raise FailedPrecondition(
            f"{path}: expected a file {what}, found mode {mode & 0o777:o}; chmod 600 it"
            + (", or name the secrets by env: or file:" if literal else "")
        )
    return found


def read(document: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[dict[str, Credential], bool]:
    """The credentials of a document, and whether any secret stands in it. Raises InvalidArgument."""
    problems = Problems()
    found: dict[str, Credential] = {}
    reader = _Reader(problems, environ)
    for name, given in document.items():
        if not _NAME.fullmatch(name):
            problems.add(name[:80], "expected letters, digits and ._- as a name, found others; rename it")
        elif not isinstance(given, dict):
            problems.add(
                name, f'expected a table, found {json_kind(given)}; write [{name}] and kind = "bearer" below it'
            )
        else:
            credential = reader.credential(name, given)
            if credential is not None:
                found[name] = credential
    problems.raise_any()
    return found, reader.literal


class _Reader:
    def __init__(self, problems: Problems, environ: Mapping[str, str]) -> None:
        self._problems = problems
        self._environ = environ
        self.literal = False

    def credential(self, name: str, given: Mapping[str, Any]) -> Credential | None:
        scheme = given.get("kind")
        if not isinstance(scheme, str) or scheme not in _KEYS:
            what = shown(scheme, 20) if isinstance(scheme, str) else "none"
            self._problems.add(f"{name}.kind", f"expected one of {', '.join(_KEYS)}, found {what}; correct it")
            return None
        known = (*_COMMON, *_KEYS[scheme], *_MORE.get(scheme, ()))
        for key in given:
            if key not in known:
                self._problems.add(f"{name}.{key[:80]}", f"no such key; {suggestion(key, known)}")
        hosts = self._hosts(name, given)
        allow_http = given.get("allow_http", False)
        if not isinstance(allow_http, bool):
            self._problems.add(
                f"{name}.allow_http", f"expected true or false, found {json_kind(allow_http)}; correct it"
            )
        made = self._scheme(name, scheme, given)
        return Credential(name, hosts, made, allow_http is True) if made is not None else None

    def _scheme(self, name: str, scheme: str, given: Mapping[str, Any]) -> Scheme | None:
        texts = {key: self._text(f"{name}.{key}", given.get(key)) for key in _KEYS[scheme] if key not in _SECRETS}
        secrets = {key: self._secret(f"{name}.{key}", given.get(key)) for key in _KEYS[scheme] if key in _SECRETS}
        if None in texts.values() or None in secrets.values():
            return None
        text = {key: value or "" for key, value in texts.items()}
        secret = next(value for value in secrets.values() if value is not None)
        if scheme == "bearer":
            return Bearer(secret)
        if scheme == "basic":
            if ":" in text["username"]:
                self._problems.add(f"{name}.username", "expected no colon, found one; HTTP has no way to send it")
            return Basic(text["username"], secret)
        if scheme == "header":
            low = text["name"].lower()
            if not _HEADER.fullmatch(low) or low in OWN_HEADERS | CONNECTION_HEADERS:
                self._problems.add(f"{name}.name", "expected a header that is free for it, found another; correct it")
            return Header(text["name"].lower(), secret)
        if scheme == "hmac":
            if not _KEY_ID.fullmatch(text["key_id"]):
                self._problems.add(f"{name}.key_id", "expected letters, digits and ._:/-, found others; rename it")
            return Hmac(text["key_id"], secret)
        return self._oidc(name, given, text, secret)

    def _oidc(self, name: str, given: Mapping[str, Any], text: Mapping[str, str], secret: Secret) -> Oidc | None:
        try:
            url = parse_url(text["token_url"], f"{name}.token_url")
        except InvalidArgument as error:
            for violation in error.violations:
                self._problems.add(violation.field, violation.description)
            return None
        if url.scheme != "https" and given.get("allow_http") is not True:
            self._problems.add(f"{name}.token_url", "expected https, found http; correct it, or say allow_http = true")
        more = {key: self._text(f"{name}.{key}", given[key]) or "" for key in _MORE["oidc"] if key in given}
        client_auth = more.get("client_auth", "basic")
        if client_auth not in ("basic", "post"):
            self._problems.add(f"{name}.client_auth", f"expected basic or post, found {shown(client_auth)}; correct it")
        return Oidc(
            url, text["client_id"], secret, more.get("scope", ""), more.get("audience", ""), client_auth == "post"
        )

    def _hosts(self, name: str, given: Mapping[str, Any]) -> tuple[HostPattern, ...]:
        hosts = given.get("hosts")
        if not isinstance(hosts, list) or not hosts or not all(isinstance(host, str) for host in hosts):
            self._problems.add(
                f"{name}.hosts",
                'expected the hosts it may be sent to, found none; write hosts = ["api.example.com"]',
            )
            return ()
        found = []
        for index, host in enumerate(hosts):
            try:
                found.append(HostPattern.parse(host, f"{name}.hosts[{index}]"))
            except InvalidArgument as error:
                for violation in error.violations:
                    self._problems.add(violation.field, violation.description)
        return tuple(found)

    def _text(self, at: str, value: Any) -> str | None:
        if not isinstance(value, str) or not value:
            what = "none" if value is None or value == "" else json_kind(value)
            self._problems.add(at, f"expected a text, found {what}; write it in quotes")
            return None
        if _CONTROL.search(value):
            self._problems.add(at, "expected no control characters, found some; remove them")
            return None
        return value

    def _secret(self, at: str, value: Any) -> Secret | None:
        text = self._text(at, value)
        if text is None:
            return None
        source, _, rest = text.partition(":")
        if source == "env":
            found = self._environ.get(rest, "")
            if not found or _CONTROL.search(found):
                what = "one with control characters" if found else "none"
                self._problems.add(at, f"expected a secret in the environment as {rest[:80]}, found {what}; set it")
                return None
            return Secret(found)
        if source == "file":
            secret = Secret("", str(Path(rest).expanduser()))
            try:
                secret.read()
            except SecretMissing as error:
                self._problems.add(at, f"{error}; correct it")
                return None
            return secret
        self.literal = True
        return Secret(text)


def basic(username: str, password: str) -> str:
    """The value of an Authorization header."""
    return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"
