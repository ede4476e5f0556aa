"""What is sent is what the file says: the server reads back the same definition."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from rota.api.schedulecodec import definition
from rota.domain.text import Problems
from rota.manifest import cronjob, document, imported, wire

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
ROOT = Path(__file__).parents[2]

EVERYTHING = """
calendars: {x: [--12-25]}
schedules:
  a:
    rrule: FREQ=DAILY
    timezone: Europe/Berlin
    start: 2027-01-01
    end: 2028-01-01T00:00:00.5Z
    max_count: 3
    jitter: {span: 1.5s, mode: random}
    exclude: {dates: [--12-24], calendars: [x]}
    dst: {gap: shift, overlap: both}
    missed: {policy: catch-up, late_tolerance: 0s, window: 1h, max: 2}
    overlap: {policy: allow, limit: 2}
    pause_after_failures: 4
    notes: n
    labels: {a: b}
    job:
      {type: t, queue: q, priority: 0, payload: [1], headers: {h: i}, labels: {l: m}, concurrency_key: k,
       retry: {max_attempts: 2, initial_backoff: 0s, multiplier: 1, non_retryable_types: [E]},
       timeouts: {start_by: 1s, run: 2s, total: 3s}}
  b: {at: 2027-01-01T00:00:00, command: x}
  c: {at: 2027-01-01T00:00:00.25Z, command: x}
  d: {every: 2d, anchor: 2026-01-01, missed: skip, overlap: buffer-all, job: {type: t, payload: text}}
  e: {cron: "0 5 * * *", jitter: 5m, overlap: replace, dst: {gap: skip}, job: {type: t}}
"""


def files() -> dict[str, str]:
    found = {"everything": EVERYTHING, "example": (ROOT / "examples" / "schedules.yaml").read_text()}
    manifests = imported.Imported("cronjobs")
    for path in sorted((Path(__file__).parent / "data" / "cronjobs").iterdir()):
        cronjob.read(path.read_text(), path.name, cronjob.Options(), NOW, manifests)
    return found | {"cronjobs": imported.text(manifests.schedules, "set")}


@pytest.mark.parametrize("name", list(files()))
def test_the_server_reads_what_was_written(name: str) -> None:
    found = document.read(files()[name], name, "set", NOW)
    request = wire.request(found, prune=True, validate_only=True, request_id="r")
    assert (request.apply_set, request.prune, request.validate_only, request.request_id) == ("set", True, True, "r")
    assert [wish.schedule_id for wish in request.schedules] == [item.id for item in found.schedules]
    assert [wish.paused for wish in request.schedules] == [item.paused for item in found.schedules]
    for wish, item in zip(request.schedules, found.schedules, strict=True):
        problems = Problems()
        assert definition(problems, "schedule", wish.schedule) == item.definition
        problems.raise_any()
    assert [(one.calendar_id, tuple(one.calendar.dates)) for one in request.calendars] == [
        (calendar.id, calendar.dates) for calendar in found.calendars
    ]
