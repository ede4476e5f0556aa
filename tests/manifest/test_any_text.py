"""Whatever a file holds, it is read or refused."""

import random
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from rota.manifest import cronjob, crontab, document
from rota.manifest.problems import Refused

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
ROOT = Path(__file__).parents[2]
YAML = (ROOT / "examples" / "schedules.yaml").read_text()
TAB = (ROOT / "examples" / "crontab").read_text()
MANIFEST = (Path(__file__).parent / "data" / "cronjobs" / "02-backup.yaml").read_text()
PIECES = (
    "\n",
    "  ",
    ":",
    "- ",
    "{",
    "}",
    "[",
    "]",
    "'",
    '"',
    "*",
    "&a",
    "*a",
    "%",
    "\\",
    "#",
    "0",
    "null",
    "~",
    "\t",
    "é",
    "\0",
)


def mangled(text: str, seed: int) -> str:
    """A text with some of its pieces gone, doubled or exchanged."""
    rng = random.Random(seed)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(text))
        cut = rng.choice((0, 0, 1, 2, 8, 40))
        text = text[:at] + rng.choice((*PIECES, "", text[at : at + 20])) + text[at + cut :]
    return text


def check(text: str) -> None:
    try:
        document.read(text, "file", "set", NOW)
    except Refused as refused:
        assert refused.lines
        assert all(line.startswith("file") for line in refused.lines)
    for options in (crontab.Options(False, "UTC"), crontab.Options(True, "Europe/Berlin")):
        found = crontab.read(text, "tab", "tab", options, NOW)
        assert len(found.document("set", NOW).schedules) == len(found.schedules)
    for job_type in ("", "t"):
        found = cronjob.read(text, "file", cronjob.Options(job_type=job_type), NOW)
        assert len(found.document("set", NOW).schedules) == len(found.schedules)
        assert all(row.notes for row in found.refused)


@settings(max_examples=60, deadline=None)
@given(st.text())
@example("? [a]\n: b")
@example("schedules: {? {a: b} : c}")
@example("a: &a\n  <<: [*a, *a]")
@example("!!python/object:os.system {}")
@example("schedules:\n  a: &a [*a]")
@example("kind: List\nitems: {a: b}")
@example("kind: List\nitems: [1, {kind: CronJob}]")
@example("kind: CronJob\napiVersion: batch/v1\nmetadata: {name: [a]}\nspec: 1")
@example("\ufeffschedules: {}")
def test_any_text(text: str) -> None:
    check(text)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from((YAML, TAB, MANIFEST)), st.integers(min_value=0))
def test_files_with_slips(text: str, seed: int) -> None:
    check(mangled(text, seed))
