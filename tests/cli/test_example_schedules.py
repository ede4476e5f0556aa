"""The schedules of `rota dev --examples`: the files that are read, the run that is followed, and what is proven."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rota_sdk import Attempt, AttemptOutcome, Failure, Job, JobState, NotFound, Payload
from rota_sdk.codec import job as decode
from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

from rota.cli import devschedules
from rota.cli.checkschedules import UNSETTLED_S, ScheduleSummary, check
from rota.cli.devschedules import Brought, Stored
from rota.cli.driveschedules import PATIENCE_S, Happened, Row, ScheduleDrive
from rota.cli.show import LineView
from rota.cli.showschedules import ROWS_MAX, happened_line, schedule_summary_lines, schedule_table
from rota.clock import SystemClock
from rota.domain.errors import InvalidArgument
from rota.manifest import document
from rota.manifest.problems import Refused
from tests.cli.script import T0, in_, job

EXAMPLES = Path(__file__).parents[2] / "examples"
FILE = """
calendars:
  off: [2026-11-30]
schedules:
  tick: {every: 10s, anchor: 2026-11-30T08:15:00Z, command: date}
  never: {cron: "0 8 * * *", exclude: {calendars: [off]}, command: date}
"""


class ManualClock(SystemClock):
    at = T0

    def utc(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return (self.at - T0).total_seconds()


@dataclass
class FakeRemote:
    """Schedules, occurrences and jobs in memory, and the calls that a run makes."""

    kept: dict[str, pb.Schedule] = field(default_factory=dict)
    recorded: list[pb.Occurrence] = field(default_factory=list)
    jobs: dict[str, Job] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    @property
    def rota(self) -> "FakeRemote":
        return self

    schedules = calendars = rota

    def call(self, method: Callable[[Any], Any], request: Any) -> Any:
        self.calls.append(type(request).__name__)
        return method(request)

    def ApplySchedules(self, request: Any) -> Any:
        changes = []
        for wish in request.schedules:
            name = f"schedules/{wish.schedule_id}"
            action = pb.APPLY_ACTION_NONE if name in self.kept else pb.APPLY_ACTION_CREATE
            changes.append(pb.ApplyChange(name=name, action=action))
            if action == pb.APPLY_ACTION_CREATE and not request.validate_only:
                self.keep(name, wish.schedule, request.apply_set)
        return pb.ApplySchedulesResponse(changes=changes)

    def keep(self, name: str, schedule: pb.Schedule, apply_set: str) -> None:
        self.kept[name] = made = pb.Schedule(name=name, apply_set=apply_set, uid="6f0c", version=1)
        made.MergeFrom(schedule)
        made.state = pb.SCHEDULE_STATE_ACTIVE
        for time in (made.create_time, made.update_time, made.state_time):
            time.FromDatetime(T0)
        if made.HasField("interval") and not made.interval.HasField("anchor_time"):
            made.interval.anchor_time.FromDatetime(T0)

    def ListSchedules(self, request: Any) -> Any:
        found = [one for one in self.kept.values() if one.apply_set == request.apply_set]
        return pb.ListSchedulesResponse(schedules=found)

    def ListOccurrences(self, request: Any) -> Any:
        if request.parent not in self.kept:
            raise NotFound("RESOURCE_NOT_FOUND", request.parent)
        found = sorted(
            (one for one in self.recorded if one.name.startswith(request.parent + "/")),
            key=lambda one: (one.nominal_time.ToNanoseconds(), one.generation),
            reverse=True,
        )
        if request.HasField("end_time"):
            found = [one for one in found if one.nominal_time.ToNanoseconds() < request.end_time.ToNanoseconds()]
        start = int(request.page_token or 0)
        end = start + request.page_size
        token = str(end) if end < len(found) else ""
        return pb.ListOccurrencesResponse(occurrences=found[start:end], next_page_token=token)

    def GetCalendar(self, request: Any) -> Any:
        return pb.GetCalendarResponse(calendar=pb.Calendar(name=request.name, dates=["2026-11-30"]))

    def get_job(self, name: str) -> Job:
        if name not in self.jobs:
            raise NotFound("RESOURCE_NOT_FOUND", name)
        return self.jobs[name]

    def list_attempts(self, name: str) -> list[Attempt]:
        return self.attempts

    def record(self, second: float, fate: str = "FIRED", **values: Any) -> pb.Occurrence:
        """An occurrence of `tick`, with a job if it fired."""
        made = pb.Occurrence(
            name=f"schedules/tick/occurrences/{second}-{values.get('generation', 0)}",
            nominal_time=in_(second),
            due_time=in_(second),
            last_nominal_time=in_(second),
            fate=pb.OccurrenceFate.Value(f"OCCURRENCE_FATE_{fate}"),
            origin=pb.OCCURRENCE_ORIGIN_RULE,
            count=1,
        )
        made.MergeFrom(pb.Occurrence(**values))
        if fate == "FIRED":
            self.fire(made, second)
        self.recorded.append(made)
        return made

    def fire(self, occurrence: pb.Occurrence, second: float) -> None:
        occurrence.job = f"jobs/{second}"
        self.jobs[occurrence.job] = replace(decode(job()), name=occurrence.job, lease_time=None)

    def finish(self, second: float, state: JobState = JobState.SUCCEEDED, late_s: float = 0.004, **values: Any) -> None:
        name = f"jobs/{second}"
        started = in_(second) + timedelta(seconds=late_s)
        usual: dict[str, Any] = {"attempt": 1, "lease_time": started, "result": Payload.of({"output": "a\nlast \n\n"})}
        self.jobs[name] = replace(self.jobs[name], state=state, **usual | values)


@dataclass
class World:
    """A run of `tick`, which fires every ten seconds from T0 on."""

    remote: FakeRemote
    clock: ManualClock
    stored: list[Stored]
    drive: ScheduleDrive

    def look(self, second: float) -> None:
        self.clock.at = in_(second)
        self.drive.look()

    def row(self, id: str = "tick") -> Row:
        return next(row for row in self.drive.rows() if row.id == id)

    def check(self, second: float, *, complete: bool = True) -> ScheduleSummary:
        current = {name.removeprefix("schedules/"): one for name, one in self.remote.kept.items()}
        return check(self.remote, self.stored, current, in_(second), complete=complete)  # type: ignore[arg-type]


def bring_in(remote: FakeRemote, text: str = FILE) -> list[Brought]:
    source = devschedules.Source(document.read(text, "billing.yaml", "billing", T0))
    return devschedules.bring_in(remote, [source], ManualClock())  # type: ignore[arg-type]


@pytest.fixture
def world() -> World:
    remote, clock = FakeRemote(), ManualClock()
    [brought] = bring_in(remote)
    stored = list(brought.schedules)
    return World(remote, clock, stored, ScheduleDrive(remote, stored, clock))  # type: ignore[arg-type]


def load(folder: Path, **files: str) -> list[devschedules.Source]:
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return devschedules.load(folder)


def test_the_examples_of_the_repository_are_a_yaml_file_and_a_crontab() -> None:
    yaml, crontab = devschedules.load(EXAMPLES)
    assert [source.noun for source in (yaml, crontab)] == ["file", "crontab"]
    assert [source.document.apply_set for source in (yaml, crontab)] == ["schedules", "crontab"]
    assert crontab.about.startswith("times are those of ")
    assert devschedules.queues([yaml, crontab], "rota.exec") == {"commands"}
    # A run of 20 s is to show fires, by an interval and by a clock on a wall.
    rules = {item.id: item for item in yaml.document.schedules}
    now = SystemClock().utc()
    until = now + timedelta(seconds=20)
    soon = {id for id, item in rules.items() if len(item.rule.between(now, until, 10)) >= 2}
    assert {rules[id].definition.timing.kind.name for id in soon} == {"INTERVAL", "CRON"}


def test_a_folder_without_schedules_has_none(tmp_path: Path) -> None:
    assert load(tmp_path, jobs__json="{}", notes__txt="x") == []


def test_commands_and_calls_are_looked_for_in_the_queues_that_the_files_name(tmp_path: Path) -> None:
    from rota.cli import devexamples
    from rota.cli.output import Output

    sources = load(
        tmp_path,
        a__yaml="schedules:\n  a: {every: 5m, command: x, job: {queue: night}}\n  b: {every: 5m, job: {type: t}}\n",
        b__yml="schedules: {c: {every: 5m, http: https://x/}, d: {every: 5m, http: https://x/, job: {queue: slow}}}\n",
    )
    assert [source.document.apply_set for source in sources] == ["a", "b"]
    found = devexamples.read(tmp_path, Output())
    assert devexamples._exec(found)[-4:] == ["--queue", "commands", "--queue", "night"]
    calls = devexamples._queues(found, "rota.http")
    assert calls == {"http", "slow"}
    assert devexamples._http(calls)[-4:] == ["--queue", "http", "--queue", "slow"]
    assert devexamples._queues(replace(found, sources=[]), "rota.http") == set()


def test_what_cannot_be_taken_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(Refused) as refused:
        load(tmp_path, crontab="* * * * * date\n99 * * * * date\n")
    assert f"{tmp_path / 'crontab'}:2: " in refused.value.lines[0]
    with pytest.raises(Refused) as refused:
        load(tmp_path, crontab="", a__yaml="schedules: {a: {evry: 5m, command: x}}\n")
    assert "did you mean every?" in refused.value.lines[0]
    with pytest.raises(InvalidArgument) as twice:
        load(tmp_path, crontab="* * * * * date\n", a__yaml="schedules: {crontab-date: {every: 5m, command: x}}\n")
    assert "crontab: expected each id in one file, found 'crontab-date' in " in twice.value.message


def test_the_command_says_where_a_file_is_wrong(rota: Any, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("schedules:\n  a: {cron: 99 * * * *, command: x}\n  b: {every: 5m}\n")
    ran = rota("dev", "--examples", tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert [line.partition(": schedules.")[0] for line in ran.err.splitlines()] == [
        f"error: {tmp_path}/a.yaml:2",
        f"error: {tmp_path}/a.yaml:3",
    ]


def test_schedules_alone_are_an_example(tmp_path: Path) -> None:
    from rota.cli import devexamples
    from rota.cli.output import Output

    (tmp_path / "crontab").write_text("* * * * * date\n")
    found = devexamples.read(tmp_path, Output())
    assert (found.plan, found.worker, len(found.sources)) == ([], None, 1)
    (tmp_path / "jobs.json").write_text('{"jobs": [{"type": "a"}]}')
    with pytest.raises(InvalidArgument, match="expected a worker in"):
        devexamples.read(tmp_path, Output())


def test_a_second_time_changes_nothing() -> None:
    remote = FakeRemote()
    assert [one.counts for one in bring_in(remote)] == ["2 created"]
    assert [one.counts for one in bring_in(remote)] == ["nothing changes (2 as before)"]


def test_the_greeting_says_when_each_file_fires_first() -> None:
    brought = bring_in(FakeRemote())
    crontab = replace(brought[0], source=replace(brought[0].source, about="times are those of UTC, as the machine has"))
    lines = list(devschedules.greeting([crontab], in_(3), 20))
    assert lines == [
        "  billing.yaml  2 schedules; 2 created; times are those of UTC",
        "                the crontab's first fire comes at 08:15:10Z, in 7.0 s",
    ]
    assert list(devschedules.greeting(brought, in_(3), 5))[1].endswith("08:15:10Z, in 7.0 s, after this run")


def test_the_rule_is_reckoned_from_what_the_server_stored() -> None:
    remote = FakeRemote()
    text = "schedules:\n  e: {every: 7s, command: x}\n  m: {every: 7s, max_count: 3, command: x}\n"
    text += "  r: {rrule: FREQ=DAILY, command: x}\n"
    every, counted, rrule = bring_in(remote, text)[0].schedules
    assert every.rule is not None
    assert rrule.rule is not None
    assert [fire.due for fire in every.rule.between(T0, in_(15), 9)] == [in_(7), in_(14)]
    assert [fire.due.day for fire in rrule.rule.between(in_(60), in_(2 * 86_400 + 60), 9)] == [1, 2]
    assert counted.rule is None
    # It may have become this rule long after its creation.
    remote.kept["schedules/r"].version = 2
    assert bring_in(remote, text)[0].schedules[2].rule is None


def test_a_fire_is_seen_followed_and_told_once(world: World) -> None:
    assert (world.row().next_s, world.row().last) == (10.0, None)
    world.remote.record(10)
    # Made ahead of its time: it is nothing yet.
    world.remote.record(20)
    world.look(9)
    assert (world.row().last, world.drive.news()) == (None, [])
    world.look(10.5)
    row = world.row()
    assert (row.rule, row.fired, row.next_s) == ("every 10s", 1, 9.5)
    assert world.drive.waiting(in_(11))
    assert world.drive.news() == []
    world.remote.finish(10)
    world.look(11)
    assert not world.drive.waiting(in_(11))
    [told] = world.drive.news()
    assert (told.id, told.fate, told.state, told.late_s, told.said) == ("tick", "FIRED", "SUCCEEDED", 0.004, "last")
    assert world.drive.news() == []
    assert happened_line(told) == "tick  FIRED  08:15:10Z, started 4 ms after it, SUCCEEDED: last"


def test_of_a_call_its_status_is_told(world: World) -> None:
    world.remote.record(10)
    world.remote.finish(10, type="rota.http", result=Payload.of({"status": 204, "headers": {}, "body": ""}))
    world.look(11)
    assert [told.said for told in world.drive.news()] == ["204"]


def test_a_fire_that_goes_on_is_told_all_the_same(world: World) -> None:
    world.remote.record(10)
    world.remote.finish(10, JobState.LEASED, result=None)
    world.look(10.5)
    assert world.drive.news() == []
    world.clock.at = in_(10 + PATIENCE_S + 0.1)
    [told] = world.drive.news()
    assert happened_line(told) == "tick  FIRED  08:15:10Z, started 4 ms after it, LEASED"
    world.remote.record(20)
    world.look(20)
    assert [one.due for one in world.drive.news(rest=True)] == [in_(20)]


def test_the_first_attempt_counts_as_the_start(world: World) -> None:
    world.remote.record(10)
    world.remote.attempts = [
        Attempt("", number, 1, "", "", AttemptOutcome.FAILED, None, 0, (), in_(10 + number), None)  # type: ignore[arg-type]
        for number in (2, 1)
    ]
    failure = Failure("ExitCode", "exit code 3")
    world.remote.finish(10, JobState.DEAD, late_s=99, attempt=2, result=None, last_failure=failure)
    world.look(13)
    assert happened_line(world.drive.news()[0]).endswith("started 1.0 s after it, DEAD: ExitCode: exit code 3")
    summary = world.drive.verify(in_(13), complete=True)
    assert (summary.failed, summary.on_time, summary.p50_s, summary.max_s) == (1, 1, 1.0, 1.0)


def test_a_skipped_occurrence_is_told_with_its_reason(world: World) -> None:
    world.remote.record(10, "SKIPPED_OVERLAP", reason="an earlier job is not terminal")
    world.look(10.2)
    [told] = world.drive.news()
    assert happened_line(told) == "tick  SKIPPED_OVERLAP  08:15:10Z: an earlier job is not terminal"
    assert not world.drive.waiting(in_(11))
    assert (world.row().fired, world.row().last) == (0, told)


def test_one_that_waits_gets_its_fate_later(world: World) -> None:
    buffered = world.remote.record(10, "BUFFERED")
    world.remote.record(20)
    world.look(20.1)
    assert world.row().fired == 1
    buffered.fate = pb.OCCURRENCE_FATE_FIRED
    world.remote.fire(buffered, 10)
    for second in (10, 20):
        world.remote.finish(second, late_s=21 - second)
    world.look(22)
    assert world.row().fired == 2
    assert [(one.due, one.fate, one.late_s) for one in world.drive.news()] == [
        (in_(10), "FIRED", 11.0),
        (in_(20), "FIRED", 1.0),
    ]


def test_a_fire_by_hand_is_seen_and_is_none_of_the_rule(world: World) -> None:
    world.look(1)
    world.remote.record(3, generation=1, origin=pb.OCCURRENCE_ORIGIN_TRIGGER)
    world.remote.finish(3)
    world.remote.kept["schedules/tick"].last_job = "jobs/3"
    for second in (4, 4.5, 5, 5.5):
        world.look(second)
    assert happened_line(world.drive.news()[0]).startswith("tick  FIRED  08:15:03Z, TRIGGER, started 4 ms")
    assert world.drive.verify(in_(6), complete=True).document()["due"] == 0


def test_nothing_is_asked_while_nothing_can_be_new(world: World) -> None:
    world.look(0.5)
    world.remote.calls.clear()
    for tenth in range(6, 10):
        world.look(tenth / 10)
    assert world.remote.calls == ["ListSchedulesRequest"]


def test_every_occurrence_needs_a_fate(world: World) -> None:
    world.remote.record(10)
    world.remote.record(20, "SKIPPED_OVERLAP")
    world.remote.record(40)
    summary = world.check(45)
    assert (summary.due, summary.lost, dict(summary.fates)) == (4, 1, {"FIRED": 2, "SKIPPED_OVERLAP": 1})
    assert summary.document() == {
        "count": 2,
        "due": 4,
        "fired": 2,
        "on_time": 0,
        "failed": 0,
        "not_fired": {"SKIPPED_OVERLAP": 1},
        "lost": 1,
        "unchecked": 0,
        "p50_s": None,
        "max_s": None,
    }


def test_a_fire_by_hand_stands_for_no_occurrence_of_the_rule(world: World) -> None:
    world.remote.record(10, generation=1, origin=pb.OCCURRENCE_ORIGIN_BACKFILL)
    assert world.check(15).lost == 1


def test_a_row_of_one_fate_stands_for_all_between_its_ends(world: World) -> None:
    world.remote.record(-50, "SKIPPED_OVERLAP", count=9, last_nominal_time=in_(30))
    summary = world.check(35)
    assert (summary.due, summary.lost, dict(summary.fates)) == (3, 0, {"SKIPPED_OVERLAP": 3})


def test_many_occurrences_are_read_page_by_page(world: World) -> None:
    for number in range(1, 1_501):
        world.remote.record(10 * number)
    summary = world.check(15_005)
    assert (summary.due, summary.fates["FIRED"], summary.lost) == (1_500, 1_500, 0)


def test_after_ctrl_c_the_last_moments_are_not_judged(world: World) -> None:
    assert world.check(10 + UNSETTLED_S - 1, complete=False).document()["due"] == 0
    assert world.check(10 + UNSETTLED_S, complete=False).lost == 1


@pytest.mark.parametrize("change", ["version", "state", "uid", "gone"])
def test_what_was_changed_meanwhile_is_not_judged(change: str, world: World) -> None:
    schedule = world.remote.kept["schedules/tick"]
    if change == "gone":
        del world.remote.kept["schedules/tick"]
    elif change == "uid":
        schedule.uid = "another"
    else:
        setattr(schedule, change, 2)
    world.look(15)
    summary = world.drive.verify(in_(15), complete=True)
    assert (summary.unchecked, summary.due, summary.lost) == (1, 0, 0)
    assert not world.drive.waiting(in_(15))
    shown = {"state": "PAUSED", "gone": "DELETED"}.get(change, "ACTIVE")
    assert world.row().state == shown


def test_a_paused_schedule_is_expected_to_do_nothing() -> None:
    remote = FakeRemote()
    bring_in(remote)
    remote.kept["schedules/tick"].state = pb.SCHEDULE_STATE_PAUSED
    stored = list(bring_in(remote)[0].schedules)
    drive = ScheduleDrive(remote, stored, ManualClock())  # type: ignore[arg-type]
    drive.look()
    assert not drive.waiting(in_(30))
    assert drive.verify(in_(30), complete=True).document()["due"] == 0
    assert [row.state for row in drive.rows()] == ["ACTIVE", "PAUSED"]


def test_what_jitter_delays_into_the_run_is_of_the_run() -> None:
    remote = FakeRemote()
    text = "schedules: {tick: {every: 60s, anchor: 2026-11-30T08:14:30Z, jitter: 59s, command: x}}"
    [stored] = bring_in(remote, text)[0].schedules
    assert stored.rule is not None
    [fire] = stored.rule.between(in_(-31), in_(-29), 2)
    remote.record(-30, due_time=fire.due)
    late = replace(stored, since=fire.due - timedelta(seconds=1))
    summary = check(remote, [late], {"tick": stored.schedule}, fire.due, complete=True)  # type: ignore[arg-type]
    assert (summary.due, summary.lost) == (1, 0)
    clock = ManualClock()
    clock.at = fire.due
    drive = ScheduleDrive(remote, [late], clock)  # type: ignore[arg-type]
    drive.look()
    assert drive.rows()[0].fired == 1


def test_lines_tell_of_fires_at_once() -> None:
    stream, clock = StringIO(), ManualClock()
    view = LineView(stream, clock)
    clock.at = in_(1.2)
    view.tell(Happened("tick", in_(1), "FIRED", "RULE", state="SUCCEEDED", late_s=0.001, said="\x1b[2Jhi"))
    assert stream.getvalue() == ("    1 s  tick  FIRED  08:15:01Z, started 1 ms after it, SUCCEEDED: \\x1b[2Jhi\n")


def printed(rows: Sequence[Row], width: int) -> list[str]:
    stream = StringIO()
    Console(file=stream, width=width).print(schedule_table(rows, width))
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_the_table_fits_and_shows_output_where_there_is_room() -> None:
    last = Happened("tick", in_(10), "SKIPPED_OVERLAP", "RULE", said="it is noon")
    rows = [
        Row("a-rather-long-name-of-a-schedule", "*/10 2-8 * * 1-5", "ACTIVE", 4.4, 1234, last),
        Row("b", "@daily", "PAUSED", None, 0, None),
        Row("c", "@daily", "ACTIVE", 0.2, 0, None),
        Row("d", "@daily", "ACTIVE", 7_300.0, 0, None),
    ]
    wide = printed(rows, 160)
    assert wide[0].split() == ["SCHEDULE", "RULE", "NEXT", "LAST", "FATE", "LATE", "FIRED", "SAID"]
    assert wide[1].split("  ")[-1] == "it is noon"
    assert [line.split()[2] for line in wide[2:4]] == ["PAUSED", "now"]
    assert wide[4].endswith("in 2 h")
    narrow = printed(rows, 80)
    assert all(len(line) <= 80 for line in narrow)
    assert "in 4 s" in narrow[1]
    assert "SKIPPED_OVERLAP" in narrow[1]
    assert "1234" in narrow[1]


def test_of_many_schedules_those_that_fire_next_are_shown() -> None:
    rows = [Row(f"s{n:02}", "@daily", "ACTIVE", 100.0 - n if n % 2 else None, 0, None) for n in range(40)]
    lines = printed(rows, 120)
    assert len(lines) == ROWS_MAX + 2
    assert [line.split()[0] for line in lines[1:3]] == ["s17", "s19"]
    assert lines[-1] == "and 28 more"


def test_the_summary_is_in_words() -> None:
    summary = ScheduleSummary(3, due=5, lost=0, on_time=3, p50_s=0.004, max_s=1.5)
    summary.fates.update({"FIRED": 4, "SKIPPED_OVERLAP": 1})
    assert list(schedule_summary_lines(summary)) == [
        "schedules 3, due 5, fired 4, skipped_overlap 1, lost 0",
        "due to started: p50 4 ms, max 1.5 s; 3 within 1 s",
    ]
    lines = list(schedule_summary_lines(ScheduleSummary(3, failed=2, unchecked=1)))
    assert lines[1].startswith("2 of their jobs failed")
    assert lines[2].startswith("1 schedules were not checked")
