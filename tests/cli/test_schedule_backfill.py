"""`rota schedule backfill`, `backfills`, `cancel-backfill` and `history`."""

from datetime import UTC, datetime
from typing import Any

import pytest
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

from rota.cli import schedulebackfill
from rota.cli.errors import Exit
from tests.cli.scheduler import Scheduler, schedule
from tests.cli.script import T0, in_

NAME = "schedules/nightly"
SPAN = ("--from", "2026-11-01", "--to", "2026-11-30T08:15:00Z")
RUNNING, SUCCEEDED, CANCELLED = pb.BACKFILL_STATE_RUNNING, pb.BACKFILL_STATE_SUCCEEDED, pb.BACKFILL_STATE_CANCELLED


@pytest.fixture
def stored(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> Scheduler:
    """A coordinator with one schedule; nobody waits, and it is T0."""
    monkeypatch.setattr(schedulebackfill, "WATCH_FIRST_S", 0.0)
    monkeypatch.setattr("rota.clock.SystemClock.utc", lambda self: T0)
    scheduler.put(schedule())
    return scheduler


def lines(ran: Any) -> list[list[str]]:
    return [line.split(None, 1) for line in ran.out.splitlines()]


def test_backfill_sends_every_option(rota: Any, stored: Scheduler) -> None:
    ran = rota(
        *("schedule", "backfill", "nightly", *SPAN, "--rate", 0.5, "--include-fired", "--overlap", "buffer-all"),
        *("--overlap-limit", 5, "--priority", 3, "--reason", "an outage", "--request-id", "r"),
    )
    assert stored.sent == pb.BackfillScheduleRequest(
        name=NAME,
        request_id="r",
        backfill=pb.Backfill(
            start_time=datetime(2026, 10, 31, 23, tzinfo=UTC),
            end_time=T0,
            include_fired=True,
            rate=0.5,
            overlap_policy={"mode": pb.OVERLAP_MODE_BUFFER_ALL, "limit": 5},
            priority=3,
            reason="an outage",
        ),
    )
    assert ran.code == Exit.OK
    assert lines(ran) == [
        ["backfill", f"{NAME}/backfills/b1"],
        ["state", "RUNNING"],
        ["from", "Sun 2026-11-01 00:00:00 CET +01:00 = 2026-10-31T23:00:00Z, 29 d ago"],
        ["to", "Mon 2026-11-30 09:15:00 CET +01:00 = 2026-11-30T08:15:00Z, now"],
        ["occurrences", "30"],
        ["done", "0, of which 0 fired"],
        ["include", "fired  yes"],
        ["rate", "at most 0.5 a second"],
        ["overlap", "buffer-all, at most 5"],
        ["priority", "3"],
        ["reason", "an outage"],
    ]


def test_instants_need_no_zone(rota: Any, stored: Scheduler) -> None:
    span = ("--from", "2026-11-01T00:00:00Z", "--to", "2026-11-02T00:00:00Z")
    told = rota("schedule", "backfill", NAME, *span, "--json").document
    assert (told["name"], told["state"], told["total_count"], told["fired_count"]) == (
        f"{NAME}/backfills/b1",
        "RUNNING",
        30,
        0,
    )
    [request] = stored.requests
    assert not request.backfill.HasField("rate") and not request.backfill.HasField("overlap_policy")
    assert request.request_id


def test_a_dry_run_fires_nothing(rota: Any, stored: Scheduler) -> None:
    ran = rota("schedule", "backfill", "nightly", *SPAN, "--dry-run")
    assert stored.sent.validate_only
    assert (ran.code, ran.err) == (Exit.OK, "Nothing was fired.\n")
    assert lines(ran)[-1] == ["occurrences", "30"]
    assert rota("schedule", "backfill", "nightly", *SPAN, "--dry-run", "--json").document["total_count"] == 30


def progress(end: Any) -> list[pb.Backfill]:
    made = [
        pb.Backfill(state=RUNNING, total_count=30),
        pb.Backfill(state=RUNNING, total_count=30, done_count=10, fired_count=9, next_nominal_time=in_(-60)),
        pb.Backfill(state=RUNNING, total_count=30, done_count=10, fired_count=9, next_nominal_time=in_(-60)),
        pb.Backfill(state=end, total_count=30, done_count=30, fired_count=28),
    ]
    for one in made:
        one.name = f"{NAME}/backfills/b1"
    return made


@pytest.mark.parametrize(("end", "code"), [(SUCCEEDED, Exit.OK), (CANCELLED, Exit.REFUSED)])
def test_watch_shows_the_progress_to_the_end(end: Any, code: Exit, rota: Any, stored: Scheduler) -> None:
    stored.backfills = progress(end)
    ran = rota("schedule", "backfill", "nightly", *SPAN, "--watch")
    state = pb.BackfillState.Name(end).removeprefix("BACKFILL_STATE_")
    assert (ran.code, ran.out.splitlines()) == (
        code,
        [
            "2026-11-30T08:15:00Z  RUNNING     0 of 30 done, 0 fired",
            "2026-11-30T08:15:00Z  RUNNING     10 of 30 done, 9 fired, next 2026-11-30T08:14:00Z",
            f"2026-11-30T08:15:00Z  {state:10}  30 of 30 done, 28 fired",
        ],
    )
    stored.backfills = progress(end)
    told = rota("schedule", "backfill", "nightly", *SPAN, "--watch", "--json").documents
    assert [(b["state"], b["done_count"]) for b in told] == [("RUNNING", 0), ("RUNNING", 10), (state, 30)]


def test_a_backfill_goes_on_when_its_watcher_leaves(
    rota: Any, stored: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(schedulebackfill, "_changes", interrupted)
    ran = rota("schedule", "backfill", "nightly", *SPAN, "--watch")
    name = f"{NAME}/backfills/b1"
    assert (ran.code, ran.out) == (Exit.INTERRUPTED, "")
    assert ran.err == f"{name} goes on; `rota schedule cancel-backfill {name}` stops it\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--from", "2026-11-01"], "Missing option '--to'"),
        ([*SPAN, "--watch", "--dry-run"], "--watch: expected --dry-run or --watch, found both"),
        ([*SPAN, "--overlap-limit", "3"], "--overlap-limit: expected --overlap allow or buffer-all with it"),
        ([*SPAN, "--rate", "0"], "Invalid value for '--rate'"),
        ([*SPAN, "--reason", "\udcff"], "--reason: expected UTF-8 text"),
        (["--from", "soon", "--to", "later"], "--from: expected a time such as 2026-03-07"),
    ],
)
def test_backfill_refuses(options: list[str], message: str, rota: Any, stored: Scheduler) -> None:
    ran = rota("schedule", "backfill", "nightly", *options)
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert ran.err.startswith(f"error: {message}")
    assert stored.requests == []


def test_refused_fields_are_options(rota: Any, stored: Scheduler) -> None:
    stored.refuse_fields(backfill__end_time="must not lie in the future; give an earlier one")
    ran = rota("schedule", "backfill", "nightly", "--from", "2026-11-01T00:00:00Z", "--to", "2027-11-30T08:15:00Z")
    assert ran.err == "error: --to: must not lie in the future\nhint: give an earlier one\n"


def test_backfills_are_listed(rota: Any, stored: Scheduler) -> None:
    stored.backfills = [
        pb.Backfill(
            name=f"{NAME}/backfills/b{n}",
            state=SUCCEEDED,
            start_time=in_(-3600),
            end_time=in_(0),
            rate=10,
            total_count=30,
            done_count=30,
            fired_count=28,
            reason="an outage",
        )
        for n in range(3)
    ]
    ran = rota("schedule", "backfills", "nightly", "--limit", 2)
    assert stored.sent == pb.ListBackfillsRequest(parent=NAME, page_size=2)
    head, row, _ = ran.out.splitlines()
    assert head.split() == ["BACKFILL", "STATE", "FROM", "TO", "DONE", "FIRED", "RATE", "REASON"]
    assert " ".join(row.split()) == (
        "nightly/backfills/b0 SUCCEEDED 2026-11-30T07:15:00Z 2026-11-30T08:15:00Z 30/30 28 10/s an outage"
    )
    assert ran.err == "more: --page-token 2\n"
    assert len(rota("schedule", "backfills", "nightly", "--all", "--json").documents) == 3


@pytest.mark.parametrize("given", [f"{NAME}/backfills/b1", "nightly/backfills/b1", "nightly/b1"])
def test_a_backfill_is_cancelled_by_its_name(given: str, rota: Any, stored: Scheduler) -> None:
    ran = rota("schedule", "cancel-backfill", given)
    assert stored.sent == pb.CancelBackfillRequest(name=f"{NAME}/backfills/b1")
    assert lines(ran)[:2] == [["backfill", f"{NAME}/backfills/b1"], ["state", "CANCELLED"]]
    assert rota("schedule", "cancel-backfill", given, "--json").document["state"] == "CANCELLED"


@pytest.mark.parametrize("given", ["b1", "nightly/", "nightly/backfills/b1/x", "jobs/x/backfills/y"])
def test_what_names_no_backfill(given: str, rota: Any, stored: Scheduler) -> None:
    ran = rota("schedule", "cancel-backfill", given)
    assert (ran.code, stored.requests) == (Exit.USAGE, [])
    assert ran.err.startswith(f"error: BACKFILL: expected schedules/<id>/backfills/<id>, found '{given}'\nhint: ")


def occurrences() -> list[pb.Occurrence]:
    return [
        pb.Occurrence(
            name=f"{NAME}/occurrences/o3",
            nominal_time=in_(0),
            local_time="2026-11-30T09:15:00+01:00",
            origin=pb.OCCURRENCE_ORIGIN_RULE,
            fate=pb.OCCURRENCE_FATE_FIRED,
            job="jobs/j3",
            count=1,
        ),
        pb.Occurrence(
            nominal_time=in_(-60),
            local_time="2026-11-30T09:14:00+01:00",
            origin=pb.OCCURRENCE_ORIGIN_CATCH_UP,
            fate=pb.OCCURRENCE_FATE_SKIPPED_OVERLAP,
            reason="a job runs",
            blocking_job="jobs/j2",
            count=1,
        ),
        pb.Occurrence(
            nominal_time=in_(-6000),
            last_nominal_time=in_(-120),
            local_time="2026-11-30T07:35:00+01:00",
            origin=pb.OCCURRENCE_ORIGIN_RULE,
            fate=pb.OCCURRENCE_FATE_SUPPRESSED_PAUSED,
            count=98,
        ),
    ]


def test_history_shows_fates(rota: Any, stored: Scheduler) -> None:
    stored.occurrences = occurrences()
    head, *rows = rota("schedule", "history", "nightly").out.splitlines()
    assert head.split() == ["NOMINAL", "UTC", "FATE", "ORIGIN", "COUNT", "JOB", "REASON"]
    assert [" ".join(row.split()) for row in rows] == [
        "Mon 2026-11-30 09:15:00 +01:00 2026-11-30T08:15:00Z FIRED RULE jobs/j3",
        "Mon 2026-11-30 09:14:00 +01:00 2026-11-30T08:14:00Z SKIPPED_OVERLAP CATCH_UP a job runs; behind jobs/j2",
        "Mon 2026-11-30 07:35:00 +01:00 2026-11-30T06:35:00Z … 2026-11-30T08:13:00Z SUPPRESSED_PAUSED RULE 98",
    ]


def test_history_sends_its_filters(rota: Any, stored: Scheduler) -> None:
    stored.occurrences = occurrences()
    ran = rota("schedule", "history", "nightly", *SPAN, "--fate", "SKIPPED_OVERLAP", "--limit", 2, "--json")
    assert stored.sent == pb.ListOccurrencesRequest(
        parent=NAME,
        page_size=2,
        fate=pb.OCCURRENCE_FATE_SKIPPED_OVERLAP,
        start_time=datetime(2026, 10, 31, 23, tzinfo=UTC),
        end_time=T0,
    )
    first, second = ran.documents
    assert (first["fate"], first["nominal_time"], first["count"]) == ("FIRED", "2026-11-30T08:15:00.000Z", 1)
    assert (second["origin"], second["blocking_job"]) == ("CATCH_UP", "jobs/j2")
    assert ran.err == "more: --page-token 2\n"


def test_history_of_a_deleted_schedule_needs_no_zone(rota: Any, stored: Scheduler) -> None:
    stored.schedules.clear()
    stored.occurrences = occurrences()
    ran = rota("schedule", "history", "nightly", "--from", "2026-11-01T00:00:00Z")
    assert (ran.code, len(ran.out.splitlines())) == (Exit.OK, 4)
    assert rota("schedule", "history", "nightly", "--from", "2026-11-01").code == Exit.NOT_FOUND


def test_an_unknown_fate_is_refused(rota: Any, stored: Scheduler) -> None:
    ran = rota("schedule", "history", "nightly", "--fate", "lost")
    assert (ran.code, ran.err.partition(":")[0]) == (Exit.USAGE, "error")
    assert "Invalid value for '--fate'" in ran.err
