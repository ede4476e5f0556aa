"""What must hold in every world, read from its history alone: never from the code under test, nor from its memory.

Each function is one rule and yields what broke it. `check` runs those that a world's kind of trouble allows: the fewer
faults, the more must be perfect. Rules were added because a mutant lived; `mutants.py` shows what each is worth.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rota.coordinator.reaper import UNHEARD_S
from rota.domain import limits
from rota.domain.ids import epoch_of
from rota.domain.model import CancelMode, JobState, Outcome

from . import coordinator as coordinator_module
from .faults import Kind
from .history import Event, fence_text
from .target import APPLIED, REFUSED
from .world import Outcome as Seed

ENDINGS = ("succeeded", "requeued", "finished", "buried")

LOST_ANSWER_S = coordinator_module.DELIVERY_TTL_S + 1.0 + 0.5
"""Delivery TTL, one tick of the reaper, and the way there."""

NAMED_LOST_S = 0.5
"""From the poll that names another batch to the end of the leases that did not arrive."""

FORWARD_LOST_S = 4 * (coordinator_module.DELIVERY_TTL_S + UNHEARD_S) + 2.0
"""From a grant that never reached the peer that asked for it to its end. The worker is asked for its inventory again
and again, by messages that may be lost as well."""

FORWARD_BROKEN_S = 8 * (coordinator_module.DELIVERY_TTL_S + UNHEARD_S) + 2.0
"""The same where the links break on which it is asked and answered."""

CLAIM_S = 0.05
"""A claim takes less, where the store is well."""

LOCAL_WAIT_S = 0.5
"""How long a due job may lie beside a waiting worker of its only coordinator."""

OVERRUN_S = 2.0

REMOTE_WAIT_S = 4.0
"""The same where another coordinator created it or put it back, and the hint was lost: a rescan finds it."""

FLEET_WAIT_S = 0.5
"""How long it may lie beside a waiting worker of any coordinator where nothing is lost, even while members come and
leave. Only when all start at once they do not know yet what others have taken, and a rescan finds the job."""

LOST_CLAIMS_WAIT_S = 8.0
"""The same where claims of peers are lost, which takes a second each time."""

BROKEN_LINKS_WAIT_S = 16.0
"""The same where links break too, which is noticed after seconds."""

SETTLE_S = coordinator_module.TERM_S
"""So long after somebody came or left each has its share."""

HAND_OVER_S = 0.5
"""From the moment that somebody gives a shard up to the one that another has it."""


@dataclass(frozen=True, slots=True)
class Violation:
    rule: str
    text: str
    at: Event | None = None


Found = Iterator[tuple[str, Event | None]]


def check(seed: Seed) -> list[Violation]:
    """Everything that is wrong with a run."""
    rules = list(ALWAYS)
    kind = seed.plan.kind
    if kind in (Kind.CALM, Kind.OUTAGE):
        rules += UNDISTURBED
    if kind in (Kind.CALM, Kind.LOSSY):
        rules += PROMPT
    if kind is Kind.CALM:
        rules += PERFECT
    return [Violation(rule.__name__, text, event) for rule in rules for text, event in rule(seed)]


# In any world


def no_bugs(seed: Seed) -> Found:
    """No unexpected exception, no deadlock, no standing loop."""
    for event in seed.history.of("bug"):
        yield f"{event['method']}: {event['error']}", event


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
            if event.kind not in ("created", "claimed", "cancelling", *ENDINGS):
                continue
            if over is not None:
                yield f"job {name}: {event.kind} after it had ended at event {over.index}", event
                break
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
            ended = _ends_attempt(event)
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
    latest = _latest_us(seed)
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
    """No further attempt is planned past the total timeout."""
    for job, events in seed.history.by_job():
        deadline_us = None
        for event in events:
            if event.kind == "created":
                deadline_us = event["deadline_us"]
            elif event.kind == "requeued" and deadline_us is not None and event["due_us"] > deadline_us:
                yield f"job {job[-6:]} is to be tried again after its total timeout", event


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


def one_owner(seed: Seed) -> Found:
    """Epochs grow, a living coordinator keeps its shards, and a claim carries owner and epoch as they are."""
    owners: dict[int, tuple[int, str | None]] = {}
    terms: dict[str, int] = {}
    addresses: dict[str, str] = {}
    for event in seed.history.of("registered", "renewed", "acquired", "released", "claimed"):
        if event.kind == "registered":
            for other in [c for c, address in addresses.items() if address == event["address"]]:
                terms.pop(other, None)
            addresses[event["coordinator"]] = event["address"]
        if event.kind in ("registered", "renewed"):
            if event.kind == "renewed" and terms.get(event["coordinator"], 0) <= event.db_us:
                yield f"the term of {event['coordinator'][-6:]} was renewed after its end", event
            terms[event["coordinator"]] = event["until_us"]
            continue
        epoch, owner = owners.get(event["shard"], (0, None))
        if event.kind == "claimed":
            if (epoch_of(event["fence"]), event["owner"]) != (epoch, owner):
                yield f"a claim in shard {event['shard']} was taken under a stale epoch", event
            continue
        if event.kind == "released" and event["owner"] != owner:
            yield f"shard {event['shard']} was given up by another than its owner", event
        if event["epoch"] <= epoch:
            yield f"shard {event['shard']} went from epoch {epoch} to {event['epoch']}", event
        if event.kind == "acquired" and terms.get(event["owner"], 0) <= event.db_us:
            yield f"shard {event['shard']} was taken by a coordinator whose term is over", event
        if event.kind == "acquired" and owner is not None and terms.get(owner, 0) > event.db_us:
            yield f"shard {event['shard']} was taken from a living owner", event
        owners[event["shard"]] = event["epoch"], event["owner"] if event.kind == "acquired" else None


def dead_sessions_stay_dead(seed: Seed) -> Found:
    closed: set[str] = set()
    for event in seed.history.of("closed", "beat"):
        if event.kind == "closed":
            closed.add(event["session"])
        elif event["session"] in closed:
            yield f"a beat of the dead session {event['session'][-6:]} was taken", event


def holders_keep_their_leases(seed: Seed) -> Found:
    """LEASE_LOST is said of dead sessions, and of leases that their worker does not hold, and of no others."""
    holding: set[tuple[str, int]] = set()
    closed: set[str] = set()
    killed: set[str] = set()
    for event in seed.history.of("received", "dropped", "settled", "killed", "closed", *ENDINGS):
        if event.kind == "received":
            holding.add((event["job"], event["fence"]))
        elif event.kind in ("dropped", "settled"):
            holding.discard((event["job"], event["fence"]))
        elif event.kind == "closed":
            closed.add(event["session"])
        elif event.kind == "killed":
            killed.add(event.get("session"))
        elif (
            event.get("outcome") is Outcome.LEASE_LOST
            and event["session"] not in closed | killed
            and (event["job"], event["fence"]) in holding
        ):
            yield f"job {event['job'][-6:]}: the lease of a living holder was called lost", event


def grants_are_committed(seed: Seed) -> Found:
    """Nothing reaches a worker before the claim has committed, and nothing of another session's."""
    claimed: dict[tuple[str, int], str] = {}
    for event in seed.history.of("claimed", "received"):
        key = event["job"], event["fence"]
        if event.kind == "claimed":
            claimed[key] = event["session"]
        elif claimed.get(key) != event["session"]:
            yield f"a worker got {fence_text(event['fence'])} of job {event['job'][-6:]}, which was not granted", event


def batches_grow(seed: Seed) -> Found:
    """An answer's batch is beyond the one that the call named, whichever coordinator gave that: or an inventory that
    names the older one would seem to speak of the newer."""
    named: dict[str, int] = {}
    for event in seed.history.of("asking", "answering", "answer lost"):
        if event.kind == "asking":
            named[event["request"]] = event["ack"]
        elif event["batch"] <= named[event["request"]]:
            yield f"batch {event['batch']} was given after {named[event['request']]}", event


def answers_are_true(seed: Seed) -> Found:
    """What a worker was told of its outcome is what is stored; and no outcome of a live lease is refused."""
    for job, events in seed.history.by_job():
        ended: dict[int, Event] = {}
        spans: dict[int, list[float]] = {}
        for event in events:
            if event.kind == "claimed":
                spans[event["fence"]] = [event.at, float("inf")]
            elif event.kind in ENDINGS and _ends_attempt(event):
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
    latest = _latest_us(seed)
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
    """A job is in exactly one table."""
    keys = [table.keys() for table in (seed.tables.jobs, seed.tables.finished, seed.tables.dead)]
    for event in seed.history.of("created"):
        places = sum(any(id == event["job"] for _, id in table) for table in keys)
        if places != 1:
            yield f"job {event['job'][-6:]} is in {places} tables", event


def everything_ends(seed: Seed) -> Found:
    """After the last fault every job becomes terminal, and every caller gets an answer."""
    if seed.finished:
        return
    left = [id[-6:] for _, id in seed.tables.jobs]
    yield f"{len(left)} jobs did not end ({' '.join(left[:5])}), or a client waits", None


# Where nothing was lost on the way


def living_sessions_live(seed: Seed) -> Found:
    """An outage of database or coordinators kills nobody: no session ends but by its worker's wish or death."""
    killed = {event.get("session") for event in seed.history.of("killed")}
    left = {event["session"] for event in seed.history.of("session over") if event["why"] == "left"}
    for event in seed.history.of("closed"):
        if event["why"] == "expired" and event["session"] not in killed | left:
            yield f"the session {event['session'][-6:]} of a living worker was expired", event


def lost_answers_are_found(seed: Seed) -> Found:
    """A lease whose answer did not arrive goes back within the delivery TTL; at once when the next poll says so."""
    sent: dict[tuple[str, int], Event] = {}
    received = {(e["job"], e["fence"]) for e in seed.history.of("received")}
    ended = {(e["job"], e["fence"]): e for e in seed.history.of(*ENDINGS) if _ends_attempt(e)}
    for event in seed.history.of("answering", "answer lost"):
        for key in event["leases"]:
            sent[key] = event
    gone = _gone_nodes(seed)
    forwarded = {(e["job"], e["fence"]) for e in seed.history.of("forwarded")}
    forwarded_s = FORWARD_BROKEN_S if seed.plan.link_breaks else FORWARD_LOST_S
    for event in seed.history.of("claimed"):
        key = event["job"], event["fence"]
        within_s = forwarded_s if key in forwarded else NAMED_LOST_S
        if key not in sent and not gone(event.at, event.at + within_s) and not _ended(ended, key, event, within_s):
            yield f"job {key[0][-6:]}: the caller had gone, and its lease lived on", event
    for key, event in sent.items():
        if event.kind == "answering" or key in received or gone(event.at, event.at + LOST_ANSWER_S):
            continue
        if not _ended(ended, key, event, LOST_ANSWER_S):
            yield f"job {key[0][-6:]}: an answer was lost, and its lease lived on", event
    overtaken = _overtaken_calls(seed)
    for event in seed.history.of("asking"):
        if event.index in overtaken:
            continue
        for key, answer in sent.items():
            mine = (answer["session"], answer["poller"]) == (event["session"], event["poller"])
            if not mine or answer.index > event.index or answer["request"] == event["request"] or key in received:
                continue
            if answer["batch"] == event["ack"] or answer.kind == "answering" or answer["node"] != event["node"]:
                continue
            if not _ended(ended, key, event, NAMED_LOST_S):
                yield f"job {key[0][-6:]}: the next poll named another batch, and its lease lived on", event
    for event in seed.history.of("inventory"):
        for key, answer in sent.items():
            spoken_of = answer.index < event.index and event["batches"].get(answer["poller"], 0) >= answer["batch"]
            if answer["session"] != event["session"] or not spoken_of or key in event["leases"]:
                continue
            if answer["node"] == event["node"] and not _ended(ended, key, event, NAMED_LOST_S):
                yield f"job {key[0][-6:]}: an inventory came without it, and its lease lived on", event


def repeated_calls_get_the_same(seed: Seed) -> Found:
    """A Lease call that comes again with its request_id gets its leases again, while they live."""
    answers: dict[tuple[str, str], Event] = {}
    ended = {(e["job"], e["fence"]): e for e in seed.history.of(*ENDINGS) if _ends_attempt(e)}
    waiting: dict[tuple[str, str], list[tuple[str, int]]] = {}
    overtaken = _overtaken_calls(seed)
    for event in seed.history.of("asking", "answering", "answer lost"):
        call = event["request"], event["node"]
        if event.kind == "asking":
            before = answers.get(call)
            if event.index in overtaken:
                continue
            if before is not None and event.at - before.at < coordinator_module.DELIVERY_TTL_S - NAMED_LOST_S:
                waiting[call] = [key for key in before["leases"] if not _ended_well(ended.get(key), event)]
            continue
        for key in waiting.pop(call, ()):
            if key not in event["leases"]:
                yield f"job {key[0][-6:]}: the call came again and did not get it", event
        answers[call] = event


def _ended_well(end: Event | None, asking: Event) -> bool:
    """Whether the lease is over before the answer, by other than taking the call for a fresh one."""
    if end is None or end.at > asking.at + NAMED_LOST_S:
        return False
    return end.index < asking.index or end.get("outcome") is not Outcome.UNDELIVERED


def claims_are_for_somebody(seed: Seed) -> Found:
    """A claim is made for a call that waits: it travels in an answer, or its call ended while it was made."""
    sent = {key for event in seed.history.of("answering", "answer lost") for key in event["leases"]}
    ends: dict[tuple[str, str], list[float]] = {}
    for event in seed.history.of("asked"):
        ends.setdefault((event["session"], event["node"]), []).append(event.at)
    gone = _gone_nodes(seed)
    # What a peer granted is its own matter: the way to it may be lost, and the caller may go meanwhile.
    sent |= {(event["job"], event["fence"]) for event in seed.history.of("forwarded")}
    for event in seed.history.of("claimed"):
        if (event["job"], event["fence"]) in sent or gone(event.at - NAMED_LOST_S, event.at + NAMED_LOST_S):
            continue
        if not any(abs(at - event.at) < CLAIM_S for at in ends.get((event["session"], event["owner"]), ())):
            yield f"job {event['job'][-6:]} was claimed for a call that had ended", event


def run_timeouts_hold(seed: Seed) -> Found:
    """No lease outlives its run timeout by more than a tick or two."""
    run_s = {event["job"]: event["run_s"] for event in seed.history.of("created")}
    gone = _gone_nodes(seed)
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


def no_idle_beside_work(seed: Seed) -> Found:
    """A due job does not lie beside a waiting worker, of its owner or of whatever coordinator."""
    bound_s = LOCAL_WAIT_S if seed.plan.coordinators == 1 else REMOTE_WAIT_S
    lossy_s = BROKEN_LINKS_WAIT_S if seed.plan.link_breaks else LOST_CLAIMS_WAIT_S
    starts = _first_starts(seed)
    polls: dict[tuple[str, str, int], float] = {}
    idle: dict[str, list[tuple[float, float]]] = {}
    for event in seed.history.of("asking", "asked"):
        key = event["node"], event["request"], event["poller"]
        if event.kind == "asking":
            polls.setdefault(key, event.at)
        elif key in polls:
            idle.setdefault(event["node"], []).append((polls.pop(key), event.at))
    owners: dict[int, list[tuple[float, str | None]]] = {}
    for event in seed.history.of("acquired", "released"):
        owners.setdefault(event["shard"], []).append((event.at, event["owner"] if event.kind == "acquired" else None))
    everybody = [span for spans in idle.values() for span in spans]
    anywhere = {owner: everybody for spans in owners.values() for _, owner in spans if owner is not None}
    for job, events in seed.history.by_job():
        since: float | None = None
        shard = 0
        for event in events:
            if event.kind in ("created", "requeued"):
                shard = event.get("shard", shard)
                since = event.at + max(event["due_us"] - event.db_us, 0) / 1e6
            elif event.kind == "claimed" and since is not None:
                waited_s = _overlap(since, event.at, owners.get(shard, []), idle)
                if waited_s > bound_s:
                    yield f"job {job[-6:]} lay {waited_s:.2f} s beside a waiting worker", event
                waited_s = _overlap(since, event.at, owners.get(shard, []), anywhere)
                starting = any(since - coordinator_module.TERM_S < start < event.at for start in starts)
                calm_s = REMOTE_WAIT_S if starting else FLEET_WAIT_S
                if waited_s > (calm_s if seed.plan.kind is Kind.CALM else lossy_s):
                    yield f"job {job[-6:]} lay {waited_s:.2f} s beside a waiting worker of some coordinator", event
                since = None


def shares_settle(seed: Seed) -> Found:
    """Soon after somebody came or left each has its share, and from then on no shard moves."""
    owners: dict[int, str] = {}
    up: set[str] = set()
    since = 0.0
    changes = seed.history.of("acquired", "released", "started", "draining", "killed", "calm")
    for event in [*changes, *seed.history.events[-1:]]:
        settled = event.at > since + SETTLE_S
        if event.kind in ("acquired", "released"):
            if settled:
                yield f"shard {event['shard']} moved, although nobody came or left", event
            owners.pop(event["shard"], None)
            if event.kind == "acquired":
                owners[event["shard"]] = event["owner"]
            continue
        owned = [list(owners.values()).count(coordinator) for coordinator in up]
        if settled and owned and (sum(owned) != seed.tables.shard_count or max(owned) - min(owned) > 1):
            yield f"coordinators own {sorted(owned)} shards", event
        if event.kind == "started":
            up.add(event["coordinator"])
        elif event.kind in ("draining", "killed"):
            up.discard(event["coordinator"])
        since = event.at


def shards_are_handed_over(seed: Seed) -> Found:
    """Who gives a shard up says so, and whoever is to have it takes it at once."""
    up: set[str] = set()
    free: dict[int, Event] = {}
    for event in seed.history.of("acquired", "released", "started", "draining"):
        if event.kind == "started":
            up.add(event["coordinator"])
        elif event.kind == "draining":
            up.discard(event["coordinator"])
        elif event.kind == "released":
            if up - {event["owner"]}:
                free[event["shard"]] = event
        else:
            before = free.pop(event["shard"], None)
            if before is not None and event.at > before.at + HAND_OVER_S:
                yield f"shard {event['shard']} was nobody's for {event.at - before.at:.2f} s", event


# Where nothing went wrong at all


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


def drains_hand_over(seed: Seed) -> Found:
    """Who leaves in order owns nothing any more when it is gone."""
    owners: dict[int, str | None] = {}
    for event in seed.history.of("acquired", "released", "stopped"):
        if event.kind != "stopped":
            owners[event["shard"]] = event["owner"] if event.kind == "acquired" else None
        elif event["coordinator"] in owners.values():
            yield f"{event['process']} left without handing its shards over", event


ALWAYS: tuple[Callable[[Seed], Found], ...] = (
    no_bugs,
    fences_grow,
    one_lease_one_outcome,
    nothing_early,
    expired_in_time,
    within_total,
    attempts_bounded,
    one_owner,
    dead_sessions_stay_dead,
    holders_keep_their_leases,
    grants_are_committed,
    batches_grow,
    answers_are_true,
    creations_are_kept,
    one_job_for_a_key,
    spawned_with_success,
    cancellations_are_true,
    effects_once,
    in_one_place,
    everything_ends,
)
UNDISTURBED: tuple[Callable[[Seed], Found], ...] = (living_sessions_live,)
PROMPT: tuple[Callable[[Seed], Found], ...] = (
    lost_answers_are_found,
    repeated_calls_get_the_same,
    claims_are_for_somebody,
    run_timeouts_hold,
    no_idle_beside_work,
    shares_settle,
)
PERFECT: tuple[Callable[[Seed], Found], ...] = (
    no_attempt_is_wasted,
    no_outcome_is_refused,
    drains_hand_over,
    shards_are_handed_over,
)


def _latest_us(seed: Seed) -> list[int]:
    """The latest that the database's clock had said by each event."""
    return list(itertools.accumulate((event.db_us for event in seed.history.events), max))


def _ends_attempt(event: Event) -> bool:
    """Not a waiting job's cancellation or expiry."""
    return event.kind == "succeeded" or event["outcome"] is not None


def _ended(ended: dict[tuple[str, int], Event], key: tuple[str, int], event: Event, within_s: float) -> bool:
    end = ended.get(key)
    return end is not None and end.at - event.at <= within_s


def _overlap(
    begin: float,
    end: float,
    owners: list[tuple[float, str | None]],
    idle: dict[str, list[tuple[float, float]]],
) -> float:
    """The longest time within [begin, end] in which one poll waited at the coordinator that owned the shard."""
    longest = 0.0
    for number, (since, owner) in enumerate(owners):
        until = owners[number + 1][0] if number + 1 < len(owners) else float("inf")
        if owner is None:
            continue
        low, high = max(begin, since), min(end, until)
        spans = sorted((max(a, low), min(b, high)) for a, b in idle.get(owner, ()) if a < high and b > low)
        total, reached = 0.0, low
        for a, b in spans:
            total += max(b - max(a, reached), 0.0)
            reached = max(reached, b)
        longest = max(longest, total)
    return longest


def _overtaken_calls(seed: Seed) -> set[int]:
    """Copies of Lease calls that were under way for so long that their poller has gone on."""
    found: set[int] = set()
    newest: dict[tuple[str, int], str] = {}
    asked: set[str] = set()
    for event in seed.history.of("asking"):
        poller = event["session"], event["poller"]
        if event["request"] not in asked:
            newest[poller] = event["request"]
            asked.add(event["request"])
        elif newest[poller] != event["request"]:
            found.add(event.index)
    return found


def _first_starts(seed: Seed) -> list[float]:
    """When a coordinator came up while there was none."""
    found: list[float] = []
    up: set[str] = set()
    for event in seed.history.of("started", "draining"):
        if event.kind == "draining":
            up.discard(event["coordinator"])
            continue
        if not up:
            found.append(event.at)
        up.add(event["coordinator"])
    return found


def _gone_nodes(seed: Seed) -> Callable[[float, float], bool]:
    """Whether some coordinator left or came within a span of time."""
    instants = [event.at for event in seed.history.of("draining", "stopped", "started", "killed")]
    return lambda begin, end: any(begin <= instant <= end for instant in instants)
