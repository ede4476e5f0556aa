"""`python -m tests.sim`: worlds by the thousand, and the hunt for mutants.

python -m tests.sim --seeds 0..2000    runs these worlds; exits 1 when one breaks a promise, with its last events
python -m tests.sim --replay           runs the worlds of seeds.txt again, which broke a promise once
python -m tests.sim --mutants          takes each guard away; exits 1 when a loss goes unnoticed

Worlds run in as many processes as there are processors, or as `--jobs` says; what is printed does not depend on that.
"""

import argparse
import os
import sys

from . import many, stories


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", metavar="A..B", default="0..200", help="from A up to but not B")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes; default: all processors")
    parser.add_argument("--mutants", action="store_true", help="take each guard away instead")
    parser.add_argument("--only", metavar="TEXT", default="", help="mutants whose name has this in it")
    parser.add_argument("--replay", action="store_true", help="the seeds of seeds.txt instead")
    given = parser.parse_args()
    first, _, last = given.seeds.partition("..")
    seeds = range(int(first), int(last or int(first) + 1))
    if given.mutants:
        return min(many.run_mutants(seeds, given.jobs, given.only), 1)
    return min(many.run_seeds(list(stories.SEEDS) if given.replay else seeds, given.jobs), 1)


if __name__ == "__main__":
    sys.exit(main())
