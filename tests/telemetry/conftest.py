"""Telemetry that goes to a real collector on loopback."""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from rota.telemetry import Telemetry, setup
from tests.otlp import OtlpReceiver

Start = Callable[..., Telemetry]


@pytest.fixture(autouse=True)
def logging_restored() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in (None, "rota", "rota_sdk", "opentelemetry")]
    before = [(list(logger.handlers), logger.level) for logger in loggers]
    yield
    for logger, (handlers, level) in zip(loggers, before, strict=True):
        logger.handlers[:] = handlers
        logger.setLevel(level)


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


@pytest.fixture
def start(receiver: OtlpReceiver) -> Iterator[Start]:
    """Starts telemetry that goes to `receiver`, and ends it with the test."""
    with ExitStack() as ends:

        def start(**changed: Any) -> Telemetry:
            settings: dict[str, Any] = {
                "endpoint": receiver.endpoint,
                "instance_id": "c-1",
                "version": "0.1.0",
                "trace_ratio": 1.0,
                "log_level": "info",
                "log_format": "json",
            }
            telemetry = setup(**(settings | changed))
            ends.callback(telemetry.shutdown, 5.0)
            return telemetry

        yield start


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]
