"""A command line run in this process."""

import json
import os
from collections.abc import Iterator
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import grpc
import pytest
from rota_sdk.gen.rota.admin.v1 import admin_pb2_grpc
from rota_sdk.gen.rota.v1 import jobs_pb2_grpc, schedules_pb2_grpc

from rota.cli.main import main
from tests.cli.operated import Operated
from tests.cli.scheduler import Scheduler
from tests.cli.script import Coordinator, job


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty ROTA_HOME, and nothing of the caller's environment."""
    for name in [name for name in os.environ if name.startswith(("ROTA_", "OTEL_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ROTA_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@dataclass
class Ran:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)

    @property
    def documents(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> Any:
        assert self.out == "", self.out
        return json.loads(self.err)["error"]


@pytest.fixture
def rota(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `rota` with arguments; its exit code and what it printed."""

    def run(*arguments: object) -> Ran:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ran(int(code), captured.out, captured.err)

    return run


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Coordinator]:
    """A scripted coordinator on loopback, at which ROTA_ADDRESS points."""
    yield from _served(Coordinator(jobs=[job()]), monkeypatch)


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scheduler]:
    """The same with schedules and calendars."""
    yield from _served(Scheduler(jobs=[job()]), monkeypatch)


@pytest.fixture
def operated(monkeypatch: pytest.MonkeyPatch) -> Iterator[Operated]:
    """The same with queues and tenants."""
    yield from _served(Operated(jobs=[job()]), monkeypatch)


C = TypeVar("C", bound=Coordinator)


def _served(scripted: C, monkeypatch: pytest.MonkeyPatch) -> Iterator[C]:
    server = grpc.server(futures.ThreadPoolExecutor(4))
    jobs_pb2_grpc.add_JobServiceServicer_to_server(scripted, server)
    admin_pb2_grpc.add_AdminServiceServicer_to_server(scripted, server)
    if isinstance(scripted, Scheduler):
        schedules_pb2_grpc.add_ScheduleServiceServicer_to_server(scripted, server)
        schedules_pb2_grpc.add_CalendarServiceServicer_to_server(scripted, server)
    scripted.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    monkeypatch.setenv("ROTA_ADDRESS", scripted.address)
    yield scripted
    server.stop(None).wait()
