"""A relay as a process: until a signal."""

import asyncio
import logging
import signal

from rota_sdk.signals import handled

from rota.clock import Clock
from rota.outbox import install
from rota.outbox.database import Connection, Place
from rota.outbox.relay import Relay, Totals
from rota.outbox.sender import Sender
from rota.outbox.table import Table

log = logging.getLogger(__name__)


async def serve(place: Place, clock: Clock, *, address: str | None, api_key: str | None, poll_s: float) -> Totals:
    """Relays until SIGTERM or SIGINT, then waits for what is on its way. Raises RotaError when the outbox cannot be
    served, at the start or later; a database or coordinator that is away for a while is waited for."""
    await asyncio.to_thread(install.check, place)
    connection, sender = Connection(place), Sender(address, api_key)
    relay = Relay(Table(connection), sender, clock, poll_s=poll_s)
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        loop.call_soon_threadsafe(relay.stop)

    log.info("relaying the outbox in schema %s of %s to %s", place.schema, place, sender.address)
    try:
        with handled((signal.SIGTERM, signal.SIGINT), on_signal):
            await relay.run()
    finally:
        await sender.close()
        await connection.close()
        log.info("%d jobs created, %d rows parked", relay.totals.created, relay.totals.parked)
    return relay.totals
