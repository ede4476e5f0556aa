"""Processes of `rota dev`: stopped when asked, ended when we die, heard when they complain."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from rota.cli.child import Child

STUBBORN = """
import signal, sys, threading
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
threading.Event().wait()
"""
POLITE = """
import signal, sys, threading
done = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: done.set())
print(sys.argv[1:], repr(sys.stdin.read()), flush=True)
print("a complaint", file=sys.stderr, flush=True)
done.wait()
if sys.argv[1:]:
    open(sys.argv[1], "w").write("drained")
sys.exit(7)
"""


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "program.py"
        path.write_text(text)
        return str(path)

    return write


def start(tmp_path: Path, *command: str, stop_timeout_s: float = 10.0) -> Child:
    return Child("program", command, os.environ, log=tmp_path / "log", stop_timeout_s=stop_timeout_s)


def test_a_polite_program_drains(tmp_path: Path, script: Callable[[str], str]) -> None:
    drained = tmp_path / "drained"
    with start(tmp_path, script(POLITE), str(drained), "b") as child:
        # Its stdin is empty: the pipe to us is the watcher's alone.
        assert child.first_line(20) == f"['{drained}', 'b'] ''"
    assert child.exit_code() == 7
    assert child.last_words() == ["a complaint"]
    assert (tmp_path / "log").read_text() == "a complaint\n"


def test_a_stubborn_program_is_killed(tmp_path: Path, script: Callable[[str], str]) -> None:
    child = start(tmp_path, script(STUBBORN), stop_timeout_s=0.2)
    assert child.first_line(20) == "up"
    child.stop()
    assert child.exit_code() == -signal.SIGKILL


def test_a_program_that_ends_early_is_told_from_a_silent_one(tmp_path: Path, script: Callable[[str], str]) -> None:
    with start(tmp_path, script("raise SystemExit('no luck')")) as child:
        assert child.first_line(20) is None
        assert (child.exit_code(), child.last_words()) == (1, ["no luck"])
    silent = start(tmp_path, script(STUBBORN.replace('print("up", flush=True)', "")), stop_timeout_s=0.1)
    with silent, pytest.raises(TimeoutError, match=r"the program said nothing for 0\.1 s"):
        silent.first_line(0.1)


def test_a_module_runs_too_and_the_current_folder_hides_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "typer.py").write_text("raise SystemExit('the wrong typer')")
    monkeypatch.chdir(tmp_path)
    with start(tmp_path, "rota", "--version") as child:
        assert child.first_line(20) == "rota 0.1.0"


@pytest.mark.parametrize(("program", "drains"), [(POLITE, True), (STUBBORN, False)])
def test_nothing_outlives_its_parent(program: str, drains: bool, tmp_path: Path, script: Callable[[str], str]) -> None:
    drained = tmp_path / "drained"
    parent = f"""
import os, threading
from pathlib import Path
from rota.cli import child
child.LEASH_GRACE_S = 0.2
log = Path({str(tmp_path / "log")!r})
started = child.Child("program", [{script(program)!r}, {str(drained)!r}], os.environ, log=log, stop_timeout_s=1)
started.first_line(20)
print(started.pid, flush=True)
threading.Event().wait()
"""
    process = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child = psutil.Process(int(process.stdout.readline()))
    process.kill()
    process.wait()
    process.stdout.close()
    gone, _ = psutil.wait_procs([child], timeout=15)
    # Nobody may be there to collect it: then it stays as a zombie, which runs no more.
    assert gone or child.status() == psutil.STATUS_ZOMBIE
    assert drained.exists() == drains


def test_what_is_not_routine_is_shown(
    tmp_path: Path, script: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        "2026-11-30T08:15:00.000Z INFO    rota.x: routine",
        '{"level": "DEBUG", "message": "routine"}',
        '{"error": {"reason": "told by us"}}',
        "2026-11-30T08:15:00.000Z WARNING rota.x: look",
        "Traceback (most recent call last):",
    ]
    program = f"import sys\nfor line in {lines!r}:\n    print(line, file=sys.stderr)"
    with start(tmp_path, script(program)) as child:
        assert child.first_line(20) is None
    assert capsys.readouterr().err.splitlines() == lines[3:]
    assert (tmp_path / "log").read_text().splitlines() == lines
