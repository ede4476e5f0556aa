"""`rota import`: what is reported, written and applied."""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.cli import imports
from rota.cli.errors import Exit
from rota.domain.errors import InvalidArgument
from rota.targets.command import parse_command
from tests.cli.applier import Applier, served

EXAMPLE = Path(__file__).parents[2] / "examples" / "crontab"
MANIFESTS = Path(__file__).parents[1] / "manifest" / "data" / "cronjobs"
TAB = "MAILTO=ops\n# Nightly.\n30 2 * * * backup --all\n@reboot warm-up\n"


@pytest.fixture
def applier(monkeypatch: pytest.MonkeyPatch) -> Iterator[Applier]:
    yield from served(monkeypatch)


@pytest.fixture
def tab(tmp_path: Path) -> Path:
    path = tmp_path / "ada"
    path.write_text(TAB)
    return path


def test_a_line_that_cannot_be_taken_stops_the_file(rota: Any, applier: Applier, tab: Path) -> None:
    ran = rota("import", "crontab", tab, "--timezone", "Europe/Berlin")
    assert (ran.code, applier.requests) == (Exit.USAGE, [])
    assert ran.out.splitlines() == [
        f"{tab}: times are those of Europe/Berlin, as --timezone says",
        "    1  noted    MAILTO=ops",
        "                nothing is mailed: output is kept with the job; commands get the variable",
        "    3  taken    ada-backup-all",
        "                30 2 * * * backup --all",
        "    4  refused  @reboot warm-up",
        "                expected a time, found '@reboot', which is no time of a clock; have the machine start it, "
        "for example by a unit of systemd",
    ]
    assert ran.err.splitlines() == [
        "error: 1 of 2 cannot be taken, and nothing was applied",
        "hint: correct them, or leave them out with --skip-bad",
    ]


def test_the_rest_is_taken_when_asked(rota: Any, applier: Applier, tab: Path) -> None:
    ran = rota("import", "crontab", tab, "--timezone", "Europe/Berlin", "--skip-bad", "--user", "ada", "--queue", "q")
    assert ran.code == Exit.OK
    [done] = applier.applied
    assert (done.apply_set, done.prune) == ("crontab-ada", False)
    [wish] = done.schedules
    assert (wish.schedule_id, wish.schedule.cron.expression) == ("ada-backup-all", "30 2 * * *")
    assert (wish.schedule.time_zone, wish.schedule.notes) == ("Europe/Berlin", "Nightly.")
    assert (wish.schedule.job.type, wish.schedule.job.queue) == ("rota.exec", "q")
    assert wish.schedule.job.retry_policy.max_attempts == 1
    command = parse_command(wish.schedule.job.payload.data)
    assert (command.argv, command.env, command.user) == (("/bin/sh", "-c", "backup --all"), {"MAILTO": "ops"}, "ada")
    assert ran.out.splitlines()[-1].endswith("set crontab-ada: 1 created")
    assert (
        "nothing changes (1 as before)"
        in rota(
            "import", "crontab", tab, "--timezone", "Europe/Berlin", "--skip-bad", "--user", "ada", "--queue", "q"
        ).out
    )


def test_json(rota: Any, applier: Applier, tab: Path) -> None:
    ran = rota("import", "crontab", tab, "--timezone", "UTC", "--json")
    assert ran.code == Exit.USAGE
    document = json.loads(ran.out)
    assert (document["taken"], document["refused"], document["applied"]) == (1, 1, False)
    assert [(row["line"], row["status"], row["id"]) for row in document["rows"]] == [
        (1, "noted", ""),
        (3, "taken", "ada-backup-all"),
        (4, "refused", ""),
    ]
    document = rota("import", "crontab", tab, "--timezone", "UTC", "--skip-bad", "--json").document
    assert document["applied"] is True
    assert document["changes"][0]["action"] == "CREATE"
    assert len(document["rows"]) == 3


def test_yaml_is_written_instead(rota: Any, applier: Applier, tab: Path, tmp_path: Path) -> None:
    given = ("import", "crontab", tab, "--timezone", "UTC", "--skip-bad", "--set", "mine")
    target = tmp_path / "out.yaml"
    ran = rota(*given, "-o", target)
    assert (ran.code, applier.requests) == (Exit.OK, [])
    assert f"1 schedules written to {target}: rota apply -f {target}" in ran.err
    printed = rota(*given, "-o", "-")
    assert printed.out == target.read_text()
    assert "taken    ada-backup-all" in printed.err
    assert rota("apply", "-f", target).code == Exit.OK
    assert applier.applied[0].apply_set == "mine"
    assert "nothing changes" in rota(*given).out


def test_dry_runs_and_pruning(rota: Any, applier: Applier, tab: Path) -> None:
    tab.write_text("@daily a\n@daily b\n")
    assert rota("import", "crontab", tab, "--dry-run").code == Exit.OK
    assert applier.applied == []
    rota("import", "crontab", tab)
    tab.write_text("@daily a\n")
    assert "1 deleted, 1 as before" in rota("import", "crontab", tab, "--prune").out
    assert list(applier.schedules) == ["ada-a"]


def test_crontabs_of_the_system(rota: Any, applier: Applier, tmp_path: Path) -> None:
    path = tmp_path / "sysstat"
    path.write_text("59 23 * * * root sa1 60 2\n")
    ran = rota("import", "crontab", path)
    assert ran.code == Exit.USAGE
    assert "if the lines name users, say --system" in ran.out
    assert rota("import", "crontab", path, "--system").code == Exit.OK
    assert parse_command(applier.applied[0].schedules[0].schedule.job.payload.data).user == "root"
    assert "--user: expected with a user's crontab" in rota("import", "crontab", path, "--system", "--user", "x").err


def test_crontabs_of_several_machines_stay_apart(rota: Any, applier: Applier, tab: Path) -> None:
    tab.write_text("@daily run\n")
    for machine in ("web-1", "web-2"):
        assert rota("import", "crontab", tab, "--prefix", machine, "--queue", machine).code == Exit.OK
    assert list(applier.schedules) == ["web-1-run", "web-2-run"]
    assert [request.apply_set for request in applier.applied] == ["crontab-web-1", "crontab-web-2"]


def test_standard_input(rota: Any, applier: Applier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"@daily run caf\xc3\xa9\n@daily b\xe9\n")))
    ran = rota("import", "crontab", "-", "--skip-bad")
    assert ran.code == Exit.OK
    assert "expected UTF-8 text without NUL" in ran.out
    assert applier.applied[0].apply_set == "crontab"
    assert list(applier.schedules) == ["crontab-run-caf"]


def test_nothing_to_take(rota: Any, tab: Path) -> None:
    tab.write_text("# nothing\n")
    ran = rota("import", "crontab", tab)
    assert (ran.code, ran.err) == (Exit.OK, f"nothing to take was found in {tab}\n")


def test_the_zone_of_the_machine(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    link = tmp_path / "localtime"
    link.symlink_to("/usr/share/zoneinfo/Europe/Berlin")
    assert imports._machine_zone(link, nowhere) == "Europe/Berlin"
    copy, name = tmp_path / "copy", tmp_path / "timezone"
    copy.write_bytes(b"TZif")
    name.write_text("Asia/Tokyo\n")
    assert imports._machine_zone(copy, name) == "Asia/Tokyo"
    assert imports._machine_zone(nowhere, nowhere) == "UTC"
    with pytest.raises(InvalidArgument, match="--timezone: expected this machine's time zone to have a name"):
        imports._machine_zone(copy, nowhere)


def test_zones_that_do_not_exist(rota: Any, tab: Path) -> None:
    for command in (("crontab", tab), ("k8s", MANIFESTS)):
        ran = rota("import", *command, "--timezone", "PST")
        assert ran.code == Exit.USAGE
        assert ran.err.startswith("error: --timezone: expected")


def test_the_example_is_taken(rota: Any, applier: Applier) -> None:
    ran = rota("import", "crontab", EXAMPLE, "--timezone", "UTC")
    assert ran.code == Exit.OK, ran.out
    [done] = applier.applied
    assert [(wish.schedule.cron.expression, wish.schedule.time_zone) for wish in done.schedules] == [
        ("* * * * *", "UTC"),
        ("* * * * *", "UTC"),
        ("*/2 * * * *", "UTC"),
        ("30 8 * * 1-5", "Europe/Berlin"),
    ]
    assert parse_command(done.schedules[2].schedule.job.payload.data).stdin == "these are five words indeed\n"


def test_cronjobs_of_a_folder(rota: Any, applier: Applier) -> None:
    ran = rota("import", "k8s", MANIFESTS)
    assert (ran.code, applier.requests) == (Exit.USAGE, [])
    assert "error: 4 of 12 cannot be taken, and nothing was applied" in ran.err
    ran = rota("import", "k8s", MANIFESTS, "--skip-bad", "--queue", "pods")
    assert ran.code == Exit.OK
    [done] = applier.applied
    assert done.apply_set == "k8s-cronjobs"
    assert {wish.schedule.job.queue for wish in done.schedules} == {"pods"}
    paused = [wish.schedule_id for wish in done.schedules if wish.paused]
    assert paused == ["monthly-report"]


def test_cronjobs_for_workers_of_ones_own(rota: Any, applier: Applier) -> None:
    ran = rota("import", "k8s", MANIFESTS / "08-entrypoint.yaml", "--job-type", "k8s.run")
    assert ran.code == Exit.OK
    job = applier.applied[0].schedules[0].schedule.job
    assert (job.type, job.queue) == ("k8s.run", "default")
    assert json.loads(job.payload.data)["image"] == "ghcr.io/acme/sync:2"


@pytest.mark.parametrize("command", ["crontab", "k8s"])
def test_help_says_what_becomes_of_what(rota: Any, command: str) -> None:
    out = rota("import", command, "--help").out
    assert "--skip-bad" in out
    assert "overlap" in out.lower() or "concurrencyPolicy" in out
