"""The coordinator of a run: as `rota serve` runs one, and at its end it says what it counted."""

import argparse
import asyncio
import json
import logging
import signal
from pathlib import Path
from typing import Any

import uvloop

from bench.profiler import profiled
from rota import bootstrap
from rota.config import Settings
from rota.telemetry import Telemetry


async def serve(settings: Settings, telemetry: Telemetry) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    assert settings.database_url is not None
    async with bootstrap.coordinator(settings, settings.database_url, telemetry) as (_, _, ready):
        say(address=ready.address)
        await stop.wait()


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--profile", type=Path)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    telemetry = Telemetry.off()
    with profiled(arguments.profile):
        uvloop.run(serve(Settings.load(), telemetry))
    say(metrics=telemetry.metrics.snapshot())


if __name__ == "__main__":
    main()
