"""The coordinator of a run: as `rota serve` runs one. At its end it says what it counted.

A profile begins at SIGUSR1, so that it shows the workload and not what went before.
"""

import argparse
import asyncio
import json
import logging
import signal
from pathlib import Path
from typing import Any

import uvloop

from bench.profiler import Profiler
from rota import bootstrap
from rota.config import Settings
from rota.telemetry import Metrics, Telemetry
from rota.telemetry_metrics import Counts


async def serve(settings: Settings, telemetry: Telemetry, profiler: Profiler) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGUSR1, profiler.start)
    assert settings.database_url is not None
    async with bootstrap.coordinator(settings, settings.database_url, telemetry) as (_, _, ready):
        bootstrap.calm_collector()
        say(address=ready.address)
        await stop.wait()


def buckets(metrics: Metrics, name: str) -> list[tuple[float, int]]:
    """A histogram as pairs of a bucket's upper end and its count; the last one's end is that before it."""
    found = next(reading for spec, reading in metrics.readings() if spec.name == name)
    assert isinstance(found, Counts)
    return list(zip((*found.bounds, found.bounds[-1]), found.buckets, strict=True))


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--profile", type=Path)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    telemetry = Telemetry.off()
    profiler = Profiler(arguments.profile)
    uvloop.run(serve(Settings.load(), telemetry, profiler))
    profiler.stop()
    say(metrics=telemetry.metrics.snapshot(), eligible=buckets(telemetry.metrics, "rota.lag.eligible"))


if __name__ == "__main__":
    main()
