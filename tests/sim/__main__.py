"""`python -m tests.sim`: worlds by the thousand, and the hunt for mutants.

python -m tests.sim --seeds 0..2000    runs these worlds; exits 1 when one breaks a promise, with its last events
python -m tests.sim --mutants          takes each guard away; exits 1 when a loss goes unnoticed
"""

import argparse
import sys
import time

from . import checks, mutants, world

LAST_EVENTS = 40
MUTANT_SEEDS = 200


def run_seeds(seeds: range) -> int:
    """Runs worlds and tells of each that broke a promise; how many did."""
    began = time.perf_counter()
    broken = turns = events = unfinished = 0
    for seed in seeds:
        outcome = world.run(seed)
        turns += outcome.turns
        events += len(outcome.history.events)
        unfinished += not outcome.finished
        violations = checks.check(outcome)
        if violations:
            broken += 1
            print(f"seed {seed}: {outcome.plan}")
            for violation in violations[:5]:
                print(f"  {violation}")
            print("  the last events:")
            for event in outcome.history.events[-LAST_EVENTS:]:
                print(f"    {event}")
    print(
        f"{len(seeds)} worlds in {time.perf_counter() - began:.1f} s: {events} events, {turns} loop turns, "
        f"{unfinished} unfinished, {broken} broke a promise"
    )
    return broken + unfinished


def run_mutants(seeds: range) -> int:
    """Hunts every mutant; how many were judged wrongly: missed, or caught although called equivalent."""
    wrong = 0
    for mutant in mutants.ALL:
        verdict = mutants.hunt(mutant, seeds)
        caught = verdict.seed is not None
        ok = caught != bool(mutant.equivalent)
        wrong += not ok
        told = f"caught by seed {verdict.seed}: {verdict.violation}" if caught else mutant.equivalent or "MISSED"
        print(f"{'ok   ' if ok else 'WRONG'} {mutant.name}: {told}", flush=True)
    print(f"{len(mutants.ALL)} mutants over {len(seeds)} seeds, {wrong} judged wrongly")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", metavar="A..B", default="0..200", help="from A up to but not B")
    parser.add_argument("--mutants", action="store_true", help="take each guard away instead")
    given = parser.parse_args()
    first, _, last = given.seeds.partition("..")
    seeds = range(int(first), int(last or int(first) + 1))
    return min(run_mutants(seeds) if given.mutants else run_seeds(seeds), 1)


if __name__ == "__main__":
    sys.exit(main())
