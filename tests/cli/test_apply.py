"""`rota apply`: the plan, what is sent, and what is said."""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import MessageToDict

from rota.cli.errors import Exit
from tests.cli.applier import Applier, served

EXAMPLE = Path(__file__).parents[2] / "examples" / "schedules.yaml"
FILE = """
calendars:
  off: [2026-12-25]
schedules:
  a: {cron: "0 5 * * *", timezone: Europe/Berlin, exclude: {calendars: [off]}, command: run}
  b: {every: 5m, job: {type: t}}
  c: {every: 5m, anchor: 2026-01-01, job: {type: t}, paused: true}
"""


@pytest.fixture
def applier(monkeypatch: pytest.MonkeyPatch) -> Iterator[Applier]:
    yield from served(monkeypatch)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "billing.yaml"
    path.write_text(FILE)
    return path


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_a_file_is_planned_and_then_applied(rota: Any, applier: Applier, file: Path) -> None:
    ran = rota("apply", "-f", file)
    assert (ran.code, ran.err) == (Exit.OK, "")
    heading = f"{file}, set billing: "
    lines = ran.out.splitlines()
    assert lines[0] == heading + "4 to create"
    assert lines[1].split() == ["ACTION", "NAME", "CHANGED", "NEXT"]
    assert words(ran.out)[2] == ["create", "calendars/off"]
    assert words(ran.out)[3][:2] == ["create", "schedules/a"]
    assert words(ran.out)[3][2].endswith(("T05:00:00+01:00", "T05:00:00+02:00"))
    assert words(ran.out)[4] == ["create", "schedules/b", "known", "once", "it", "is", "stored"]
    assert words(ran.out)[5] == ["create", "schedules/c", "paused"]
    assert lines[-1] == heading + "4 created"
    plan, done = applier.requests
    assert (plan.validate_only, plan.request_id, done.validate_only) == (True, "", False)
    assert done.request_id
    assert (done.apply_set, done.prune) == ("billing", False)
    assert [wish.schedule_id for wish in done.schedules] == ["a", "b", "c"]
    assert [wish.paused for wish in done.schedules] == [False, False, True]
    assert done.calendars[0].calendar.dates == ["2026-12-25"]


def test_what_is_sent_is_what_the_file_says(rota: Any, applier: Applier, tmp_path: Path) -> None:
    (tmp_path / "x.yml").write_text(
        """
schedules:
  a:
    rrule: FREQ=DAILY
    start: 2027-01-01T00:00:00Z
    end: 2028-01-01T00:00:00Z
    max_count: 3
    jitter: {span: 90s, mode: random}
    exclude: {dates: [--12-25], calendars: [x]}
    dst: {gap: shift, overlap: both}
    missed: {policy: catch-up, late_tolerance: 0s, window: 1h, max: 2}
    overlap: {policy: allow, limit: 2}
    pause_after_failures: 4
    notes: n
    labels: {a: b}
    job:
      {type: t, queue: q, priority: 0, payload: [1], headers: {h: i}, labels: {l: m}, concurrency_key: k,
       retry: {max_attempts: 2, non_retryable_types: [E]}, timeouts: {start_by: 1s, run: 2s, total: 3s}}
  b: {at: 2027-01-01T00:00:00, command: x}
  c: {at: 2027-01-01T00:00:00Z, command: x}
  d: {every: 2d, anchor: 2026-01-01, command: x}
"""
    )
    assert rota("apply", "-f", tmp_path / "x.yml", "--prune").code == Exit.OK
    [done] = applier.applied
    assert done.prune
    a, b, c, d = (MessageToDict(wish.schedule, preserving_proto_field_name=True) for wish in done.schedules)
    assert a == {
        "rrule": {"text": "FREQ=DAILY"},
        "time_zone": "UTC",
        "start_time": "2027-01-01T00:00:00Z",
        "end_time": "2028-01-01T00:00:00Z",
        "max_count": "3",
        "jitter": {"mode": "JITTER_MODE_RANDOM", "span": "90s"},
        "exclusions": {"dates": ["--12-25"], "calendars": ["calendars/x"]},
        "dst_gap": "DST_GAP_SHIFT",
        "dst_overlap": "DST_OVERLAP_BOTH",
        "missed_run_policy": {
            "mode": "MISSED_RUN_MODE_CATCH_UP",
            "late_tolerance": "0s",
            "catch_up_window": "3600s",
            "catch_up_max": 2,
        },
        "overlap_policy": {"mode": "OVERLAP_MODE_ALLOW", "limit": 2},
        "pause_after_failures": 4,
        "notes": "n",
        "labels": {"a": "b"},
        "job": {
            "type": "t",
            "queue": "q",
            "priority": 0,
            "payload": {"data": "WzFd", "content_type": "application/json"},
            "headers": {"h": "i"},
            "labels": {"l": "m"},
            "concurrency_key": "k",
            "retry_policy": {
                "max_attempts": 2,
                "initial_backoff": "1s",
                "max_backoff": "3600s",
                "multiplier": 2.0,
                "non_retryable_types": ["E"],
            },
            "timeouts": {"start_by": "1s", "run": "2s", "total": "3s"},
        },
    }
    assert b["once"] == {"local_time": "2027-01-01T00:00:00"}
    assert c["once"] == {"run_time": "2027-01-01T00:00:00Z"}
    assert d["interval"] == {"every": "172800s", "anchor_time": "2026-01-01T00:00:00Z"}


def test_a_second_time_changes_nothing(rota: Any, applier: Applier, file: Path) -> None:
    rota("apply", "-f", file)
    ran = rota("apply", "-f", file)
    assert (ran.code, ran.out) == (Exit.OK, f"{file}, set billing: nothing changes (4 as before)\n")


def test_changes_and_deletions_are_told(rota: Any, applier: Applier, file: Path) -> None:
    rota("apply", "-f", file)
    file.write_text(FILE.replace("  b: {every: 5m, job: {type: t}}\n", "").replace("run}", "run, notes: new}"))
    ran = rota("apply", "-f", file)
    assert ran.out.splitlines()[0].endswith(": 1 to change, 2 as before")
    assert words(ran.out)[2][:4] == ["change", "schedules/a", "timezone,", "notes"]
    ran = rota("apply", "-f", file, "--prune")
    assert ran.out.splitlines()[0].endswith(": 1 to delete, 3 as before")
    assert ran.out.splitlines()[-1].endswith(": 1 deleted, 3 as before")
    assert set(applier.schedules) == {"a", "c"}


def test_a_dry_run_writes_nothing(rota: Any, applier: Applier, file: Path) -> None:
    ran = rota("apply", "-f", file, "--dry-run")
    assert (ran.code, applier.applied) == (Exit.OK, [])
    assert "created" not in ran.out


def test_json(rota: Any, applier: Applier, file: Path) -> None:
    document = rota("apply", "-f", file, "--json").document
    assert {key: document[key] for key in ("file", "set", "dry_run", "applied")} == {
        "file": str(file),
        "set": "billing",
        "dry_run": False,
        "applied": True,
    }
    assert [(change["name"], change["action"]) for change in document["changes"]] == [
        ("calendars/off", "CREATE"),
        ("schedules/a", "CREATE"),
        ("schedules/b", "CREATE"),
        ("schedules/c", "CREATE"),
    ]
    assert document["changes"][1]["next_time"].endswith("Z")
    assert document["changes"][2]["next_time"] is None
    assert rota("apply", "-f", file, "--json", "--dry-run").document["applied"] is False


def test_a_folder_is_applied_file_by_file(rota: Any, applier: Applier, tmp_path: Path) -> None:
    for name in ("b.yml", "a.yaml", "ignored.txt", "ignored.json"):
        (tmp_path / name).write_text(f"schedules: {{in-{name[0]}: {{every: 5m, command: run}}}}")
    assert rota("apply", "-f", tmp_path).code == Exit.OK
    assert [request.apply_set for request in applier.applied] == ["a", "b"]
    assert [document["set"] for document in rota("apply", "-f", tmp_path, "--json").documents] == ["a", "b"]


def test_nothing_of_a_folder_is_written_when_one_file_is_wrong(rota: Any, applier: Applier, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("schedules: {a: {every: 5m, command: run}}")
    (tmp_path / "b.yaml").write_text("schedules: {b: {every: 5m, comand: run}}")
    ran = rota("apply", "-f", tmp_path)
    assert (ran.code, ran.out, applier.requests) == (Exit.USAGE, "", [])
    assert f"{tmp_path}/b.yaml:1: schedules.b.comand: expected a known key, found 'comand'" in ran.err
    assert "hint: did you mean command?" in ran.err
    for text, told in (
        ("schedules: {a: {every: 5m, command: run}}", f"each id in one file, found 'a' in {tmp_path}/a.yaml too"),
        ("set: a\nschedules: {}", f"each set in one file, found 'a' in {tmp_path}/a.yaml too"),
    ):
        (tmp_path / "b.yaml").write_text(text)
        ran = rota("apply", "-f", tmp_path)
        assert (ran.code, applier.requests) == (Exit.USAGE, [])
        assert told in ran.err


def test_what_was_done_of_a_folder_is_told_when_it_stops(rota: Any, applier: Applier, tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.yaml").write_text(f"schedules: {{{name}: {{every: 5m, command: run}}}}")
    applier.refuse_writes_of = "b"
    ran = rota("apply", "-f", tmp_path)
    assert ran.code == Exit.USAGE
    assert f"applied: {tmp_path}/a.yaml; not applied: {tmp_path}/b.yaml, {tmp_path}/c.yaml" in ran.err
    assert set(applier.schedules) == {"a"}


def test_many_slips_are_told_at_once(rota: Any, applier: Applier, file: Path) -> None:
    file.write_text('schedules:\n  a: {cron: "0 0 31 2 *", command: x}\n  b: {every: 5m}\n')
    ran = rota("apply", "-f", file)
    assert (ran.code, applier.requests) == (Exit.USAGE, [])
    assert [line[: len(f"error: {file}:2: ")] for line in ran.err.splitlines()] == [
        f"error: {file}:2: ",
        f"error: {file}:3: ",
    ]
    error = rota("apply", "-f", file, "--json").error
    assert [violation["field"] for violation in error["details"]["violations"]] == [
        f"{file}:2: schedules.a.cron",
        f"{file}:3: schedules.b.job",
    ]


def test_a_rule_is_refused_in_the_words_of_the_preview(rota: Any, applier: Applier, file: Path) -> None:
    file.write_text('schedules: {a: {cron: "0 0 31 2 *", command: x}}')
    by_apply, by_preview = (
        rota(*given, "--json").error for given in (("apply", "-f", file), ("schedule", "preview", "0 0 31 2 *"))
    )
    descriptions = [error["details"]["violations"][0]["description"] for error in (by_apply, by_preview)]
    assert descriptions[0] == descriptions[1]
    assert by_apply["reason"] == by_preview["reason"] == "NEVER_FIRES"


def test_what_the_server_refuses_is_told_at_its_line(rota: Any, applier: Applier, file: Path) -> None:
    applier.refused_ids = {"a"}
    ran = rota("apply", "-f", file)
    assert (ran.code, ran.out, applier.schedules) == (Exit.USAGE, "", {})
    assert ran.err == f"error: {file}:5: schedules.a.cron: expected better\nhint: improve it\n"


def test_other_refusals_stay_as_they_are(rota: Any, applier: Applier, file: Path) -> None:
    applier.refuse(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED", "no")
    ran = rota("apply", "-f", file)
    assert ran.code == Exit.REFUSED
    assert ran.err.startswith("error: no\n")


def test_no_server(rota: Any, file: Path) -> None:
    assert rota("--address", "127.0.0.1:1", "apply", "-f", file).code == Exit.UNREACHABLE


def test_standard_input_needs_a_name(rota: Any, applier: Applier, monkeypatch: pytest.MonkeyPatch) -> None:
    def given(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    given(FILE)
    assert "standard input: set: expected a name" in rota("apply", "-f", "-").err
    given(FILE)
    assert rota("apply", "-f", "-", "--set", "mine").code == Exit.OK
    assert applier.applied[0].apply_set == "mine"


def test_somebody_at_a_terminal_is_asked(
    rota: Any, applier: Applier, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def answer(question: str, **_: Any) -> bool:
        asked.append(question)
        return len(asked) > 1

    monkeypatch.setattr("typer.confirm", answer)
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True, raising=False)
    ran = rota("apply", "-f", file)
    assert (ran.code, applier.applied) == (Exit.REFUSED, [])
    assert "nothing was changed" in ran.err
    assert rota("apply", "-f", file).code == Exit.OK
    assert rota("apply", "-f", file).code == Exit.OK, "nothing changes, nothing is asked"
    assert len(asked) == 2
    file.write_text("schedules: {}")
    assert rota("apply", "-f", file, "--prune", "--yes").code == Exit.OK
    assert len(asked) == 2
    assert not applier.schedules


def test_readings_that_surprise_are_noted(rota: Any, applier: Applier, file: Path) -> None:
    file.write_text(
        'schedules:\n  a: {cron: "* 5 * * *", command: r}\n  b: {rrule: FREQ=MONTHLY;BYMONTHDAY=-1, command: r}\n'
        '  c: {rrule: "DTSTART:20270101T000000\\nRRULE:FREQ=MONTHLY;BYMONTHDAY=-1", command: r}\n'
    )
    notes = rota("apply", "-f", file).err.splitlines()
    assert [note.split(": ")[1] for note in notes] == ["schedules/a", "schedules/c"]


def test_the_schema_is_printed(rota: Any) -> None:
    ran = rota("apply", "--schema")
    assert json.loads(ran.out)["title"] == "Schedules of Rota"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "--file: expected a file, a folder or -, found none"),
        (["-f", "/nowhere.yaml"], "--file: expected a readable file, found '/nowhere.yaml'"),
        (["-f", "EMPTY"], "expected 1 to 1000 files that end in .yaml or .yml, found 0"),
        (["-f", "TWO", "--set", "x"], "--set: expected one file, found 2"),
        (["-f", "LATIN"], "expected text in UTF-8"),
    ],
)
def test_usage(rota: Any, tmp_path: Path, arguments: list[str], told: str) -> None:
    for name in ("EMPTY", "TWO"):
        (tmp_path / name).mkdir()
    for name in "ab":
        (tmp_path / "TWO" / f"{name}.yaml").write_text("schedules: {}")
    (tmp_path / "LATIN").write_bytes(b"a: 1\nb: \xe9\n")
    given = [str(tmp_path / word) if word.isupper() else word for word in arguments]
    ran = rota("apply", *given)
    assert ran.code == Exit.USAGE
    assert told in ran.err


def test_the_example_applies(rota: Any, applier: Applier) -> None:
    assert rota("apply", "-f", EXAMPLE).code == Exit.OK
    assert list(applier.schedules) == ["heartbeat", "berlin-time", "morning-report", "slow-sum", "month-end"]
    assert list(applier.calendars) == ["holidays"]
