"""`rota dev` as a new user meets it: real processes, a real database, the real SDK."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
START_S = 60
pytestmark = pytest.mark.timeout(300)
LATE_S = 3
"""Half of all fires start their command within this span of their due time, on a busy machine too."""

STOP_S = 60


class Dev:
    """A `rota dev` in a home of its own."""

    def __init__(self, home: Path, *options: str) -> None:
        self.home = home
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("ROTA_", "OTEL_"))}
        self.environment["ROTA_HOME"] = str(home)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rota", "dev", "--listen", "127.0.0.1:0", *options],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.said = ""

    def ready(self) -> "Dev":
        """Waits for the invitation to go on in a second terminal."""
        self.until(r"^Ctrl-C stops everything\.")
        found = re.search(r"^Rota serves at (\S+)$", self.said, re.MULTILINE)
        assert found, self.said
        self.environment["ROTA_ADDRESS"] = found[1]
        return self

    def until(self, pattern: str) -> None:
        """Reads on to a line in which this is found, or to the end."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line
            if re.search(pattern, line):
                break

    def family(self) -> list[psutil.Process]:
        """Every process of it, itself left out."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def rota(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """A command in the second terminal."""
        return subprocess.run(
            [sys.executable, "-m", "rota", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def told(self, *arguments: str) -> Any:
        """The one JSON document of a command that succeeds."""
        done = self.rota(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def stop(self, number: int = signal.SIGINT) -> int:
        """Ctrl-C; the exit code."""
        self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=STOP_S)
        self.said += rest
        return self.process.returncode


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    """A `rota dev` for the tests that leave it as it is."""
    dev = Dev(tmp_path_factory.mktemp("running")).ready()
    yield dev
    assert dev.stop() == 0, dev.said


def readme(language: str, begin: str) -> str:
    """The first block of the README that begins so."""
    found = re.search(rf"^```{language}\n({re.escape(begin)}.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    assert found, begin
    return found[1]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Dev]]:
    started: list[Dev] = []

    def begin(*options: str, home: Path | None = None) -> Dev:
        started.append(Dev(home or tmp_path / "home", *options))
        return started[-1]

    yield begin
    for dev in started:
        if dev.process.poll() is None:
            dev.process.kill()
            dev.process.wait()
        if dev.process.stdout is not None:
            dev.process.stdout.close()


def first_words(text: str) -> list[str]:
    """What stands at the left of each line."""
    return [re.split(" {2,}", line)[0] for line in text.splitlines() if line]


def summary_of(said: str) -> Any:
    """The last line of stdout; a child may still have its say on stderr, which is mixed in here."""
    [line] = [line for line in said.splitlines() if line.startswith('{"created": ')]
    return json.loads(line)


def assert_gone(family: list[psutil.Process], timeout_s: float) -> None:
    _, left = psutil.wait_procs(family, timeout=timeout_s)
    assert [p for p in left if p.is_running() and p.status() != psutil.STATUS_ZOMBIE] == []


def test_the_examples_run_by_themselves_and_lose_nothing(start: Any) -> None:
    dev = start("--ephemeral", "--examples", str(ROOT / "examples"), "--for", "11s", "--json")
    said, _ = dev.process.communicate(timeout=110)
    assert dev.process.returncode == 0, said
    summary = summary_of(said)
    keys = ["created", "succeeded", "failed_attempts", "dead", "lost", "p50_ms", "p99_ms", "schedules"]
    assert list(summary) == keys
    assert summary["lost"] == 0
    assert summary["dead"] >= 2
    assert summary["succeeded"] + summary["dead"] == summary["created"]
    # Each flaky job fails twice before it succeeds, each broken one three times.
    assert summary["failed_attempts"] >= 5
    assert 0 <= summary["p50_ms"] <= summary["p99_ms"]
    # Two of heartbeat, one of berlin-time, one of slow-sum at least.
    schedules = summary["schedules"]
    assert (schedules["count"], schedules["lost"], schedules["failed"], schedules["unchecked"]) == (9, 0, 0, 0)
    assert schedules["due"] == schedules["fired"] + sum(schedules["not_fired"].values())
    assert schedules["fired"] >= 4
    assert 0 < schedules["on_time"] <= schedules["fired"]
    assert schedules["p50_s"] < LATE_S
    assert schedules["p50_s"] <= schedules["max_s"]
    assert "the crontab's first fire comes at " in said
    assert re.search(r"heartbeat  FIRED  \S+Z, started .* after it, SUCCEEDED: \d{4}-", said)
    assert not (dev.home / "dev").exists()


SCHEDULES = """
calendars: {off: [--12-24]}
schedules:
  often: {every: 2s, command: "echo so often as attempt $ROTA_ATTEMPT"}
  clock: {cron: "*/2 * * * * *", timezone: Asia/Kathmandu, exclude: {calendars: [off]}, command: [date]}
  calendar: {rrule: FREQ=SECONDLY;INTERVAL=3, command: [date]}
  hashed: {cron: "H/20 * * * * *", jitter: 3s, command: [date]}
  slow: {every: 1s, overlap: skip, command: sleep 2}
"""


def test_schedules_fire_on_time_and_a_second_run_changes_nothing(start: Any, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "billing.yaml").write_text(SCHEDULES)
    (folder / "crontab").write_text("CRON_TZ=Europe/Berlin\n30 2 * * * date\n")
    first = start("--examples", str(folder), "--for", "8s", "--json")
    said, _ = first.process.communicate(timeout=110)
    assert first.process.returncode == 0, said
    assert f"{folder}/billing.yaml  5 schedules; 6 created" in said
    assert re.search(r"the crontab's first fire comes at \S+30:00Z, in \d+ .*, after this run", said)
    assert re.search(r"often  FIRED  \S+Z, started .* after it, SUCCEEDED: so often as attempt 1", said)
    assert re.search(r"slow  SKIPPED_OVERLAP  \S+Z: an earlier job", said)
    schedules = summary_of(said)["schedules"]
    assert (schedules["lost"], schedules["failed"], schedules["unchecked"]) == (0, 0, 0)
    assert schedules["not_fired"].keys() == {"SKIPPED_OVERLAP"}
    assert schedules["fired"] >= 3 + 3 + 2 + 2
    assert schedules["p50_s"] < LATE_S

    again = start("--examples", str(folder)).ready()
    again.until("the crontab's first fire comes at")
    assert "5 schedules; nothing changes (6 as before)" in again.said
    assert "1 schedules; nothing changes (1 as before)" in again.said
    again.until(r"often  FIRED  \S+Z, started")
    shown = [json.loads(line) for line in again.rota("schedule", "list", "--json").stdout.splitlines()]
    assert [schedule["version"] for schedule in shown] == [1] * 6
    assert again.rota("schedule", "pause", "slow").returncode == 0
    family = again.family()
    assert again.stop() == 0, again.said
    assert re.search(r"^schedules 6, due \d+, fired [1-9]\d*, .*lost 0$", again.said, re.MULTILINE)
    assert "1 schedules were not checked: changed during the run" in again.said
    assert_gone(family, 1)


def test_the_walk_through(start: Any, tmp_path: Path) -> None:
    dev = start().ready()
    assert re.search(
        "^  rota schedule create tick --every 10s --command date +# .*\n  rota exec +#", dev.said, re.MULTILINE
    )
    assert f"export ROTA_ADDRESS={dev.environment['ROTA_ADDRESS']}" in dev.said
    key_file = dev.home / "dev" / "api-key"
    assert key_file.stat().st_mode & 0o777 == 0o600

    job = dev.told("job", "create", "greet", "--data", '{"name": "Ada"}')
    assert job["state"] == "READY"
    (tmp_path / "worker.py").write_text(readme("python", "from rota_sdk import Lease, Worker"))
    worker = subprocess.Popen([sys.executable, tmp_path / "worker.py"], env=dev.environment)
    try:
        watched = dev.rota("job", "watch", job["name"], "--timeout", "30s")
        assert watched.returncode == 0, watched.stderr
        assert watched.stdout.splitlines()[-1].split(None, 2)[1:] == ["SUCCEEDED", "Hello, Ada!"]
        assert dev.told("job", "get", job["name"])["result"]["text"] == "Hello, Ada!"
        attempts = [json.loads(a) for a in dev.rota("job", "attempts", job["name"], "--json").stdout.splitlines()]
        assert [a["outcome"] for a in attempts] == ["FAILED", "SUCCEEDED"]
        assert attempts[0]["failure"]["message"] == "not awake yet"
        # The README shows the same lines and the same columns.
        shown = readme("", "$ rota job create greet").split("$ rota job ")
        for number, command in ((2, "get"), (3, "attempts")):
            printed = dev.rota("job", command, job["name"]).stdout
            assert first_words(printed) == first_words(shown[number].partition("\n")[2])
        (tmp_path / "client.py").write_text(
            readme("python", "from rota_sdk import Client").replace("delay=5", "delay=0")
        )
        client = subprocess.run(
            [sys.executable, tmp_path / "client.py"], env=dev.environment, capture_output=True, text=True, timeout=60
        )
        assert client.stdout == "Hello, Ada!\n", client.stderr
        session = dev.told("worker", "list")
        assert (session["state"], session["slots"], session["queues"]) == ("ACTIVE", 10, ["default"])
        doctor = dev.rota("doctor")
        assert doctor.returncode == 0, doctor.stdout
    finally:
        worker.terminate()
        assert worker.wait(STOP_S) == 0

    family = dev.family()
    assert len(family) >= 2
    assert dev.stop() == 0, dev.said
    assert_gone(family, 1)

    again = start().ready()
    assert again.told("job", "get", job["name"])["state"] == "SUCCEEDED"
    assert again.stop(signal.SIGTERM) == 0, again.said


def test_keys_are_made_and_revoked_beside_a_running_dev(running: Dev) -> None:
    dev = running
    made = dev.told("key", "create", "--role", "client", "--tenant", "acme")
    listing = dev.rota("--api-key", made["secret"], "job", "list")
    assert (listing.returncode, listing.stdout.split()) == (0, ["JOB", "TYPE", "QUEUE", "STATE", "TRIES", "CREATED"])
    # A client may not see the workers, and nobody sees another tenant's job.
    refused = dev.rota("--api-key", made["secret"], "worker", "list", "--json")
    assert (refused.returncode, json.loads(refused.stderr)["error"]["reason"]) == (1, "PERMISSION_DENIED")
    job = dev.told("job", "create", "greet")
    hidden = dev.rota("--api-key", made["secret"], "job", "get", job["name"], "--json")
    assert (hidden.returncode, json.loads(hidden.stderr)["error"]["reason"]) == (4, "RESOURCE_NOT_FOUND")
    assert dev.rota("key", "revoke", made["id"]).returncode == 0
    fresh = dev.told("key", "create", "--role", "client", "--expires", "10ms")
    expired = dev.rota("--api-key", fresh["secret"], "job", "list", "--json")
    assert (expired.returncode, json.loads(expired.stderr)["error"]["reason"]) == (1, "UNAUTHENTICATED")


def test_a_killed_dev_leaves_nothing_running_and_loses_nothing(start: Any) -> None:
    dev = start().ready()
    job = dev.told("job", "create", "greet", "--delay", "1h")
    family = dev.family()
    dev.process.kill()
    dev.process.wait()
    assert_gone(family, 60)
    again = start().ready()
    assert again.told("job", "get", job["name"])["state"] == "SCHEDULED"


def test_a_second_dev_in_the_same_folder_is_told_of_the_first(start: Any, running: Dev) -> None:
    first = running
    second = start(home=first.home)
    said, _ = second.process.communicate(timeout=START_S)
    assert second.process.returncode == 1
    assert f"another `rota dev` uses {first.home / 'dev'}" in said
    assert first.environment["ROTA_ADDRESS"] in said
    assert first.told("job", "create", "greet")["state"] == "READY"


def test_a_taken_port_is_one_line_and_nothing_is_left(start: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        dev = start("--listen", f"127.0.0.1:{taken.getsockname()[1]}")
        family: list[psutil.Process] = []
        while dev.process.poll() is None:
            family = dev.family() or family
            with suppress(subprocess.TimeoutExpired):
                dev.process.wait(0.1)
    assert dev.process.stdout is not None
    said = dev.process.stdout.read()
    assert dev.process.returncode == 1, said
    assert re.fullmatch(r"Starting PostgreSQL.*\nerror: cannot listen on .*port is taken.*\nhint: .*--listen\n", said)
    assert_gone(family, 1)


def test_a_worker_that_does_not_start_is_told_with_its_last_words(start: Any, tmp_path: Path) -> None:
    (tmp_path / "jobs.json").write_text('{"jobs": [{"type": "greet"}]}')
    (tmp_path / "worker.py").write_text("import rota_sdk\nrota_sdk.Wroker()\n")
    dev = start("--examples", str(tmp_path), "--for", "5s", "--json")
    said, _ = dev.process.communicate(timeout=START_S)
    assert dev.process.returncode == 1
    error = json.loads(said.splitlines()[-1])["error"]
    assert error["message"].startswith("the worker ended with exit code 1; the last that it said: AttributeError: ")


def test_a_coordinator_that_dies_ends_the_dev(start: Any) -> None:
    dev = start().ready()
    family = dev.family()
    coordinator = next(p for p in family if p.cmdline()[-3:] == ["rota", "serve", "--json"])
    coordinator.kill()
    rest, _ = dev.process.communicate(timeout=STOP_S)
    assert dev.process.returncode == 1
    assert "error: the coordinator ended with exit code -9" in rest
    assert_gone(family, 1)
