"""Of jobs: their leases, outcomes, attempts and effects."""

from rota.domain import limits
from rota.domain.model import CancelMode, JobState, Outcome

from ..history import Event, fence_text
from ..target import APPLIED, REFUSED
from ..world import TENANT
from ..world import Outcome as Seed
from .base import ENDINGS, Found, ends_attempt, gone_nodes, latest_us

OVERRUN_S = 2.0


def fences_grow(seed: Seed) -> Found:
    for job, events in seed.history.by_job():
        newest = 0
        for event in events:
            if event.kind == "claimed":
                if event["fence"] <= newest:
                    yield f"job {job[-6:]} got fence {fence_text(event['fence'])} after {fence_text(newest)}", event
                newest = max(newest, event["fence"])


def one_lease_one_outcome(seed: Seed) -> Found:
    """A job is granted only while it waits; only the current lease's end counts; and nothing follows the last one."""
    for job, events in seed.history.by_job():
        name = job[-6:]
        held: tuple[int, str] | None = None
        cancelling = False
        over: Event | None = None
        for event in events:
            if event.kind not in ("created", "claimed", "cancelling", "withdrawn", *ENDINGS):
                continue
            if over is not None:
                yield f"job {name}: {event.kind} after it had ended at event {over.index}", event
                break
            if event.kind == "withdrawn":
                if held is not None:
                    yield f"job {name} was withdrawn although it had started", event
                over = event
                continue
            if event.kind == "claimed":
                if held is not None:
                    yield f"job {name} was granted while {fence_text(held[0])} was live", event
                held = event["fence"], event["session"]
                continue
            if event.kind == "cancelling":
                if held is None or held[0] != event["fence"]:
                    yield f"job {name}: a cancellation of {fence_text(event['fence'])} was taken", event
                cancelling = True
                continue
            if event.kind not in ENDINGS:
                continue
            ended = ends_attempt(event)
            if ended and (held is None or held[0] != event["fence"]):
                current = "none" if held is None else fence_text(held[0])
                yield f"job {name}: an outcome of {fence_text(event['fence'])} was taken, current: {current}", event
            if event.kind == "succeeded" and held is not None and held[1] != event["session"]:
                yield f"job {name}: an outcome of a session that never held the lease was taken", event
            if not ended and held is not None:
                yield f"job {name}: ended as if it waited while {fence_text(held[0])} was live", event
            if cancelling and event.kind == "requeued":
                yield f"job {name}: put back although it is being cancelled", event
            held = None
            if event.kind != "requeued":
                over = event


def nothing_early(seed: Seed) -> Found:
    """No grant before its due time, none after start_by, by the database's clock."""
    for job, events in seed.history.by_job():
        due_us, start_by_us, counted = 0, None, 0
        for event in events:
            if event.kind == "created":
                due_us, start_by_us = event["due_us"], event["start_by_us"]
            elif event.kind == "requeued":
                due_us, counted = event["due_us"], event["counted"]
            elif event.kind == "claimed":
                if event.db_us < due_us:
                    yield f"job {job[-6:]} was granted {(due_us - event.db_us) / 1e6:.3f} s before it was due", event
                if start_by_us is not None and not counted and event.db_us >= start_by_us:
                    yield f"job {job[-6:]} was granted after its start_by", event


def expired_in_time(seed: Seed) -> Found:
    """EXPIRED says: start_by has passed, and no attempt had counted."""
    latest = latest_us(seed)
    for job, events in seed.history.by_job():
        start_by_us, counted = None, 0
        for event in events:
            if event.kind == "created":
                start_by_us = event["start_by_us"]
            elif event.kind == "requeued":
                counted = event["counted"]
            elif event.kind == "finished" and event["state"] is JobState.EXPIRED:
                # Decided by a reading, which may be older than a step of the clock.
                if start_by_us is None or latest[event.index] < start_by_us:
                    yield f"job {job[-6:]} expired before its start_by", event
                if counted:
                    yield f"job {job[-6:]} expired although an attempt had counted", event


def within_total(seed: Seed) -> Found:
    """No further attempt is planned past the total timeout, and none is granted."""
    for job, events in seed.history.by_job():
        deadline_us = None
        for event in events:
            if event.kind == "created":
                deadline_us = event["deadline_us"]
            elif event.kind == "requeued" and deadline_us is not None and event["due_us"] > deadline_us:
                yield f"job {job[-6:]} is to be tried again after its total timeout", event
            elif event.kind == "claimed" and deadline_us is not None and event.db_us >= deadline_us:
                yield f"job {job[-6:]} was granted after its total timeout", event


def attempts_bounded(seed: Seed) -> Found:
    most: dict[str, int] = {}
    counted_before: dict[str, int] = {}
    for event in seed.history.of("created", *ENDINGS):
        if event.kind == "created":
            most[event["job"]] = event["max_attempts"]
            continue
        counted, attempt = event["counted"], event["attempt"]
        before = counted_before.get(event["job"], 0)
        counted_before[event["job"]] = counted
        free = event.get("outcome") in (Outcome.RELEASED, Outcome.UNDELIVERED)
        if free and counted > before and attempt - before <= limits.UNCOUNTED_ATTEMPTS_MAX:
            yield f"job {event['job'][-6:]}: an attempt counted although it was {event['outcome'].name}", event
        if counted > most[event["job"]]:
            yield f"job {event['job'][-6:]}: {counted} attempts counted of {most[event['job']]}", event
        if attempt - counted > limits.UNCOUNTED_ATTEMPTS_MAX + 1:
            yield f"job {event['job'][-6:]}: {attempt - counted} attempts did not count", event
        if event.kind == "requeued" and counted >= most[event["job"]]:
            yield f"job {event['job'][-6:]}: put back with no attempt left", event


def answers_are_true(seed: Seed) -> Found:
    """What a worker was told of its outcome is what is stored; and no outcome of a live lease is refused."""
    for job, events in seed.history.by_job():
        ended: dict[int, Event] = {}
        spans: dict[int, list[float]] = {}
        for event in events:
            if event.kind == "claimed":
                spans[event["fence"]] = [event.at, float("inf")]
            elif event.kind in ENDINGS and ends_attempt(event):
                ended.setdefault(event["fence"], event)
                spans.get(event["fence"], [0.0, 0.0])[1] = event.at
        for event in events:
            if event.kind != "settled":
                continue
            stored = ended.get(event["fence"])
            stored_as = None
            if stored is not None:
                stored_as = Outcome.SUCCEEDED if stored.kind == "succeeded" else stored["outcome"]
            if event["answer"] in ("taken", "duplicate"):
                if stored is None or stored.index > event.index or stored_as is not event["outcome"]:
                    yield f"job {job[-6:]}: {event['outcome'].name} was acknowledged, stored: {stored_as}", event
                continue
            begin, end = spans.get(event["fence"], (float("inf"), 0.0))
            if begin <= event["sent_at"] and event.at < end:
                yield f"job {job[-6:]}: the outcome of a live lease was refused: {event['answer']}", event


def creations_are_kept(seed: Seed) -> Found:
    """An acknowledged job exists; a request_id makes one job, whatever happens to its answers."""
    jobs: dict[str, Event] = {}
    for event in seed.history.of("created"):
        request = event["request"]
        if request and request in jobs:
            yield f"{request} made two jobs", event
        if request:
            jobs[request] = event
    created = {event["job"] for event in seed.history.of("created")}
    for event in seed.history.of("acknowledged"):
        if event["job"] not in created:
            yield f"job {event['job'][-6:]} was acknowledged and never created", event
        if event["request"] in jobs and jobs[event["request"]]["job"] != event["job"]:
            yield f"{event['request']} was answered with another job than it made", event
    for event in seed.history.of("create refused"):
        if event["reason"] != "RESOURCE_EXISTS":
            yield f"{event['request']} was refused: {event['reason']} {event['message']}", event
        elif event["request"] in jobs and jobs[event["request"]].at < event["sent_at"]:
            yield f"{event['request']} made a job and was told that another one holds its key", event


def one_job_for_a_key(seed: Seed) -> Found:
    """While a dedupe key is held no second job is made for it."""
    holds: dict[str, tuple[str, int | None]] = {}
    over: set[str] = set()
    # A window that has ended once may be forgotten, whatever the clock says after a step.
    latest = latest_us(seed)
    for event in seed.history.of("created", *ENDINGS):
        if event.kind in ("succeeded", "finished", "buried"):
            over.add(event["job"])
        if event.kind != "created" or event["dedupe"] is None:
            continue
        holder = holds.get(event["dedupe"])
        if holder is not None:
            job, until_us = holder
            if (job not in over) if until_us is None else (latest[event.index] < until_us):
                yield f"two jobs hold the key {event['dedupe']}", event
        window_s = event["window_s"]
        until_us = None if window_s is None else event.db_us + round(window_s * 1e6)
        holds[event["dedupe"]] = event["job"], until_us


def spawned_with_success(seed: Seed) -> Found:
    """Jobs that a completion spawns exist if, and only if, it was taken: both of them, once."""
    children: dict[str, int] = {}
    for event in seed.history.of("created"):
        if event["parent"] is not None:
            children[event["parent"]] = children.get(event["parent"], 0) + 1
    kinds = {event["job"]: event["type"] for event in seed.history.of("created")}
    succeeded = {event["job"]: event for event in seed.history.of("succeeded")}
    for job, kind in kinds.items():
        expected = 2 if kind == "parent" and job in succeeded else 0
        if children.get(job, 0) != expected:
            yield f"job {job[-6:]} spawned {children.get(job, 0)} jobs, expected {expected}", succeeded.get(job)


def cancellations_are_true(seed: Seed) -> Found:
    """What a cancel was answered with is where the job ends."""
    last: dict[str, JobState] = {}
    started: set[str] = set()
    for event in seed.history.of("claimed", *ENDINGS):
        if event.kind == "claimed":
            started.add(event["job"])
        elif event.kind != "requeued":
            last[event["job"]] = JobState.SUCCEEDED if event.kind == "succeeded" else event["state"]
    for event in seed.history.of("cancel answer"):
        job, state, mode = event["job"], event["state"], event["mode"]
        name = f"job {job[-6:]}, cancelled by {mode.name}"
        if state is None:
            if event["refusal"] != "INVALID_STATE" or mode is not CancelMode.IF_NOT_STARTED or job not in started:
                yield f"{name}: refused with {event['refusal']}", event
        elif state.terminal:
            if job in last and last[job] is not state:
                yield f"{name}: answered {state.name}, ended {last[job].name}", event
        elif state is not JobState.CANCELLING or mode is not CancelMode.COOPERATIVE:
            yield f"{name}: answered {state.name}", event
        elif job in last and last[job] not in (JobState.CANCELLED, JobState.SUCCEEDED):
            yield f"{name}: answered CANCELLING, ended {last[job].name}", event


def effects_once(seed: Seed) -> Found:
    """A key is carried out once, never by an older fence after a newer one, and a success has its effect."""
    newest: dict[str, int] = {}
    applied: set[str] = set()
    done: set[str] = set()
    for event in seed.history.of("effect"):
        key, fence = event["key"], event["fence"]
        if event["verdict"] == REFUSED:
            continue
        if fence < newest.get(key, 0):
            yield f"the target took {fence_text(fence)} after {fence_text(newest[key])} of {key}", event
        newest[key] = max(newest.get(key, 0), fence)
        if event["verdict"] == APPLIED and key in applied:
            yield f"{key} was carried out twice", event
        applied.add(key)
        done.add(event["job"])
    for event in seed.history.of("succeeded"):
        if event["job"] not in done:
            yield f"job {event['job'][-6:]} succeeded without its effect", event


def in_one_place(seed: Seed) -> Found:
    """A job is in exactly one table; one that was withdrawn in none."""
    withdrawn = {event["job"] for event in seed.history.of("withdrawn")}
    keys = [table.keys() for table in (seed.tables.jobs, seed.tables.finished, seed.tables.dead)]
    for event in seed.history.of("created"):
        places = sum((TENANT, event["job"]) in table for table in keys)
        if places != (event["job"] not in withdrawn):
            yield f"job {event['job'][-6:]} is in {places} tables", event


def everything_ends(seed: Seed) -> Found:
    """After the last fault every job becomes terminal, and every caller gets an answer."""
    if seed.finished:
        return
    left = [id[-6:] for _, id in seed.tables.jobs]
    yield f"{len(left)} jobs did not end ({' '.join(left[:5])}), or a client waits", None


def run_timeouts_hold(seed: Seed) -> Found:
    """No lease outlives its run timeout by more than a tick or two."""
    run_s = {event["job"]: event["run_s"] for event in seed.history.of("created")}
    gone = gone_nodes(seed)
    for job, events in seed.history.by_job():
        since: Event | None = None
        for event in events:
            if event.kind == "claimed":
                since = event
            elif event.kind in ENDINGS and since is not None:
                over_s = event.at - since.at - run_s[job]
                if over_s > OVERRUN_S and not gone(since.at, event.at):
                    yield f"job {job[-6:]} ran {over_s:.1f} s longer than it may", event
                since = None


def no_attempt_is_wasted(seed: Seed) -> Found:
    """Without faults every attempt ends by its worker's word, or by the run timeout of a handler that is too slow."""
    long = {event["job"] for event in seed.history.of("created") if event["type"] == "long"}
    leaving: set[str] = set()
    for event in seed.history.of("leaving", "requeued", "finished", "buried", "calm"):
        if event.kind == "calm":
            # Workers may be gathered at one coordinator then, and a move may waste an attempt: see `faults.Plan`.
            return
        if event.kind == "leaving":
            # A claim that is on its way to it then, or made by a coordinator that does not know yet, is in vain.
            leaving.add(event["session"])
            continue
        lost = event["outcome"] in (Outcome.LEASE_LOST, Outcome.UNDELIVERED)
        wasted = lost and event["session"] not in leaving
        if wasted or (event["outcome"] is Outcome.TIMED_OUT and event["job"] not in long):
            yield f"job {event['job'][-6:]}: an attempt ended as {event['outcome'].name}", event


def no_outcome_is_refused(seed: Seed) -> Found:
    """Without faults only those that were cut off are refused."""
    cut = {event["job"] for event in seed.history.of("finished") if event["state"] is JobState.CANCELLED}
    long = {event["job"] for event in seed.history.of("created") if event["type"] == "long"}
    for event in seed.history.of("settled", "calm"):
        if event.kind == "calm":
            return
        if event["answer"] not in ("taken", "duplicate") and event["job"] not in cut | long:
            yield f"job {event['job'][-6:]}: an outcome was refused: {event['answer']} {event['cause']}", event
