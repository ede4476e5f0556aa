"""Which addresses a call may go to: public ones, and what the operator allows.

What decides is the address that a connection is made to, never the spelling of a host: 0x7f.1, 2130706433 and
[::ffff:127.0.0.1] all end up as addresses.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final

from rota.domain.text import refusal

Address = IPv4Address | IPv6Address

_NAT64: Final = ip_network("64:ff9b::/96")
_COMPATIBLE: Final = ip_network("::/96")
_GLOBAL: Final = ip_network("2000::/3")
_ISATAP: Final = 0x5EFE
_CLOSED: Final = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
        # Public by its number, and yet a cloud's inside: Azure's agent and metadata.
        "168.63.129.16/32",
        "2001::/23",
        "2001:db8::/32",
        "3fff::/20",
    )
)

CLOSED_PORTS: Final = frozenset(
    {1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110}
    | {111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 445, 465, 512, 513, 514, 515, 526, 530}
    | {531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 2375, 2376, 2379}
    | {3306, 3389, 3659, 4045, 4190, 5060, 5061, 5432, 6000, 6379, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697}
    | {10080, 10250, 11211, 27017}
)
"""Other services that would take an HTTP call for one of theirs: those of the Fetch standard, and databases."""

_HOST: Final = re.compile(r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*")


@dataclass(frozen=True, slots=True)
class HostPattern:
    """host, *.domain (whatever is below it), each perhaps with :port."""

    host: str
    port: int | None = None

    @classmethod
    def parse(cls, text: str, field: str) -> "HostPattern":
        """Raises InvalidArgument."""
        host, port = text, ""
        if text.startswith("["):
            host, _, port = text[1:].partition("]")
            port = port.removeprefix(":")
        elif text.count(":") == 1:
            host, _, port = text.partition(":")
        host = host.lower().removesuffix(".")
        known = _HOST.fullmatch(host) or (":" in host and _address(host) is not None)
        if not known or (port and not (port.isdecimal() and 1 <= int(port) <= 65_535)):
            raise refusal(
                field,
                text,
                "a host such as api.example.com, *.example.com or host:8443",
                "correct it, without a scheme",
            )
        return cls(host, int(port) if port else None)

    def matches(self, host: str, port: int) -> bool:
        if self.port is not None and self.port != port:
            return False
        if self.host.startswith("*."):
            return host.endswith(self.host[1:])
        return host == self.host


@dataclass(frozen=True, slots=True)
class AllowList:
    """Inside targets that may be called all the same: hosts by name, whatever they resolve to, and networks."""

    hosts: tuple[HostPattern, ...] = ()
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    @classmethod
    def parse(cls, texts: Iterable[str], field: str = "--allow") -> "AllowList":
        """Of host, host:port, *.domain, address or network (10.0.0.0/8). Raises InvalidArgument."""
        hosts, networks = [], []
        for text in texts:
            if ("/" in text and "://" not in text) or _address(text) is not None:
                try:
                    networks.append(ip_network(text))
                except ValueError as error:
                    raise refusal(field, text, f"a network such as 10.0.0.0/8 ({error})", "correct it") from None
            else:
                hosts.append(HostPattern.parse(text, field))
        return cls(tuple(hosts), tuple(networks))

    def host(self, host: str, port: int) -> bool:
        """Whether this name may be called at this port, at whatever address."""
        return any(pattern.matches(host, port) for pattern in self.hosts)

    def why_not(self, address: Address, port: int) -> str:
        """Why an address must not be called; empty: it may."""
        for form in {address, unwrapped(address)}:
            if any(form in network for network in self.networks if network.version == form.version):
                return ""
        if not is_public(address):
            return f"{address} is not a public address"
        if port in CLOSED_PORTS:
            return f"port {port} is that of another service"
        return ""


def is_public(address: Address) -> bool:
    """Whether it belongs to the internet, and not to this machine, its networks or nobody."""
    inner = unwrapped(address)
    if isinstance(inner, IPv6Address) and inner not in _GLOBAL:
        return False
    if inner is not address and isinstance(address, IPv6Address) and not _carries_public(address):
        return False
    if any(inner in network for network in _CLOSED if network.version == inner.version):
        return False
    return inner.is_global and not (inner.is_multicast or inner.is_reserved or inner.is_unspecified)


def unwrapped(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for: mapped, compatible, NAT64, 6to4, Teredo, ISATAP. Else itself."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.teredo is not None:
        return address.teredo[1]
    if address.sixtofour is not None:
        return address.sixtofour
    low = int(address) & 0xFFFF_FFFF
    if address in _NAT64 or (address in _COMPATIBLE and low > 1):
        return IPv4Address(low)
    if int(address) >> 32 & 0xFFFF == _ISATAP and int(address) >> 48 & 0xFDFF == 0:
        return IPv4Address(low)
    return address


def _carries_public(address: IPv6Address) -> bool:
    # The only form by which a public host is reached in earnest; the others are tunnels that nobody needs.
    return address in _NAT64 or address.ipv4_mapped is not None


def _address(text: str) -> Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
