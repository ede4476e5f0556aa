"""A start that fails, as while the database is away, leaves nothing that the next try needs."""

import pytest

from rota import bootstrap
from rota.config import Settings
from rota.coordinator.node import Node
from rota.domain.errors import Unavailable
from rota.telemetry import Telemetry

from ..faults.tcp import free_port


async def test_the_addresses_are_free_for_the_next_try(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    listen, peer_listen = (f"127.0.0.1:{free_port()}" for _ in range(2))
    settings = Settings(database_url=database, listen=listen, peer_listen=peer_listen)

    async def fail(node: Node) -> None:
        raise Unavailable("the database has gone")

    for _ in range(2):
        with monkeypatch.context() as patched, pytest.raises(Unavailable):
            patched.setattr(Node, "start", fail)
            async with bootstrap.coordinator(settings, database, Telemetry.off()):
                pass
    async with bootstrap.coordinator(settings, database, Telemetry.off()) as (_, node, ready):
        assert ready.address == listen
        assert node.healthy()
