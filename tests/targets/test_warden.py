"""The process that ends commands when their runner is killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from rota.targets.warden import Warden

from .conftest import gone

GRACE_S = 0.4
SLEEP = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)",
]


@pytest.fixture
def warden() -> Iterator[Warden]:
    made = Warden(GRACE_S)
    yield made
    made.close()
    made._process.wait(10)


def start(argv: list[str]) -> "subprocess.Popen[bytes]":
    """A process in a group of its own, once it is ready."""
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"\n"
    return process


def test_what_is_left_when_the_pipe_ends_is_ended(warden: Warden) -> None:
    gentle, stubborn, released = start(SLEEP), start(STUBBORN), start(SLEEP)
    for process in (gentle, stubborn, released):
        warden.add(process.pid)
    warden.discard(released.pid)
    warden.close()
    assert gentle.wait(10) == -signal.SIGTERM
    assert stubborn.wait(10) == -signal.SIGKILL
    assert warden._process.wait(10) == 0
    assert released.poll() is None
    released.kill()
    released.wait()


def test_it_heeds_no_signal_that_is_meant_for_the_runner(warden: Warden) -> None:
    process = start(SLEEP)
    warden.add(process.pid)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(warden.pid, number)
    assert process.poll() is None
    warden.close()
    assert process.wait(10) == -signal.SIGTERM


def test_one_that_was_killed_is_replaced_and_told_of_everything(warden: Warden) -> None:
    first, second = start(SLEEP), start(SLEEP)
    warden.add(first.pid)
    os.kill(warden.pid, signal.SIGKILL)
    os.waitid(os.P_PID, warden.pid, os.WEXITED | os.WNOWAIT)
    warden.add(second.pid)
    warden.close()
    assert (first.wait(10), second.wait(10)) == (-signal.SIGTERM, -signal.SIGTERM)


async def test_a_killed_runner_leaves_nothing() -> None:
    """A stand-in for the runner, killed with -9 while a command runs."""
    script = (
        "import subprocess, sys, time\n"
        "from rota.targets.warden import Warden\n"
        f"warden = Warden({GRACE_S})\n"
        "child = subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        "warden.add(child.pid)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    runner = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert runner.stdout is not None
    with runner.stdout:
        group = int(runner.stdout.readline())
    runner.kill()
    runner.wait()
    await gone(group)
