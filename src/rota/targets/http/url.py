"""URLs as the target calls them: http and https, a host in ASCII, and nothing that two readers read differently."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from rota.domain.errors import InvalidArgument
from rota.domain.text import shown

CHARS_MAX: Final = 8 * 1024
PORTS: Final = {"http": 80, "https": 443}

_NAME: Final = re.compile(r"(?=.{1,253}\.?$)[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_-]{1,63})*\.?")
_SIX: Final = re.compile(r"[0-9a-f:.]{2,45}")
_NEVER: Final = re.compile(r"[\x00-\x20\x7f\\\ud800-\udfff]")
_KEPT: Final = "%/?:@!$&'()*+,;=-._~[]"


@dataclass(frozen=True, slots=True)
class Url:
    """Where a call goes. `host` is lower case, without brackets and without a dot at its end."""

    scheme: str
    host: str
    port: int
    target: str
    """Path and query as they are sent."""

    @property
    def authority(self) -> str:
        """As the Host header has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def shown(self) -> str:
        """For logs, traces and failures: without the query, which may hold what is nobody's business."""
        return f"{self.origin}{self.target.partition('?')[0]}"


def parse_url(text: str, field: str = "url") -> Url:
    """Reads an absolute URL; a fragment is dropped. Raises InvalidArgument."""

    def refuse(expected: str, remedy: str) -> InvalidArgument:
        # The text may hold a password or a token.
        return InvalidArgument.field(field, f"expected {expected}; {remedy}")

    if len(text) > CHARS_MAX:
        raise refuse(f"at most {CHARS_MAX} characters, found {len(text)}", "send the data in the body")
    if _NEVER.search(text):
        raise refuse(
            "no blanks, control characters, backslashes or lone surrogates, found some",
            "write them as %20 and the like",
        )
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise refuse(f"a URL, found otherwise ({error})", "write it as https://host/path") from None
    if parts.scheme not in PORTS or not text[len(parts.scheme) :].startswith("://"):
        found = shown(parts.scheme or text.partition("/")[0], 20)
        raise refuse(f"http:// or https://, found {found}", "write it as https://host/path")
    if "@" in parts.netloc:
        raise refuse("no user or password in it, found one", "name a credential in auth instead")
    if port == 0:
        raise refuse("a port from 1 to 65535, found 0", "correct it")
    host = _host(parts.netloc, parts.hostname or "", refuse)
    path = quote(parts.path or "/", safe=_KEPT)
    query = f"?{quote(parts.query, safe=_KEPT)}" if parts.query else ""
    return Url(parts.scheme, host, port or PORTS[parts.scheme], path + query)


def join_url(base: Url, location: str) -> Url:
    """Where a redirect leads. Raises InvalidArgument."""
    try:
        text = urljoin(base.origin + base.target, location.strip(" \t"))
    except ValueError as error:
        raise InvalidArgument.field("Location", f"expected a URL, found otherwise ({error})") from None
    return parse_url(text, "Location")


def _host(netloc: str, host: str, refuse: "object") -> str:
    assert callable(refuse)
    remedy = "write it as https://host/path"
    if netloc.startswith("["):
        if not _SIX.fullmatch(host):
            raise refuse(f"an IPv6 address in brackets, found {shown(host)}", remedy)
        return host
    if not host.isascii():
        # Costly to import, and seldom needed.
        import idna

        try:
            host = idna.encode(host, uts46=True).decode()
        except idna.IDNAError as error:
            raise refuse(f"a host name, found {shown(host)} ({error})", remedy) from None
    if not _NAME.fullmatch(host):
        raise refuse(f"a host name or address, found {shown(host)}", remedy)
    return host.removesuffix(".")
