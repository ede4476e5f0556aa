"""A minute of chaos, as `make chaos` makes ten: nothing is lost, nothing is doubled, and nothing is left behind."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
SEED = "a-minute"


def chaos(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.chaos", "--folder", str(folder), "--json", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def left_behind(folder: Path) -> list[str]:
    """Processes that still name the run's folder."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        words = " ".join(process.info["cmdline"] or ())
        if str(folder) in words and process.pid != psutil.Process().pid:
            found.append(words)
    return found


@pytest.mark.timeout(420)
def test_a_minute_of_chaos_loses_and_doubles_nothing(tmp_path: Path) -> None:
    run = chaos(tmp_path / "run", "--minutes", "1", "--seed", SEED)
    said, told = run.communicate(timeout=400)
    assert run.returncode == 0, told
    found = json.loads(said)
    assert (found["lost"], found["doubled"], found["wrong"]) == (0, 0, 0)
    assert found["jobs"] > 400
    assert found["effects"] >= found["succeeded"]
    assert found["faults"]["killed"] >= 2
    assert found["attempts_recovered"] >= 1
    assert left_behind(tmp_path / "run") == []


@pytest.mark.timeout(180)
def test_a_run_that_breaks_too_little_fails(tmp_path: Path) -> None:
    """And the floor is what tells, not a crash."""
    run = chaos(tmp_path / "run", "--minutes", "0.02", "--seed", SEED)
    said, told = run.communicate(timeout=170)
    assert run.returncode == 1, told
    assert said, told
    assert json.loads(said)["wrong"] >= 1
    assert "for this to mean anything" in told


@pytest.mark.timeout(180)
def test_an_interrupted_run_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = chaos(folder, "--minutes", "5", "--seed", SEED)
    until = time.monotonic() + 90
    while not (folder / "faults.jsonl").exists() and time.monotonic() < until:
        time.sleep(0.2)
    assert left_behind(folder)
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=80)
    assert run.returncode == 130
    assert left_behind(folder) == []
