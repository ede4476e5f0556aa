"""How a runner leaves: at the first signal when what it runs has ended, at the second one at once."""

import logging
import signal
from collections.abc import Callable

from rota_sdk import Worker
from rota_sdk.signals import handled


async def serve(
    worker: Worker, log: logging.Logger, *, first: str, second: str, hurry: Callable[[], object] | None = None
) -> None:
    """Serves until a signal or the coordinator says otherwise. `first`, `second`: what the log says of the signals;
    `hurry` is called at the second one, in whatever thread that comes."""
    asked = False

    def on_signal() -> None:
        nonlocal asked
        if asked:
            log.warning("second signal: %s", second)
            if hurry is not None:
                hurry()
        else:
            log.info("signal: %s", first)
        worker.stop(at_once=asked)
        asked = True

    with handled((signal.SIGTERM, signal.SIGINT), on_signal):
        await worker.serve()
