"""Commands run without a coordinator: a lease that a test hands out, and what becomes of it. And runners as processes
of their own."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio
from rota_sdk import Client, Stop

from rota.clock import SystemClock
from rota.targets.exec import Commands
from rota.targets.warden import Warden, alive

from ..harness import CoordinatorProcess, Process, clean_environment

GRACE_S = 0.6

StartRunner = Callable[..., Process]


class Lease:
    """What a command's handler asks of a lease."""

    job = "jobs/019ad0b2-7c1e-7aaa-8bbb-0123456789ab"
    attempt = 2
    fence = 4294967298
    effect_key = "default/019ad0b2/0"
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    due_time = datetime(2026, 11, 30, 8, 15, tzinfo=UTC)

    def __init__(self, **document: Any) -> None:
        self.data = json.dumps(document).encode()
        self.schedule = ""
        self.nominal_time: datetime | None = None
        self.remaining_s = 60.0
        self.stop_reason: Stop | None = None
        self._stopped = asyncio.Event()

    def stop(self, reason: Stop) -> None:
        self.stop_reason = reason
        self._stopped.set()

    async def until_cancelled(self) -> bool:
        return await self._stopped.wait()

    def remaining(self) -> float:
        return self.remaining_s


class Bench:
    """A runner of commands, and those that run on it."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.warden = Warden(GRACE_S)
        self.commands = Commands(environment, self.warden, SystemClock(), grace_s=GRACE_S)

    def begin(self, lease: Lease) -> "asyncio.Task[Any]":
        return asyncio.create_task(self.commands.handle(lease))  # type: ignore[arg-type]

    async def result(self, **document: Any) -> dict[str, Any]:
        """The result of a command that succeeds."""
        payload = await self.begin(Lease(**document))
        assert payload.content_type == "application/json"
        assert len(payload.data) <= 64 * 1024
        return dict(payload.json())

    async def output(self, **document: Any) -> str:
        return str((await self.result(**document))["output"])

    async def failure(self, error: type[BaseException], **document: Any) -> Any:
        """What a command that does not succeed ends with."""
        with pytest.raises(error) as caught:
            await self.begin(Lease(**document))
        return caught.value


@pytest.fixture(autouse=True)
def short_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.targets.exec.LINGER_S", 0.3)


@pytest_asyncio.fixture
async def bench() -> AsyncIterator[Bench]:
    """A runner of commands; at its end none may be left."""
    made = Bench({"PATH": os.environ["PATH"], "HOME": "/", "ROTA_API_KEY": "secret", "INHERITED": "yes"})
    yield made
    made.commands.hurry()
    await made.commands.close()
    assert made.warden._groups == set()
    made.warden.close()


@pytest.fixture
def start_runner(
    request: pytest.FixtureRequest, coordinator: CoordinatorProcess, tmp_path: Path
) -> Iterator[StartRunner]:
    """Starts runners as the module's RUNNER says; each is killed at the end."""
    with ExitStack() as stack:

        def start(*options: str, **environment: str) -> Process:
            environment = clean_environment() | {
                "ROTA_ADDRESS": coordinator.address,
                "ROTA_API_KEY": coordinator.key,
                "ROTA_HOME": str(tmp_path / "home"),
                **environment,
            }
            argv = [sys.executable, "-m", "rota", *request.module.RUNNER, *options]
            process = Process(argv, environment, tmp_path / f"runner-{time.monotonic_ns()}.log")
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture
def client(coordinator: CoordinatorProcess) -> Iterator[Client]:
    with coordinator.client() as connected:
        yield connected


async def pid_in(file: Path, within_s: float = 10.0) -> int:
    """The pid that a command writes into a file once it is ready."""
    async with asyncio.timeout(within_s):
        while not (file.exists() and file.read_text().endswith("\n")):
            await asyncio.sleep(0.02)
    return int(file.read_text())


async def gone(group: int, within_s: float = 10.0) -> None:
    """Waits until nothing of a process group is left."""
    async with asyncio.timeout(within_s):
        while alive(group):
            await asyncio.sleep(0.02)


def runs(pid: int) -> bool:
    """Whether a process is there and not dead already."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
