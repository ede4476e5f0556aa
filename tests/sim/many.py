"""Many worlds, in several processes, and what is told of them: the same whatever number of processes it is."""

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from . import checks, mutants, world

A = TypeVar("A")
B = TypeVar("B")

LAST_EVENTS = 40
TOLD_MAX = 5
"""Violations of one world that are printed."""

DID = {
    "jobs": ("created",),
    "grants": ("claimed",),
    "outcomes": ("succeeded", "requeued", "finished", "buried"),
    "effects": ("effect",),
    "schedules": ("scheduled",),
    "fates": ("fate",),
    "changes": ("redefined", "withdrawing", "restored"),
    "terms": ("acquired",),
    "sessions": ("opened",),
}
BROKE = {
    "kills": ("killed",),
    "pauses": ("paused",),
    "drains": ("draining",),
    "refusals": ("refused",),
    "answers lost": ("unknown", "answer lost"),
    "links broken": ("unlinked",),
    "clock steps": ("clock step", "failover"),
    "outages": ("outage", "failover", "parted"),
    "slips": ("slip",),
}


@dataclass(frozen=True, slots=True)
class Report:
    """What is told of one world. Small, since it crosses processes."""

    seed: int
    counts: Counter[str]
    turns: int
    virtual_s: float
    finished: bool
    trouble: tuple[str, ...] = field(default=())


def run_seed(seed: int) -> Report:
    outcome = world.run(seed)
    violations = checks.check(outcome)
    trouble: list[str] = []
    if violations:
        trouble = [f"seed {seed}: {outcome.plan}"]
        trouble += [f"  {v.rule}: {v.text}\n    {v.at or ''}" for v in violations[:TOLD_MAX]]
        trouble += ["  the last events:", *(f"    {event}" for event in outcome.history.events[-LAST_EVENTS:])]
    counts = Counter(event.kind for event in outcome.history.events)
    return Report(seed, counts, outcome.turns, outcome.virtual_s, outcome.finished, tuple(trouble))


def run_seeds(seeds: Sequence[int], jobs: int) -> int:
    """Runs worlds and tells of each that broke a promise; how many did."""
    began = time.perf_counter()
    counts: Counter[str] = Counter()
    broken = turns = unfinished = 0
    virtual_s = 0.0
    with spread(jobs) as each:
        for report in each(run_seed, seeds):
            counts += report.counts
            turns += report.turns
            virtual_s += report.virtual_s
            unfinished += not report.finished
            broken += bool(report.trouble)
            for line in report.trouble:
                print(line, flush=True)
    for title, kinds in (("did", DID), ("broke", BROKE)):
        told = (f"{sum(counts[kind] for kind in names)} {name}" for name, names in kinds.items())
        print(f"{title + ':':<7}", ", ".join(told))
    took_s = time.perf_counter() - began
    print(
        f"{len(seeds)} worlds, {virtual_s / 60:.0f} virtual minutes in {took_s:.1f} s: {counts.total()} events, "
        f"{turns} loop turns, {unfinished} unfinished, {broken} broke a promise"
    )
    return broken + unfinished


def hunt(job: tuple[int, range]) -> mutants.Verdict:
    number, seeds = job
    return mutants.hunt(mutants.ALL[number], seeds)


def run_mutants(seeds: range, jobs: int, only: str) -> int:
    """Hunts every mutant; how many were judged wrongly: missed, or caught although called equivalent."""
    began = time.perf_counter()
    chosen = [number for number, mutant in enumerate(mutants.ALL) if only in mutant.name]
    wrong = equivalent = worlds = 0
    planted: dict[str, str] = {}
    with spread(jobs) as each:
        for number, verdict in zip(chosen, each(hunt, [(number, seeds) for number in chosen]), strict=True):
            mutant = mutants.ALL[number]
            caught = verdict.seed is not None
            ok = caught != bool(mutant.equivalent)
            wrong += not ok
            equivalent += bool(mutant.equivalent)
            worlds += verdict.tried
            told = f"caught by seed {verdict.seed}: {verdict.violation}" if caught else mutant.equivalent or "MISSED"
            print(f"{'ok   ' if ok else 'WRONG'} {mutant.name}: {told}", flush=True)
            for place, name in mutants.PLANTED.items():
                if name == mutant.name:
                    planted[place] = f"{place} ({name}) by seed {verdict.seed}" if caught else f"{place}: MISSED"
    if planted:
        print("planted bugs found in:", ", ".join(planted.values()))
    print(
        f"{len(chosen)} mutants over up to {len(seeds)} seeds each, {worlds} worlds in "
        f"{time.perf_counter() - began:.1f} s: {len(chosen) - equivalent - wrong} killed, {equivalent} equivalent, "
        f"{wrong} judged wrongly"
    )
    return wrong


@contextmanager
def spread(jobs: int) -> Iterator[Callable[[Callable[[A], B], Sequence[A]], Iterator[B]]]:
    """Calls a function for each of some arguments, in several processes; the answers in order."""
    if jobs <= 1:
        yield lambda work, given: map(work, given)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        yield lambda work, given: pool.map(work, given)
