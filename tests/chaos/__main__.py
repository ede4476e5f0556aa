"""Three coordinators, six workers, two PostgreSQL servers and their network, all broken at random, under load.

    make chaos ARGS="--minutes 60 --seed 7"

Then all is healed, and the rows are read: every job that a client was told of is terminal, once, and has had its effect
once. The last thing printed is a table; the exit code is 1 when something was lost, doubled or wrong, or when too
little was broken for the run to mean anything. The processes' logs are kept when it fails, and where is said.
"""

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NoReturn

from .faults import Chaos
from .load import Late, Load
from .plane import Plane
from .verdict import Findings, Watch, fates, judge, shown, wait_until_terminal

ANSWERS_S = 60.0
FATES_S = 20.0
TERMINAL_S = 150.0

JOBS_SHARE = 0.3
"""Of those that the rate promises, so many at least are to be created in spite of all."""

KILLS_A_MINUTE = 2
PAUSES_A_MINUTE = 1
CUTS_A_MINUTE = 1

SHORT_S = 60.0
PAUSE_SHARE = 0.1
"""The longest pause of a short run, by its length."""


def run(folder: Path, seed: str, minutes: float, rate: float) -> tuple[Findings, Counter[str], float]:
    """The findings, what was done, and how long it took, in seconds."""
    span_s = minutes * 60
    with (
        # Ports are no part of the seed: two runs of one seed may go on at the same time.
        Plane(folder, random.SystemRandom()) as plane,
        Watch(plane) as watch,
        Load(plane, seed, rate) as load,
        Late(plane) as late,
    ):
        began = time.monotonic()
        with Chaos(plane, seed, pause_most_s=max(span_s * PAUSE_SHARE, 8.0)) as chaos:
            _wait(span_s, chaos)
        say(f"{len(chaos.happened)} faults in {time.monotonic() - began:.0f} s; healed")
        all_answered = load.finish(ANSWERS_S)
        wrong_fates = _settled_fates(plane.url)
        load.pause_schedules()
        wait_until_terminal(plane.url, TERMINAL_S)
        took_s = time.monotonic() - began
        say(f"all is over after {took_s:.0f} s")
        found = judge(plane, load.answered, late, chaos.happened)
    if not all_answered:
        found.wrong.append(f"calls were not answered within {ANSWERS_S:g} s after the last fault")
    found.wrong += [*wrong_fates, *dict.fromkeys(watch.wrong)]
    found.wrong += [f"the chaos itself failed: {type(error).__name__}: {error}" for error in chaos.failed]
    counts = chaos.count()
    found.wrong += _too_little(found, counts, minutes, rate, watch.looks)
    return found, counts, took_s


def _wait(span_s: float, chaos: Chaos) -> None:
    until = time.monotonic() + span_s
    while time.monotonic() < until and not chaos.failed:
        time.sleep(0.2)


def _settled_fates(url: str) -> list[str]:
    """Schedules that were behind may catch up first."""
    until = time.monotonic() + FATES_S
    while (wrong := fates(url)) and time.monotonic() < until:
        time.sleep(1.0)
    return wrong


def _too_little(found: Findings, counts: Counter[str], minutes: float, rate: float, looks: int) -> list[str]:
    least = {
        "jobs": (found.figures["jobs"], minutes * 60 * rate * JOBS_SHARE),
        "kills": (counts["killed"], minutes * KILLS_A_MINUTE),
        "pauses": (counts["paused"], minutes * PAUSES_A_MINUTE),
        "partitions": (counts["partitioned"], minutes * CUTS_A_MINUTE),
        "attempts that had to be recovered": (found.figures["attempts_recovered"], 1),
        "looks at the rows": (looks, minutes * 30),
    }
    return [
        f"expected at least {wanted:.0f} {what} for this to mean anything, found {had:.0f}"
        for what, (had, wanted) in least.items()
        if had < wanted
    ]


def table(found: Findings, counts: Counter[str]) -> str:
    rows: list[tuple[str, object]] = [
        *_by_kind(counts),
        *((name.replace("_", " "), f"{value:g}") for name, value in found.figures.items()),
        ("lost", len(found.lost)),
        ("doubled", len(found.doubled)),
        ("else wrong", len(found.wrong)),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value:>8}" for name, value in rows)


def _by_kind(counts: Counter[str]) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for what in ("killed", "stopped", "paused", "partitioned", "disturbed", "answers"):
        if counts[what]:
            found.append((what, counts[what]))
            found += [
                (f"  {key.removeprefix(what + ' ')}", n) for key, n in counts.items() if key.startswith(what + " ")
            ]
    return found


def say(words: str) -> None:
    print(f"chaos: {words}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="how long things break (10)")
    parser.add_argument("--seed", help="of all that is drawn; a fresh one by default")
    parser.add_argument("--rate", type=float, default=25.0, help="calls that create jobs, a second (25)")
    parser.add_argument("--folder", type=Path, help="for data and logs; a temporary one by default")
    parser.add_argument("--keep", action="store_true", help="keep the folder although nothing was wrong")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    given = parser.parse_args()
    seed = given.seed or str(random.SystemRandom().randrange(10**6))
    folder = given.folder or Path(tempfile.mkdtemp(prefix="rota-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    say(f"{given.minutes:g} minutes, seed {seed}, in {folder}")
    try:
        found, counts, took_s = run(folder, seed, given.minutes, given.rate)
    except KeyboardInterrupt:
        say(f"interrupted; everything it started is ended. Logs: {folder}")
        return 130
    except BaseException:
        say(f"came to nothing; logs: {folder}")
        raise
    verdict = {"seed": seed, "minutes": given.minutes, "seconds": round(took_s), "lost": len(found.lost)}
    verdict |= {"doubled": len(found.doubled), "wrong": len(found.wrong)} | found.figures | {"faults": dict(counts)}
    print(json.dumps(verdict) if given.json else table(found, counts), flush=True)
    for words in (found.lost, found.doubled, found.wrong):
        for line in shown(words):
            say(line)
    if found.clean and not given.keep and given.folder is None:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        (folder / "verdict.txt").write_text("\n".join([*found.lost, *found.doubled, *found.wrong]) + "\n")
        say(f"logs: {folder}")
    say(f"seed {seed}: " + ("nothing was lost, nothing was doubled" if found.clean else "NOT CLEAN"))
    return 0 if found.clean else 1


def _interrupt(number: int, frame: object) -> NoReturn:
    # A second one must not interrupt the ending.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
