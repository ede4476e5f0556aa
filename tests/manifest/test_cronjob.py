"""CronJobs of Kubernetes become schedules that run at the same times."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rota.domain.schedule import Definition, MissedMode, OverlapMode
from rota.manifest import cronjob
from rota.manifest.cronjob import Options
from rota.manifest.imported import Imported, Status
from rota.targets.command import Command, parse_command

DATA = Path(__file__).parent / "data"
EXPECTED: dict[str, Any] = json.loads((DATA / "cronjobs.json").read_text())
FILES = sorted((DATA / "cronjobs").iterdir())
NOW = datetime.fromisoformat(EXPECTED["from"])


def everything(options: Options = Options()) -> Imported:  # noqa: B008
    found = Imported("cronjobs")
    for file in FILES:
        cronjob.read(file.read_text(), file.name, options, NOW, found)
    return found


def definitions(found: Imported) -> dict[str, Definition]:
    return {item.id: item.definition for item in found.document("set", NOW).schedules}


def manifest(spec: str = "", job: str = "", pod: str = "", container: str = "", name: str = "x") -> str:
    """A CronJob with more lines in its parts, as flow YAML."""
    return f"""
apiVersion: batch/v1
kind: CronJob
metadata: {{name: {name}}}
spec: {{schedule: "0 5 * * *", timeZone: UTC, {spec} jobTemplate: {{spec: {{{job} template: {{spec: {{{pod}
  containers: [{{name: c, image: i, {container or "command: [run]"}}}]}}}}}}}}}}
"""


def one(**parts: str) -> Definition:
    found = cronjob.read(manifest(**parts), "file", Options(), NOW)
    assert not found.refused, found.refused
    [definition] = definitions(found).values()
    return definition


def reason(text: str) -> str:
    [row] = cronjob.read(text, "file", Options(), NOW).refused
    return row.notes[0]


def test_ten_manifests_run_at_the_right_times() -> None:
    assert len(FILES) == 10
    found = everything()
    items = {item.id: item for item in found.document("set", NOW).schedules}
    assert list(items) == list(EXPECTED["next"])
    for id, times in EXPECTED["next"].items():
        rule = items[id].rule
        assert [f"{line.nominal:%Y-%m-%dT%H:%M:%SZ}" for line in rule.preview(NOW, 3)] == times, id
    assert [row.what for row in found.rows if row.status is Status.NOTED] == EXPECTED["noted"]
    assert {row.id for row in found.refused} == set(EXPECTED["refused"])
    for row in found.refused:
        assert EXPECTED["refused"][row.id] in row.notes[0]


def test_everything_that_a_manifest_says_is_carried_over_or_noted() -> None:
    found = everything()
    backup = definitions(found)["billing.postgres-backup"]
    assert (backup.timing.expression, backup.timing.time_zone) == ("30 2 * * *", "Europe/Berlin")
    assert backup.overlap.mode is OverlapMode.SKIP
    assert (backup.missed.mode, backup.missed.catch_up_window_s, backup.missed.catch_up_max) == (
        MissedMode.CATCH_UP,
        3600,
        1,
    )
    assert (backup.job.retry.max_attempts, backup.job.timeouts.total_s, backup.job.timeouts.run_s) == (3, 5400, 5400)
    assert backup.labels == {"app.kubernetes.io/name": "postgres-backup", "team": "billing"}
    assert backup.job.labels == {"tier": "batch"}
    assert parse_command(backup.job.payload.data) == Command(
        ("pg_dump", "--host=db.internal", "--file=/backup/dump.sql", "$(not a variable)"),
        {"PGHOST": "db.internal"},
        dir="/backup",
    )
    [row] = [row for row in found.rows if row.id == "billing.postgres-backup"]
    for words in (
        *("image postgres:16 is not used", "PGPASSWORD comes from the cluster", "containers[0].resources is not"),
        *("containers[0].volumeMounts is not", "spec.volumes is not", "spec.serviceAccountName is not"),
        "metadata.annotations is not",
    ):
        assert any(words in note for note in row.notes), words


def test_other_manifests_in_full() -> None:
    found = definitions(everything())
    assert parse_command(found["hello"].job.payload.data).argv[2].startswith("date; echo")
    assert (found["hello"].missed.mode, found["hello"].overlap.mode) == (MissedMode.COALESCE, OverlapMode.ALLOW)
    assert (found["hello"].job.retry.max_attempts, found["hello"].job.timeouts.run_s) == (7, 7 * 86_400)
    assert found["monthly-report"].job.retry.max_attempts == 1
    cleanup = found["cleanup"]
    assert cleanup.overlap.mode is OverlapMode.REPLACE
    assert (cleanup.missed.mode, cleanup.missed.late_tolerance_s) == (MissedMode.SKIP, 30)
    assert (cleanup.job.timeouts.run_s, cleanup.job.timeouts.total_s) == (300, None)
    paused = {item.id for item in everything().document("set", NOW).schedules if item.paused}
    assert paused == {"monthly-report"}


def test_workers_of_ones_own_get_the_container() -> None:
    found = everything(Options("Asia/Tokyo", "pods", "k8s.run"))
    assert "entrypoint" not in {row.id for row in found.refused}
    job = definitions(found)["entrypoint"].job
    assert (job.type, job.queue) == ("k8s.run", "pods")
    assert json.loads(job.payload.data) == {"name": "run", "image": "ghcr.io/acme/sync:2", "args": ["--all"]}
    assert definitions(found)["hello"].timing.time_zone == "Asia/Tokyo"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("0 0 */2 * 1", "0 0 1-31/2 * 1"),
        ("0 0 1 * */2", "0 0 1 * 0-6/2"),
        ("0 0 */1 * 1", "0 0 */1 * 1"),
        ("0 0 ? * ?", "0 0 * * *"),
        ("@daily", "@daily"),
        ("0 0 1,?/3 * *", "0 0 1,1-31/3 * *"),
    ],
)
def test_expressions_mean_what_they_mean_there(given: str, meant: str) -> None:
    assert cronjob.expression(given) == meant


def test_a_stepped_star_restricts_the_day() -> None:
    found = cronjob.read(manifest().replace("0 5 * * *", "0 0 */2 * 1"), "file", Options(), NOW)
    [item] = found.document("set", NOW).schedules
    days = [line.nominal.day for line in item.rule.preview(datetime(2026, 12, 11, 12, tzinfo=UTC), 3)]
    # The 13th is odd, the 14th a Monday, the 15th odd.
    assert days == [13, 14, 15]


def test_variables_are_filled_in() -> None:
    env = "env: [{name: A, value: x}, {name: B, value: $(A)y}, {name: E}]"
    found = one(container=f"command: [run, $(B), $(C), $$(A), '$(E)'], {env}")
    assert parse_command(found.job.payload.data) == Command(
        ("run", "xy", "$(C)", "$(A)", ""), {"A": "x", "B": "xy", "E": ""}
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (manifest(spec="concurrencyPolicy: Sometimes,"), "spec.concurrencyPolicy: expected Allow, Forbid or Replace"),
        (manifest(spec="startingDeadlineSeconds: -1,"), "spec.startingDeadlineSeconds: expected a whole number from 0"),
        (manifest(spec="suspend: maybe,"), "spec.suspend: expected true or false, found 'maybe'"),
        (
            manifest(job="backoffLimit: 1000,"),
            "spec.jobTemplate.spec.backoffLimit: expected a whole number from 0 to 999",
        ),
        (manifest(job="completions: 3,"), "spec.jobTemplate.spec.completions: expected 1, found 3"),
        (manifest(pod="initContainers: [{name: i}],"), "initContainers: expected none, found 1"),
        (manifest(container="command: run"), "containers[0].command: expected a list of texts, found 'run'"),
        (manifest(container="command: [run, 5]"), "quote numbers"),
        (manifest(container="command: [$(A)], env: [{name: A, valueFrom: {}}]"), "$(A): expected a plain value"),
        (manifest(container="command: [r], env: [{name: A, value: 5}]"), "env[0].value: expected a text, found '5'"),
        (manifest().replace("0 5 * * *", "0 5 31 2 *"), "cron: expected a date that comes in some year"),
        (manifest().replace("0 5 * * *", "TZ=UTC 0 5 * * *"), "and timeZone: 'UTC'"),
        (manifest().replace("UTC", "PST"), "timezone: expected"),
        (
            manifest().replace("batch/v1", "batch/v2"),
            "apiVersion: expected batch/v1 or batch/v1beta1, found 'batch/v2'",
        ),
        (manifest().replace("name: x", "generateName: x"), "metadata.name: expected a name, found none"),
        ("kind: CronJob\napiVersion: batch/v1\nmetadata: {name: a}", "spec: expected a mapping, found nothing; add it"),
        ("hello", "expected a manifest with apiVersion and kind"),
        ("a: {{ .Values.x }}: y: z", "render it first"),
        ("a: 1\na: 2", "a: expected each key once"),
    ],
)
def test_manifests_that_are_not_taken(text: str, words: str) -> None:
    assert words in reason(text)


def test_names_that_meet() -> None:
    found = cronjob.read(f"{manifest()}---{manifest()}", "file", Options(), NOW)
    assert list(found.schedules) == ["x", "x-2"]
    assert "x is taken by another manifest" in found.rows[1].notes


def test_labels_that_are_too_long_are_noted() -> None:
    text = manifest().replace("{name: x}", f"{{name: x, labels: {{{'k' * 129}: v, a: b}}}}")
    found = cronjob.read(text, "file", Options(), NOW)
    assert found.schedules["x"]["labels"] == {"a": "b"}
    assert any("longer than a label may be" in note for note in found.rows[0].notes)
