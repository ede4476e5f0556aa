"""Where other coordinators reach this process, when nobody has said it."""

import ipaddress
import socket
from contextlib import suppress
from typing import Final

# Reserved for documentation: never on any network, but the route to it is that to the world.
_FAR_AWAY: Final = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
_ANY_PORT: Final = 9


def reached_at(listens_at: str, port: int, database_seen_from: str | None) -> str:
    """The address of a listener for others.

    A listener at one host is reached there. One at all of them is reached at the address from which this machine
    reaches the database, as the others do too; where that is this machine itself, at its way out.
    """
    host = listens_at.strip("[]")
    address = _parsed(host)
    if address is not None and address.is_unspecified:
        seen = _parsed(database_seen_from or "")
        if seen is not None and not seen.is_loopback and (seen.version == 4 or address.version == 6):
            host = str(seen)
        else:
            host = _way_out(address.version)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _way_out(version: int) -> str:
    families = (socket.AF_INET,) if version == 4 else (socket.AF_INET, socket.AF_INET6)
    for family in families:
        # A datagram socket that is connected has a route, and sends nothing.
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((_FAR_AWAY[family], _ANY_PORT))
            return str(probe.getsockname()[0])
    return socket.gethostname()


def _parsed(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
