"""Of schedules: that every occurrence of a rule has one fate, in time, and what its policies say."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from rota.domain import limits
from rota.domain.jitter import JitterMode
from rota.domain.rule import Fire
from rota.domain.schedule import TICK, Definition, Fate, Origin, OverlapMode, ScheduleState, compiled
from rota.store.codec import instant, micros

from ..fake_store import UNWRITABLE
from ..history import Event
from ..world import Outcome as Seed
from .base import Found, latest_us

ENDED = ("succeeded", "finished", "buried")

RECOVERED_S = 10.0
"""So long after the last fault every schedule is on time again."""

LATE_S = 3.0
"""How long after its due time an occurrence of a schedule that nothing is wrong with has its fate."""

DISPLACED_S = 2.0
"""How long the newest of a schedule that replaces its jobs waits for the end of those that it replaces."""

PAUSED_S = 3.0
"""How long after so many dead jobs a schedule is paused that asks for it."""

NAMED_MAX = 100_000


def one_job_for_an_occurrence(seed: Seed) -> Found:
    """No two jobs of one (schedule, nominal time, generation); one that was withdrawn makes room."""
    jobs: dict[tuple[str, datetime, int], str] = {}
    keys: dict[str, tuple[str, datetime, int]] = {}
    for event in seed.history.of("created", "withdrawn"):
        if event.kind == "withdrawn":
            jobs.pop(keys[event["job"]], None)
        elif event["schedule"] is not None:
            key = keys[event["job"]] = event["schedule"], event["nominal"], event["generation"]
            if key in jobs:
                yield f"two jobs of {_name(*key)}", event
            jobs[key] = event["job"]


def timers_move_as_decided(seed: Seed) -> Found:
    """A timer moves from where it was when that was decided, under the shard's owner and epoch; it goes back only by a
    change, which makes a new version."""
    timers: dict[str, tuple[int, datetime]] = {}
    shards: dict[int, tuple[int, str | None]] = {}
    for event in seed.history.of("scheduled", "moved", "acquired", "released"):
        if event.kind in ("acquired", "released"):
            shards[event["shard"]] = event["epoch"], event["owner"] if event.kind == "acquired" else None
            continue
        name, now = event["schedule"], (event["version"], event["cursor"])
        if event.kind == "scheduled":
            timers[name] = now
            continue
        version, cursor = timers[name]
        if event["decided_on"] != (version, cursor):
            yield f"schedule {name[-6:]} moved by a decision about another moment", event
        if event["owner"] is not None and shards.get(event["shard"]) != (event["epoch"], event["owner"]):
            yield f"schedule {name[-6:]} was fired under a stale epoch", event
        if event["version"] < version or (event["cursor"] < cursor and event["version"] == version):
            yield f"schedule {name[-6:]} went back", event
        timers[name] = now


def decided_stays_decided(seed: Seed) -> Found:
    """A change takes back nothing of a schedule whose jobs are not made ahead, whatever the clock says."""
    policies: dict[str, Definition] = {}
    edits: dict[str, Definition] = {}
    timers: dict[str, tuple[ScheduleState, datetime]] = {}
    for event in seed.history.of("scheduled", "redefined", "moved"):
        name = event["schedule"]
        if event.kind == "redefined":
            edits[name] = event["definition"]
            continue
        if event.kind == "scheduled":
            policies[name] = event["definition"]
        elif name in edits:
            state, cursor = timers[name]
            made_ahead = policies[name].overlap.ahead and state is not ScheduleState.PAUSED
            if not made_ahead and event["cursor"] < cursor:
                yield f"an edit took back what was decided of schedule {name[-6:]}", event
            policies[name] = edits.pop(name)
        timers[name] = event["state"], event["cursor"]


def active_is_armed(seed: Seed) -> Found:
    """One that is active waits for something, but for a slip that nobody has put right yet."""
    slipped: set[str] = set()
    for event in seed.history.of("scheduled", "moved", "slip"):
        name = event["schedule"]
        if event.kind == "slip":
            slipped.add(name)
        elif event["arm"] is not None:
            slipped.discard(name)
        elif event["state"] is ScheduleState.ACTIVE and name not in slipped:
            yield f"schedule {name[-6:]} is active, and waits for nothing", event


def overlap_as_asked(seed: Seed) -> Found:
    """Under every policy but ALLOW no two jobs of a schedule live at once, but by force; with a limit no more than
    that. And nothing waits or is skipped for jobs that are not there."""
    policies: dict[str, Definition] = {}
    live: dict[str, dict[str, None]] = {}
    of: dict[str, str] = {}
    for event in seed.history.of("scheduled", "redefined", "fate", "withdrawn", *ENDED):
        if event.kind in ENDED or event.kind == "withdrawn":
            schedule = of.pop(event["job"], None)
            if schedule is not None:
                del live[schedule][event["job"]]
                into = event.get("into")
                if into is not None:
                    live[schedule][into] = None
                    of[into] = schedule
            continue
        name = event["schedule"]
        if event.kind != "fate":
            policies[name] = event["definition"]
            continue
        overlap, running = policies[name].overlap, live.setdefault(name, {})
        most = overlap.limit if overlap.mode is OverlapMode.ALLOW else 1
        full = most is not None and len(running) >= most
        if event["fate"] is Fate.FIRED:
            if full and not event["forced"]:
                yield f"a job of schedule {name[-6:]} beside {len(running)} that live: {overlap.mode.name}", event
            running[event["makes"]] = None
            of[event["makes"]] = name
        elif event["fate"] in (Fate.BUFFERED, Fate.SKIPPED_OVERLAP) and not full:
            yield f"{_of(event)} is {event['fate'].name}, and nothing is in its way", event


def nothing_before_its_time(seed: Seed) -> Found:
    """No job before an occurrence is due, but those of the lookahead, which wait for it."""
    policies: dict[str, Definition] = {}
    latest = latest_us(seed)
    for event in seed.history.of("scheduled", "redefined", "fate", "created"):
        if event.kind in ("scheduled", "redefined"):
            policies[event["schedule"]] = event["definition"]
        elif event.kind == "created":
            if event["schedule"] is not None and event["due_us"] < micros(event["nominal"]):
                yield f"a job of {event['nominal']} may start before it", event
        elif event["fate"] in (Fate.FIRED, Fate.BUFFERED):
            now = instant(latest[event.index])
            ahead = policies[event["schedule"]].overlap.ahead
            early = event["nominal"] - now > timedelta(seconds=limits.MATERIALISE_AHEAD_S)
            if early if ahead else event["due"] > now:
                yield f"{_of(event)} is {event['fate'].name} before its time", event


def counts_are_the_ledgers(seed: Seed) -> Found:
    """Whenever a timer moves its counts are those of the fates that are written."""
    rows: dict[str, dict[datetime, tuple[Fate, int]]] = {}
    sums: dict[str, Counter[Fate]] = {}
    waiting: Counter[str] = Counter()
    for event in seed.history.of("fate", "restored", "moved"):
        name = event["schedule"]
        if event.kind == "moved":
            found = sums.get(name, Counter())
            counted = tuple(found[fate] if fate is not Fate.SUPERSEDED else 0 for fate in Fate)
            if counted != event["fates"]:
                yield f"schedule {name[-6:]} counts {event['fates']}, written: {counted}", event
            if event["buffered"] != waiting[name]:
                yield f"{event['buffered']} wait by schedule {name[-6:]}, written: {waiting[name]}", event
            continue
        if event.kind == "fate":
            waiting[name] += (event["fate"] is Fate.BUFFERED) - (event["was"] is Fate.BUFFERED)
        if event.get("generation"):
            continue
        written, counts = rows.setdefault(name, {}), sums.setdefault(name, Counter())
        old = written.pop(event["nominal"], None)
        if old is not None:
            counts[old[0]] -= old[1]
        if event.kind == "fate":
            written[event["nominal"]] = event["fate"], event["count"]
            counts[event["fate"]] += event["count"]


@dataclass(slots=True)
class Period:
    """Of one schedule under one rule: what this names in (start, end] is this period's."""

    definition: Definition
    start: datetime
    end: datetime
    changed_at: datetime | None = None
    """When the next one began; None: it did not."""
    state: ScheduleState = ScheduleState.ACTIVE


@dataclass(slots=True)
class Told:
    """All that the history says of a schedule, up to its deletion."""

    uid: str
    periods: list[Period]
    rows: dict[datetime, Event] = field(default_factory=dict)
    """The fates of the rule's own occurrences, without those that were superseded."""
    over: bool = False
    redefined: Definition | None = None


def every_occurrence_has_its_fate(seed: Seed) -> Found:
    """Up to its cursor each occurrence of a rule has one fate, and there is none that no rule named."""
    for told in _told(seed):
        rules = [compiled(period.definition.timing, told.uid, {}) for period in told.periods]
        for number, period in enumerate(told.periods):
            named = rules[number].between(period.start, period.end, NAMED_MAX, with_excluded=True)
            covered = Counter(fire.nominal for row in told.rows.values() for fire in _covered(row, named))
            for fire in named:
                if covered[fire.nominal] != 1:
                    yield f"schedule {told.uid[-6:]}: {covered[fire.nominal]} fates of {fire.nominal}", None
            if period.changed_at is not None and period.state is ScheduleState.ACTIVE:
                timing = period.definition.timing
                late = rules[number].between(period.end, period.changed_at, 1)
                in_order = timing.jitter_mode is not JitterMode.RANDOM and timing.max_count is None
                if in_order and late and late[0].due <= period.changed_at:
                    yield f"schedule {told.uid[-6:]}: an edit passed over {late[0].nominal}, which was due", None
        for row in told.rows.values():
            at = row["nominal"]
            if not any(rule.between(at - TICK, at, 1, with_excluded=True) for rule in rules):
                yield f"schedule {told.uid[-6:]}: no rule names {row['nominal']}", row


def nobody_is_held_up(seed: Seed) -> Found:
    """Soon after the last fault every schedule is on time."""
    calm, ending = seed.history.of("calm"), seed.history.of("ending")
    if not calm or not ending:
        return
    first, last = calm[0].db_us + round(RECOVERED_S * 1e6), ending[0].db_us - round(LATE_S * 1e6)
    states: dict[str, tuple[ScheduleState, int]] = {}
    # Their last occurrence, by max_count, is made ahead.
    full: set[str] = set()
    fates: dict[tuple[str, datetime], int] = {}
    for event in seed.history.of("scheduled", "moved", "fate"):
        if event.index > ending[0].index:
            break
        if event.kind == "moved":
            (full.add if event["due"] is None else full.discard)(event["schedule"])
        if event.kind == "fate":
            if not event["generation"]:
                fates.setdefault((event["schedule"], event["nominal"]), event.db_us)
        elif event["state"] is not states.get(event["schedule"], (None, 0))[0] or event.get("owner", "") is None:
            states[event["schedule"]] = event["state"], event.db_us
    gone = {e["schedule"] for e in seed.history.of("unscheduled") if e.index < ending[0].index}
    for told in _told(seed):
        state, since_us = states.get(told.uid, (None, 0))
        period = told.periods[-1]
        if state is not ScheduleState.ACTIVE or told.uid in gone | full or period.definition.job.type == UNWRITABLE:
            continue
        rule = compiled(period.definition.timing, told.uid, {})
        low = max(first, since_us + round(RECOVERED_S * 1e6))
        for fire in rule.between(instant(low), instant(last), NAMED_MAX):
            at_us = fates.get((told.uid, fire.nominal))
            due_us = micros(fire.due)
            if due_us > last or period.definition.timing.jitter_mode is JitterMode.RANDOM:
                continue
            if at_us is None or at_us > due_us + round(LATE_S * 1e6):
                yield f"schedule {told.uid[-6:]}: {fire.nominal} had no fate in time", None


def triggers_once(seed: Seed) -> Found:
    """Each trigger that was taken made one occurrence, however often it was sent; schedules are made when asked."""
    ids = {event["schedule"]: event["id"] for event in seed.history.of("scheduled")}
    found = Counter(
        ids[event["schedule"]]
        for event in seed.history.of("fate")
        if event["origin"] is Origin.TRIGGER and event["was"] is None
    )
    asked: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    for event in seed.history.of("steered"):
        # A deletion that was sent twice may come again after it, and before its answer.
        if event["method"] == "create_schedule" and event["refusal"] not in (None, "NEVER_FIRES", "REQUEST_ID_REUSED"):
            yield f"schedule {event['id']} could not be made: {event['refusal']}", event
        if event["method"] == "trigger":
            asked[event["id"]] += 1
            taken[event["id"]] += event["refusal"] is None
    for id in {*found, *taken} if seed.finished else ():
        if not taken[id] <= found[id] <= asked[id]:
            yield f"{found[id]} occurrences of {taken[id]} triggers of schedule {id}", None


def grants_are_current(seed: Seed) -> Found:
    """A job is handed out as what it is, not as what it was before its schedule was edited."""
    kinds = {event["job"]: event["type"] for event in seed.history.of("created")}
    for event in seed.history.of("claimed"):
        if event["type"] != kinds[event["job"]]:
            yield f"job {event['job'][-6:]} is {kinds[event['job']]}, and was handed out as {event['type']}", event


def displaced_in_time(seed: Seed) -> Found:
    """What replaces earlier jobs does not wait for their own end."""
    policies: dict[str, Definition] = {}
    waiting: dict[tuple[str, datetime, int], Event] = {}
    for event in seed.history.of("scheduled", "redefined", "fate", "unscheduled", "slip", "ending"):
        if event.kind == "ending":
            break
        name = event["schedule"]
        if event.kind in ("slip", "unscheduled"):
            waiting = {key: since for key, since in waiting.items() if key[0] != name}
        elif event.kind != "fate":
            policies[name] = event["definition"]
            waiting = {key: since for key, since in waiting.items() if key[0] != name}
        else:
            key = name, event["nominal"], event["generation"]
            since = waiting.pop(key, None)
            if since is not None and event.at - since.at > DISPLACED_S:
                yield f"{_of(event)} waited {event.at - since.at:.1f} s for those that it replaces", event
            if event["fate"] is Fate.BUFFERED and policies[name].overlap.mode is OverlapMode.REPLACE:
                waiting[key] = event


def failing_ones_pause(seed: Seed) -> Found:
    """A schedule whose jobs keep dying is paused when it asks for that."""
    policies: dict[str, Definition] = {}
    of: dict[str, str] = {}
    dead: Counter[str] = Counter()
    active: set[str] = set()
    since: dict[str, Event] = {}
    kinds = ("scheduled", "redefined", "moved", "created", "succeeded", "buried", "unscheduled", "slip", "ending")
    for event in seed.history.of(*kinds):
        for name, last in list(since.items()):
            if event.at > last.at + PAUSED_S:
                yield f"schedule {name[-6:]} goes on although its jobs die", last
                del since[name]
        if event.kind == "ending":
            break
        if event.kind == "created":
            if event["schedule"] is not None:
                of[event["job"]] = event["schedule"]
            continue
        name = of.get(event["job"], "") if event.kind in ("succeeded", "buried") else event["schedule"]
        if event.kind == "buried" and name in policies:
            dead[name] += 1
            most = policies[name].pause_after_failures
            if most and dead[name] >= most and name in active:
                since.setdefault(name, event)
            continue
        if event.kind in ("scheduled", "moved"):
            if (event["state"] is ScheduleState.ACTIVE) != (name in active):
                dead[name] = 0
            (active.add if event["state"] is ScheduleState.ACTIVE else active.discard)(name)
        if event.kind in ("scheduled", "redefined"):
            policies[name] = event["definition"]
        if event.kind == "unscheduled":
            policies.pop(name, None)
        if event.kind == "succeeded":
            dead[name] = 0
        if event.kind != "moved" or event["state"] is not ScheduleState.ACTIVE:
            since.pop(name, None)


def _told(seed: Seed) -> list[Told]:
    found: dict[str, Told] = {}
    for event in seed.history.of("scheduled", "redefined", "moved", "fate", "restored", "withdrawing"):
        name = event["schedule"]
        if event.kind == "scheduled":
            found[name] = Told(name, [Period(event["definition"], event["cursor"], event["cursor"])])
            continue
        told = found[name]
        if told.over:
            continue
        period = told.periods[-1]
        if event.kind == "withdrawing":
            # Of what a deletion takes along nothing is owed.
            told.over = event["all_jobs"]
        elif event.kind == "redefined":
            old, new = period.definition, event["definition"]
            told.redefined = new
            if (old.timing, old.overlap) == (new.timing, new.overlap):
                period.definition = new
                told.redefined = None
        elif event.kind == "moved":
            # When the clock went back, what earlier ones had fired may lie ahead again, and is taken back too.
            for earlier in told.periods[:-1]:
                earlier.end = min(earlier.end, event["cursor"])
                earlier.changed_at = min(earlier.changed_at or event["cursor"], event["cursor"])
            if told.redefined is not None:
                period.changed_at = event["cursor"]
                period.end = min(period.end, event["cursor"])
                told.periods.append(Period(told.redefined, event["cursor"], event["cursor"]))
                told.redefined = None
            else:
                period.end = event["cursor"]
            told.periods[-1].state = event["state"]
        elif event.kind == "restored" or event["fate"] is Fate.SUPERSEDED:
            if not event.get("generation"):
                told.rows.pop(event["nominal"], None)
        elif not event["generation"]:
            told.rows[event["nominal"]] = event
    return list(found.values())


def _covered(row: Event, named: list[Fire]) -> Iterator[Fire]:
    last = row["last"] or row["nominal"]
    return (fire for fire in named if row["nominal"] <= fire.nominal <= last)


def _name(uid: str, nominal: datetime, generation: int) -> str:
    return f"schedule {uid[-6:]} at {nominal:%H:%M:%S.%f}/{generation}"


def _of(event: Event) -> str:
    return _name(event["schedule"], event["nominal"], event["generation"])
