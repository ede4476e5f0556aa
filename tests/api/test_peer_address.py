"""Where other coordinators are told to call: an address that they can reach, and that is listened at."""

import ipaddress
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from psycopg import AsyncConnection

from rota.api import peeraddress
from rota.api.peeraddress import reached_at
from rota.store.engine import Database

from .running import Running


@pytest.fixture
def routed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peeraddress, "_way_out", lambda version: "198.51.100.4" if version == 4 else "2001:db8::4")


@pytest.mark.parametrize(
    ("listens_at", "seen_from", "found"),
    [
        ("127.0.0.1", "10.0.0.5", "127.0.0.1:7"),
        ("localhost", None, "localhost:7"),
        ("[::1]", None, "[::1]:7"),
        ("10.0.0.9", "10.0.0.5", "10.0.0.9:7"),
        ("rota-0.example", "10.0.0.5", "rota-0.example:7"),
        ("0.0.0.0", "10.0.0.5", "10.0.0.5:7"),
        ("0.0.0.0", "127.0.0.1", "198.51.100.4:7"),
        ("0.0.0.0", None, "198.51.100.4:7"),
        ("0.0.0.0", "2001:db8::5", "198.51.100.4:7"),
        ("[::]", "2001:db8::5", "[2001:db8::5]:7"),
        ("[::]", "10.0.0.5", "10.0.0.5:7"),
        ("[::]", "::1", "[2001:db8::4]:7"),
    ],
)
def test_the_address_for_others(routed: None, listens_at: str, seen_from: str | None, found: str) -> None:
    assert reached_at(listens_at, 7, seen_from) == found


def test_the_way_out_is_an_address_or_a_name_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    host, _, port = reached_at("0.0.0.0", 7, None).rpartition(":")
    assert port == "7"
    if host != socket.gethostname():
        assert not ipaddress.IPv4Address(host).is_unspecified

    def unreachable(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(peeraddress.socket.socket, "connect", unreachable)
    assert reached_at("0.0.0.0", 7, None) == f"{socket.gethostname()}:7"


@pytest.mark.asyncio(loop_scope="session")
async def test_a_coordinator_tells_the_database_where_it_listens(
    start: Callable[..., Awaitable[Running]], rota: Running
) -> None:
    async def told(url: str) -> list[Any]:
        async with await AsyncConnection.connect(url) as conn:
            return await (await conn.execute("SELECT peer_address FROM coordinators")).fetchall()

    ((address,),) = await told(rota.url)
    host, _, port = address.rpartition(":")
    assert host == "127.0.0.1"
    assert address != rota.address
    with socket.create_connection((host, int(port)), timeout=2):
        pass
    named = await start(peer_advertise="rota-0.example:7071")
    assert await told(named.url) == [("rota-0.example:7071",)]


@pytest.mark.asyncio(loop_scope="session")
async def test_the_database_is_seen_from_an_address_of_this_machine(rota: Running) -> None:
    database = Database(rota.url)
    try:
        assert await database.writes.local_host() == "127.0.0.1"
    finally:
        await database.close()
