"""Files and crontabs brought into a real coordinator, and their commands run."""

import json
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rota_sdk import Client, JobState
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

from rota.cli.main import main
from tests.harness import CoordinatorProcess, Process, clean_environment

EXAMPLES = Path(__file__).parents[2] / "examples"
DATA = Path(__file__).parents[1] / "manifest" / "data"

WAIT_S = 30.0
Rota = Callable[..., tuple[int, str, str]]


@pytest.fixture
def rota(
    coordinator: CoordinatorProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Rota]:
    """Runs `rota` against the coordinator: exit code, stdout and stderr."""
    monkeypatch.setenv("ROTA_ADDRESS", coordinator.address)
    monkeypatch.setenv("ROTA_API_KEY", coordinator.key)

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    yield run


def schedules(client: Client, **filters: Any) -> dict[str, pb.Schedule]:
    request = pb.ListSchedulesRequest(page_size=1000, **filters)
    return {found.name: found for found in client.stubs.schedules.ListSchedules(request).schedules}


def first_after(client: Client, name: str, at: datetime) -> datetime:
    """The first time after an instant at which the server lets a schedule fire."""
    request = pb.PreviewScheduleRequest(name=name, start_time=at, count=1)
    [occurrence] = client.stubs.schedules.PreviewSchedule(request).occurrences
    found: datetime = occurrence.nominal_time.ToDatetime(tzinfo=UTC)
    return found


def counts(out: str) -> str:
    return out.strip().splitlines()[-1].rpartition(": ")[2]


def test_the_example_is_made_true_and_stays_so(rota: Rota, coordinator: CoordinatorProcess, tmp_path: Path) -> None:
    example = EXAMPLES / "schedules.yaml"
    assert rota("apply", "-f", example, "--dry-run")[0] == 0
    with coordinator.client() as client:
        assert schedules(client) == {}
        assert counts(rota("apply", "-f", example)[1]) == "6 created"
        made = schedules(client, apply_set="schedules")
        assert sorted(made) == [
            "schedules/berlin-time",
            "schedules/heartbeat",
            "schedules/month-end",
            "schedules/morning-report",
            "schedules/slow-sum",
        ]
        assert counts(rota("apply", "-f", example)[1]) == "nothing changes (6 as before)"
        assert schedules(client, apply_set="schedules")["schedules/month-end"] == made["schedules/month-end"]
        text = example.read_text()
        changed = tmp_path / "schedules.yaml"
        changed.write_text(text[: text.index("  month-end:")].replace("every: 5s", "every: 15s"))
        assert counts(rota("apply", "-f", changed, "--prune")[1]) == "1 changed, 1 deleted, 4 as before"
        assert schedules(client)["schedules/heartbeat"].interval.every.seconds == 15
        assert len(schedules(client)) == 4


def test_what_the_server_refuses_is_told_at_its_line(rota: Rota, tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(
        "schedules:\n  good: {every: 5m, command: r}\n  a:\n    cron: '@daily'\n    command: r\n"
        "    exclude:\n      calendars: [nowhere]\n"
    )
    code, out, err = rota("apply", "-f", file)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {file}:7: schedules.a.exclude.calendars: expected a calendar that exists")
    file.write_text("schedules:\n  a: {cron: '@daily', end: 2020-01-01, command: r}\n")
    code, out, err = rota("apply", "-f", file)
    assert code == 2
    assert f"{file}:2: schedules.a.cron" in err


def test_crontabs_and_cronjobs_fire_when_they_did(rota: Rota, coordinator: CoordinatorProcess) -> None:
    for path in sorted((DATA / "crontabs").iterdir()):
        code, out, err = rota(
            "import", "crontab", path, "--system", "--skip-bad", "--timezone", "Europe/Berlin", "--json"
        )
        assert code == 0, err
        report = json.loads(out)
        taken = {f"schedules/{row['id']}" for row in report["rows"] if row["status"] == "taken"}
        planned = {change["name"]: datetime.fromisoformat(change["next_time"]) for change in report["changes"]}
        with coordinator.client() as client:
            assert set(schedules(client, apply_set=report["set"])) == taken == set(planned)
            for name, at in planned.items():
                assert first_after(client, name, at - timedelta(seconds=1)) == at, name
    code, out, err = rota("import", "k8s", DATA / "cronjobs", "--skip-bad")
    assert (code, counts(out)) == (0, "8 created")
    with coordinator.client() as client:
        states = {name: found.state for name, found in schedules(client, apply_set="k8s-cronjobs").items()}
    assert states.pop("schedules/monthly-report") == pb.SCHEDULE_STATE_PAUSED
    assert set(states.values()) == {pb.SCHEDULE_STATE_ACTIVE}


def test_an_imported_command_runs_as_cron_would_run_it(
    rota: Rota, coordinator: CoordinatorProcess, tmp_path: Path
) -> None:
    tab = tmp_path / "tab"
    tab.write_text(f'HOME={tmp_path}\nGREETING=hello\n0 0 1 1 * echo "$GREETING \\%"; pwd; cat%from%below\n')
    assert rota("import", "crontab", tab, "--timezone", "UTC")[0] == 0
    environment = clean_environment() | {"ROTA_ADDRESS": coordinator.address, "ROTA_API_KEY": coordinator.key}
    runner = Process([sys.executable, "-m", "rota", "exec"], environment, tmp_path / "exec.log")
    try:
        with coordinator.client() as client:
            [name] = schedules(client, apply_set="crontab-tab")
            answer = client.stubs.schedules.TriggerSchedule(pb.TriggerScheduleRequest(name=name))
            job = client.wait_job(answer.job.name, WAIT_S)
        assert job.state is JobState.SUCCEEDED, runner.output
        assert job.result is not None
        assert job.result.json()["output"].splitlines() == ["hello %", str(tmp_path), "from", "below"]
    finally:
        runner.kill()
