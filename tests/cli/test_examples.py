"""The examples of `rota dev`: the plan that is read, the run that is driven, and what is counted."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rota_sdk import Job, JobPage, JobState, NewJob, NotFound
from rota_sdk.codec import job as decode

from rota.cli import plan
from rota.cli.drive import Drive, Snapshot, Summary
from rota.cli.plan import Entry
from rota.cli.show import LineView, summary_lines
from rota.clock import SystemClock
from rota.domain.errors import InvalidArgument
from tests.cli.script import T0, job

EXAMPLES = Path(__file__).parents[2] / "examples"


class ManualClock(SystemClock):
    now = 100.0

    def monotonic(self) -> float:
        return self.now


class FakeRota:
    """Jobs in a dictionary; `settle` plays the worker."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.created: list[Any] = []
        self.by_key: dict[str, Job] = {}

    def create_job(self, **values: Any) -> Job:
        return self.create_jobs([NewJob(**values)])[0]

    def create_jobs(self, wanted: list[NewJob]) -> list[Job]:
        self.created += wanted
        answers = []
        for new in wanted:
            if new.dedupe is not None and new.dedupe.key in self.by_key:
                answers.append(self.by_key[new.dedupe.key])
                continue
            made = replace(decode(job(len(self.jobs))), type=new.type)
            self.jobs[made.name] = made
            if new.dedupe is not None:
                self.by_key[new.dedupe.key] = made
            answers.append(made)
        return answers

    def list_jobs(self, *, page_size: int) -> JobPage:
        return JobPage(tuple(reversed(self.jobs.values()))[:page_size], "")

    def get_job(self, name: str) -> Job:
        if name not in self.jobs:
            raise NotFound("RESOURCE_NOT_FOUND", name)
        return self.jobs[name]

    def settle(self, state: JobState, attempts: int = 1, waited_s: float = 0.01) -> None:
        for name, found in self.jobs.items():
            if not found.state.terminal:
                leased = T0 + timedelta(seconds=waited_s)
                self.jobs[name] = replace(
                    found, state=state, attempt=attempts, attempts_counted=attempts, lease_time=leased
                )


@pytest.fixture
def world() -> Callable[..., tuple[FakeRota, Drive, ManualClock]]:
    def make(*entries: Entry) -> tuple[FakeRota, Drive, ManualClock]:
        rota, clock = FakeRota(), ManualClock()
        return rota, Drive(rota, entries, clock), clock  # type: ignore[arg-type]

    return make


def test_each_kind_comes_at_its_own_rate_one_after_the_other(world: Any) -> None:
    rota, drive, clock = world(Entry("a", every=1.0, count=2), Entry("b", every=2.0))
    made = []
    for _ in range(5):
        drive.submit()
        made.append(dict(Counter(new.type for new in rota.created)))
        clock.now += 0.5
    assert made == [{"a": 2}, {"a": 2, "b": 1}, {"a": 4, "b": 1}, {"a": 4, "b": 1}, {"a": 6, "b": 1}]


def test_counts_latency_and_failed_attempts(world: Any) -> None:
    rota, drive, clock = world(Entry("a", every=1.0, count=99))
    drive.submit()
    rota.settle(JobState.SUCCEEDED, waited_s=0.010)
    drive.look()
    clock.now += 1.0
    drive.submit()
    rota.settle(JobState.DEAD, attempts=3, waited_s=0.5)
    drive.look()
    assert drive.verify(complete=True) == Summary(
        created=198, succeeded=99, failed_attempts=297, dead=99, lost=0, p50_ms=10.0, p99_ms=500.0
    )
    snapshot = drive.snapshot()
    assert (snapshot.states, snapshot.rate) == (Counter(SUCCEEDED=99, DEAD=99), 198 / 5)
    clock.now += 10
    assert drive.snapshot().rate == 0


def test_a_retried_success_has_failed_attempts_too(world: Any) -> None:
    rota, drive, _ = world(Entry("a"))
    drive.submit()
    rota.settle(JobState.SUCCEEDED, attempts=3)
    summary = drive.verify(complete=True)
    assert (summary.succeeded, summary.failed_attempts) == (1, 2)


def test_what_is_gone_or_never_ends_is_lost(world: Any) -> None:
    rota, drive, _ = world(Entry("a", count=3))
    drive.submit()
    gone, stuck, done = list(rota.jobs)
    rota.jobs[done] = replace(rota.jobs[done], state=JobState.SUCCEEDED)
    del rota.jobs[gone]
    assert drive.verify(complete=True).lost == 2
    interrupted = drive.verify(complete=False)
    assert (interrupted.lost, interrupted.unfinished) == (1, 1)
    assert rota.jobs[stuck].state == JobState.READY


def test_a_job_lost_after_it_was_seen_to_end_is_lost_all_the_same(world: Any) -> None:
    rota, drive, _ = world(Entry("a"))
    drive.submit()
    rota.settle(JobState.SUCCEEDED)
    drive.look()
    rota.jobs.clear()
    assert drive.verify(complete=True).lost == 1


def test_a_job_behind_the_page_is_read_by_itself(world: Any) -> None:
    rota, drive, clock = world(Entry("old", every=1e9), Entry("new", every=0.5, count=250))
    drive.submit()
    clock.now += 1
    drive.submit()
    rota.settle(JobState.SUCCEEDED)
    for _ in range(3):
        drive.look()
    assert drive.alive == 0


def test_a_deduplicated_job_counts_once(world: Any) -> None:
    _, drive, clock = world(Entry("a", every=1.0, count=3, batch=True, dedupe_key="k{n}"))
    drive.submit()
    clock.now += 1
    drive.submit()
    assert drive.snapshot().created == 3


def test_nothing_done_has_no_latency(world: Any) -> None:
    _, drive, _ = world(Entry("a"))
    assert drive.verify(complete=True).document() == {
        "created": 0,
        "succeeded": 0,
        "failed_attempts": 0,
        "dead": 0,
        "lost": 0,
        "p50_ms": None,
        "p99_ms": None,
    }


def test_entries_become_jobs() -> None:
    entry = Entry(
        "a", count=2, payload={"x": ["{n}/{round}", 3]}, delay=1.5, max_attempts=3, dedupe_key="d{n}", dedupe_window=9
    )
    first, second = entry.jobs(7)
    assert (first.payload, second.payload) == ({"x": ["1/7", 3]}, {"x": ["2/7", 3]})
    assert first.dedupe is not None
    assert first.retry is not None
    assert (first.delay, first.dedupe.key, first.dedupe.window, first.retry.max_attempts) == (1.5, "d1", 9, 3)


def test_the_examples_of_the_repository_are_a_plan_with_a_handler_for_each() -> None:
    entries = plan.load(EXAMPLES)
    worker = (EXAMPLES / "worker.py").read_text()
    for entry in entries:
        assert f'@worker.job("{entry.type}")' in worker
        assert f'"{entry.queue}"' in worker
    assert {"greet", "report", "flaky", "remind", "alarm", "broken", "index"} <= {entry.type for entry in entries}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", 'expected {"jobs": '),
        ('{"jobs": []}', 'expected {"jobs": '),
        ("{", "expected JSON, found otherwise"),
        ('{"jobs": [{}]}', 'jobs[0]: expected an object with at least "type"'),
        ('{"jobs": [{"type": "a"}, {"type": "b", "evry": "1s"}]}', "jobs[1].evry: no such key; did you mean every?"),
        ('{"jobs": [{"type": "a", "every": "often"}]}', "jobs[0].every: expected a duration"),
        ('{"jobs": [{"type": "a", "every": "1ms"}]}', "jobs[0].every: expected at least 0.1s"),
        ('{"jobs": [{"type": "a", "count": true}]}', "jobs[0].count: expected a number from 1 to 1000"),
        ('{"jobs": [{"type": "a", "count": 1001}]}', "jobs[0].count: expected a number from 1 to 1000"),
        ('{"jobs": [{"type": "a", "batch": 1}]}', "jobs[0].batch: expected true or false"),
        ('{"jobs": [{"type": "", "batch": true}]}', "jobs[0].type: expected a text"),
        ('{"jobs": [{"type": "a", "labels": {"x": 1}}]}', "jobs[0].labels: expected an object of texts"),
    ],
)
def test_a_plan_with_a_slip_is_refused_by_name(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "jobs.json").write_text(content)
    with pytest.raises(InvalidArgument) as caught:
        plan.load(tmp_path)
    assert message in caught.value.message


def test_a_folder_without_a_worker_is_refused(rota: Any, tmp_path: Path) -> None:
    (tmp_path / "jobs.json").write_text(json.dumps({"jobs": [{"type": "a"}]}))
    assert "--examples: expected a worker in" in rota("dev", "--examples", tmp_path).err


def test_lines_come_now_and_then() -> None:
    stream, clock = StringIO(), ManualClock()
    view = LineView(stream, clock)
    snapshot = Snapshot(5, Counter(SUCCEEDED=3, READY=2), (), 1.5, None, None)
    for _ in range(9):
        view.update(snapshot, "running")
        clock.now += 0.5
    line = "created 5: ready 2, succeeded 3; 1.5/s"
    assert stream.getvalue() == f"    2 s  running, {line}\n    4 s  running, {line}\n"


def test_the_summary_names_what_is_left() -> None:
    lines = summary_lines(Summary(9, 7, 2, 1, 0, 1.5, 20.0, unfinished=1))
    assert lines == [
        "created 9, succeeded 7, dead 1, lost 0; 2 failed attempts",
        "due to leased: p50 1.5 ms, p99 20 ms",
        "1 not finished yet: it goes on with the next start",
    ]
