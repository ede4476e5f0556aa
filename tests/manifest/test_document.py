"""Manifests: what is read, and what is refused with which line, path and words."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from rota.domain.dst import GapPolicy
from rota.domain.dst import OverlapPolicy as DstOverlap
from rota.domain.errors import FieldViolation
from rota.domain.jitter import JitterMode
from rota.domain.rulespec import RuleKind
from rota.domain.schedule import Definition, MissedMode, OverlapMode
from rota.manifest import document
from rota.manifest.document import Document
from rota.manifest.problems import Refused

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
RUN = "command: run"


def read(text: str, default_set: str = "file", **more: Any) -> Document:
    return document.read(text, "file.yaml", default_set, NOW, **more)


def one(body: str) -> Definition:
    """The schedule of these lines."""
    indented = "".join(f"    {line}\n" for line in body.strip().splitlines())
    [item] = read(f"schedules:\n  a:\n{indented}").schedules
    return item.definition


def refused(text: str, default_set: str = "file") -> list[str]:
    with pytest.raises(Refused) as caught:
        read(text, default_set)
    return caught.value.lines


def payload(definition: Definition) -> Any:
    assert definition.job.payload.content_type == "application/json"
    return json.loads(definition.job.payload.data)


def test_everything_that_a_schedule_may_say() -> None:
    found = one(
        """
cron: "0 5 * * 1-5"
timezone: Europe/Berlin
start: 2027-01-01
end: 2027-07-01T12:00
max_count: 10
jitter: {span: 5m, mode: random}
exclude: {dates: [2027-05-01, --12-24]}
dst: {gap: skip, overlap: both}
missed: {policy: catch-up, late_tolerance: 2m, window: 2h, max: 7}
overlap: {policy: buffer-all, limit: 3}
pause_after_failures: 5
notes: Ask Ada.
labels: {team: billing, tier: 2, live: true}
job:
  type: invoices.send
  queue: mail
  priority: 7
  payload: {kind: monthly}
  headers: {origin: file}
  labels: {made: here}
  retry: {max_attempts: 3, initial_backoff: 2s, max_backoff: PT10M, multiplier: 1.5, non_retryable_types: [Bad]}
  timeouts: {start_by: 1h, run: 10m, total: 1d}
  concurrency_key: invoices
"""
    )
    timing, job = found.timing, found.job
    assert (timing.kind, timing.expression, timing.time_zone) == (RuleKind.CRON, "0 5 * * 1-5", "Europe/Berlin")
    assert timing.start == datetime(2026, 12, 31, 23, tzinfo=UTC)
    assert timing.end == datetime(2027, 7, 1, 10, tzinfo=UTC)
    assert (timing.max_count, timing.jitter_s, timing.jitter_mode) == (10, 300, JitterMode.RANDOM)
    assert timing.dates == ("2027-05-01", "--12-24")
    assert (timing.gap, timing.overlap) == (GapPolicy.SKIP, DstOverlap.BOTH)
    missed, overlap = found.missed, found.overlap
    assert (missed.mode, missed.late_tolerance_s) == (MissedMode.CATCH_UP, 120)
    assert (missed.catch_up_window_s, missed.catch_up_max) == (7200, 7)
    assert (overlap.mode, overlap.limit) == (OverlapMode.BUFFER_ALL, 3)
    assert (found.pause_after_failures, found.notes) == (5, "Ask Ada.")
    assert found.labels == {"team": "billing", "tier": "2", "live": "true"}
    assert (job.type, job.queue, job.priority, job.concurrency_key) == ("invoices.send", "mail", 7, "invoices")
    assert (payload(found), job.headers, job.labels) == ({"kind": "monthly"}, {"origin": "file"}, {"made": "here"})
    assert (job.retry.max_attempts, job.retry.initial_backoff_s, job.retry.max_backoff_s) == (3, 2, 600)
    assert (job.retry.multiplier, job.retry.non_retryable_types) == (1.5, ("Bad",))
    assert (job.timeouts.start_by_s, job.timeouts.run_s, job.timeouts.total_s) == (3600, 600, 86_400)


def test_what_is_not_said_is_as_the_server_has_it() -> None:
    found = one(f"every: 90s\n{RUN}")
    assert found == Definition(found.timing, found.job)
    assert (found.timing.every_s, found.timing.anchor, found.timing.time_zone) == (90, None, "UTC")
    assert (found.job.type, found.job.queue, payload(found)) == ("rota.exec", "commands", {"command": "run"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("at: 2027-03-14T02:30:00", {"local_time": "2027-03-14T02:30:00"}),
        ("at: 2027-03-14 02:30:00", {"local_time": "2027-03-14T02:30:00"}),
        ("at: 2027-03-14T02:30:00+01:00", {"run_time": datetime(2027, 3, 14, 1, 30, tzinfo=UTC)}),
        ("every: PT4H\nanchor: 2026-01-01T00:00:00Z", {"every_s": 14_400, "anchor": datetime(2026, 1, 1, tzinfo=UTC)}),
        ("every: 1h30m", {"every_s": 5400}),
        ("every: 45", {"every_s": 45}),
        ("rrule: FREQ=DAILY;BYHOUR=9", {"expression": "FREQ=DAILY;BYHOUR=9"}),
    ],
)
def test_the_other_kinds_of_rules(text: str, expected: dict[str, Any]) -> None:
    timing = one(f"{text}\n{RUN}").timing
    assert {name: getattr(timing, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("command: ./backup.sh --all", {"command": "./backup.sh --all"}),
        ("command: [rsync, -a, 8]", {"argv": ["rsync", "-a", "8"]}),
        (
            "command: {command: make, shell: /bin/bash, env: {A: 1, B: no}, dir: ~/x, user: ada, stdin: ''}",
            {
                "command": "make",
                "shell": "/bin/bash",
                "env": {"A": "1", "B": "no"},
                "dir": "~/x",
                "user": "ada",
                "stdin": "",
            },
        ),
        ("command: 'true'", {"command": "true"}),
    ],
)
def test_commands(text: str, expected: Any) -> None:
    assert payload(one(f"every: 5m\n{text}")) == expected


def test_a_command_takes_the_rest_from_its_job() -> None:
    job = one("every: 5m\ncommand: run\njob: {queue: slow, retry: {max_attempts: 1}}").job
    assert (job.type, job.queue, job.retry.max_attempts) == ("rota.exec", "slow", 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http: https://x.example/{{occurrence.time}}", {"url": "https://x.example/{{occurrence.time}}"}),
        (
            "http: {url: 'https://x/', method: PUT, headers: {X-A: 1}, body: {a: [1, null]}, auth: billing,"
            " timeout: 1m, success: [200, 3xx], retry: [], redirects: 2, in_doubt: ask,"
            " idempotency_window: 1d, template: false}",
            {
                "url": "https://x/",
                "method": "PUT",
                "headers": {"X-A": "1"},
                "body": {"a": [1, None]},
                "auth": "billing",
                "timeout": 60.0,
                "success": ["200", "3xx"],
                "retry": [],
                "redirects": 2,
                "in_doubt": "ask",
                "idempotency_window": 86400.0,
                "template": False,
            },
        ),
        ("http: {url: 'https://x/', body: no}", {"url": "https://x/", "body": "no"}),
    ],
)
def test_calls(text: str, expected: Any) -> None:
    job = one(f"every: 5m\n{text}").job
    assert (job.type, job.queue, job.payload.content_type) == ("rota.http", "http", "application/json")
    assert payload(one(f"every: 5m\n{text}")) == expected


@pytest.mark.parametrize(
    ("yaml", "value"),
    [
        ("{on: no, off: y}", {"on": "no", "off": "y"}),
        ("[12:30:00, 2026-03-08, 010, 0x1f, 1_000, 1e3]", ["12:30:00", "2026-03-08", "010", "0x1f", "1_000", "1e3"]),
        ("[1, -2, 1.5, true, null, ~, '5']", [1, -2, 1.5, True, None, None, "5"]),
        ("7", 7),
        ("null", None),
    ],
)
def test_payloads_are_read_as_yaml_1_2(yaml: str, value: Any) -> None:
    assert payload(one(f"every: 5m\njob: {{type: t, payload: {yaml}}}")) == value


def test_a_payload_of_text_goes_as_it_is() -> None:
    job = one("every: 5m\njob: {type: t, payload: hello}").job
    assert (job.payload.data, job.payload.content_type) == (b"hello", "text/plain; charset=utf-8")
    job = one("every: 5m\njob: {type: t, payload: <a/>, content_type: text/xml}").job
    assert (job.payload.data, job.payload.content_type) == (b"<a/>", "text/xml")


def test_lists_documents_anchors_and_calendars() -> None:
    found = read(
        """
x-usual: &usual {every: 5m, command: run}
schedules:
- {id: a, <<: *usual}
- {id: b, <<: *usual, every: 1h, exclude: {calendars: [holidays, calendars/site]}}
---
set: billing
calendars:
  holidays: [2026-12-25]
  long: {dates: [--01-01], notes: New Year, labels: {a: b}}
schedules:
  c: {cron: "@daily", command: run, paused: true}
---
""",
        "",
    )
    assert found.apply_set == "billing"
    assert [(item.id, item.paused, item.definition.timing.every_s) for item in found.schedules] == [
        ("a", False, 300),
        ("b", False, 3600),
        ("c", True, None),
    ]
    assert found.schedules[1].definition.timing.calendars == ("holidays", "site")
    assert [(calendar.id, calendar.dates, calendar.notes) for calendar in found.calendars] == [
        ("holidays", ("2026-12-25",), ""),
        ("long", ("--01-01",), "New Year"),
    ]


def test_the_dates_of_calendars_in_the_file_count() -> None:
    found = read(
        "calendars: {off: [2026-12-02]}\nschedules: {a: {cron: '0 5 * * *', exclude: {calendars: [off]}, command: run}}"
    )
    fire = found.schedules[0].rule.next_after(NOW)
    assert fire is not None
    assert fire.nominal == datetime(2026, 12, 3, 5, tzinfo=UTC)


def test_the_name_of_the_set() -> None:
    text = "schedules: {}"
    assert read(text).apply_set == "file"
    assert read(f"set: named\n{text}").apply_set == "named"
    assert read(f"set: named\n{text}", set_name="given").apply_set == "given"
    assert refused(text, "") == [
        "file.yaml: set: expected a name for what is managed together, found none; add set: NAME, or give --set"
    ]


REFUSALS = {
    # What people slip in, with where it is told and what to do.
    "schedules:\n  a:\n    cron: */5 * * * *\n": "file.yaml:3: expected YAML, found a value that begins with *; quote",
    "schedules:\n  a: {cron: @daily, command: run}": "file.yaml:2: expected YAML, found a value that begins with @; qu",
    "schedules:\n\ta: 1": "file.yaml:2: expected YAML, found a tab before the text; indent with blanks",
    "schedules:\n  a: {{ .Values.a }}\n  b: c: d": "render it first",
    "schedules: [a": "in what begins in line 1); correct the line",
    "": "file.yaml: expected schedules, found an empty file; write schedules: {} for none",
    "# nothing\n---\n": "file.yaml: expected schedules, found an empty file",
    "a": "file.yaml:1: expected a mapping with set, calendars, schedules, found 'a'",
    "sched: {}": "file.yaml:1: sched: expected a known key, found 'sched'; did you mean schedules?",
    "set: x": "file.yaml:1: expected schedules or calendars, found neither",
    "schedules:": "file.yaml:1: schedules: expected a mapping of ids to schedules, found nothing; write {} for no",
    "schedules:\n  a: {every: 5m, command: r}\n  a: {every: 5m, command: r}": (
        "file.yaml:3: schedules.a: expected each key once, found it in line 2 too; remove one"
    ),
    "schedules:\n- {id: a, every: 5m, command: r}\n- {id: a, every: 5m, command: r}": (
        "file.yaml:3: schedules.a: expected each id once, found it in line 2 too; rename or remove one"
    ),
    "schedules: {a: {every: 5m, command: r}}\n---\nschedules: {a: {every: 5m, command: r}}": (
        "file.yaml:3: schedules.a: expected each id once, found it in line 1 too"
    ),
    "schedules: [{every: 5m, command: r}]": "file.yaml:1: schedules[0].id: expected the key id, found none; add it",
    "schedules: {a: {id: b, every: 5m, command: r}}": "schedules.a.id: expected 'a' as its key says, found 'b'",
    "schedules: {-a: {every: 5m, command: r}}": "schedules.-a: expected 1 to 128 letters, digits or ._- as id",
    "set: a\nschedules: {}\n---\nset: b\nschedules: {}": "file.yaml:4: set: expected one set, found a and b",
    "schedules: !Ref {a: {}}": "schedules: expected a value without a tag, found '!Ref'",
    "schedules: {a: !Ref {every: 5m}}": "schedules.a: expected a value without a tag, found '!Ref'; leave the tag out",
    "schedules: {a: &a {every: 5m, job: {type: t, payload: *a}}}": "are there aliases in a ring?",
    "schedules: {a: {<<: b}}": "expected mappings after <<, found 'b'",
    "schedules: {a: &a {<<: *a}}": "expected one of cron, every",
}


@pytest.mark.parametrize("text", list(REFUSALS))
def test_files_that_are_refused(text: str) -> None:
    assert REFUSALS[text] in "\n".join(refused(text))


FIELDS = {
    # Below `schedules: a:`; the line counts from its first one.
    f"{RUN}": ":2: schedules.a: expected one of cron, every, rrule, at to say when, found none; give one",
    f"cron: '@daily'\nevery: 5m\n{RUN}": ":2: schedules.a: expected one of cron, every, rrule, at to say when, found c",
    f"crn: '@daily'\n{RUN}": ":3: schedules.a.crn: expected a known key, found 'crn'; did you mean cron?",
    f"every: 5m\ntimeZone: UTC\n{RUN}": ":4: schedules.a.timeZone: expected a known key, found 'timeZone'; did you mea",
    f"cron: 0 0 31 2 *\n{RUN}": ":3: schedules.a.cron: expected a date that comes in some year, found '0 0 31 2 *'; no",
    f"cron: 0 22-2 * * *\n{RUN}": ":3: schedules.a.cron: hour: expected a range that goes up, found '22-2'; write 22-2",
    f"cron: 0 5 * *\n{RUN}": ":3: schedules.a.cron: expected five fields",
    f"cron:\n{RUN}": ":3: schedules.a.cron: expected a cron expression in quotes, found nothing",
    f"every: 5 minutes\n{RUN}": ":3: schedules.a.every: expected a duration such as 90s, 5m or PT4H, found '5 minutes'",
    f"every: 1.5s\n{RUN}": ":3: schedules.a.every: expected whole seconds, found '1.5 s'; round it",
    f"every: P1M\n{RUN}": ":3: schedules.a.every: expected an ISO 8601 duration",
    f"every: 0s\n{RUN}": ":3: schedules.a.every: expected a duration from 1s to 3660d, found '0s'",
    f"rrule: FREQ=NEVER\n{RUN}": ":3: schedules.a.rrule: ",
    f"at: tomorrow\n{RUN}": ":3: schedules.a.at: expected a time as 2026-03-08T02:30:00, or an instant with Z, found '",
    f"at: 2026-02-30T00:00\n{RUN}": ":3: schedules.a.at: expected a time such as 2026-03-08T02:30:00, found '2026-02-3",
    f"at: 2027-03-08\n{RUN}": ":3: schedules.a.at: expected a local time such as 2026-03-08T02:30:00",
    f"at: 2046-03-08T00:00Z\n{RUN}": ":3: schedules.a.at: must be within ten years",
    f"cron: '@daily'\nanchor: 2026-01-01\n{RUN}": ":4: schedules.a.anchor: expected together with every, found with cr",
    f"every: 5m\ntimezone: PST\n{RUN}": ":4: schedules.a.timezone: expected",
    f"every: 5m\ntimezone: +02:00\n{RUN}": ":4: schedules.a.timezone: expected",
    f"cron: '@daily'\nstart: 2027-01-02\nend: 2027-01-01\n{RUN}": ":5: schedules.a.end: expected an instant after star",
    f"cron: 0 0 1 1 *\nstart: 2027-01-02\nend: 2027-01-03\n{RUN}": ":3: schedules.a.cron: expected at least one time t",
    f"every: 5m\nmax_count: 0\n{RUN}": ":4: schedules.a.max_count: expected a whole number from 1",
    f"every: 5m\nmax_count: '3'\n{RUN}": "found '3'; write it without quotes",
    f"every: 5m\nmax_count: 010\n{RUN}": ":4: schedules.a.max_count: expected a whole number",
    f"every: 5m\njitter: 25h\n{RUN}": ":4: schedules.a.jitter: expected a duration from 0s to 1d, found '25h'",
    f"every: 5m\njitter: {{mode: hash}}\n{RUN}": ":4: schedules.a.jitter.span: expected the key span, found none; add",
    f"every: 5m\nexclude: {{dates: [2026-02-30]}}\n{RUN}": ":4: schedules.a.exclude.dates: expected a date as 2026-12-",
    f"every: 5m\nexclude: {{dates: [tomorrow]}}\n{RUN}": ":4: schedules.a.exclude.dates[0]: expected a date as 2026-12",
    f"every: 5m\nmissed: never\n{RUN}": ":4: schedules.a.missed: expected one of skip, coalesce, catch-up, found 'neve",
    f"every: 5m\nmissed: catchup\n{RUN}": "did you mean catch-up?",
    f"every: 5m\noverlap: {{policy: skip, limit: 3}}\n{RUN}": ":4: schedules.a.overlap.limit: belongs to ALLOW and BUF",
    f"every: 5m\npaused: yes\n{RUN}": ":4: schedules.a.paused: expected true or false, found 'yes'",
    f"every: 5m\nlabels: [a]\n{RUN}": ":4: schedules.a.labels: expected a mapping of names to texts, found a list",
    f"every: 5m\nnotes: {{}}\n{RUN}": ":4: schedules.a.notes: expected a text, found a mapping",
    "every: 5m": ":2: schedules.a.job: expected a job with a type, a command, or http, found none",
    "every: 5m\njob: {queue: q}": ":4: schedules.a.job: expected a job with a type, a command, or http, found none",
    "every: 5m\njob: {type: t, priority: 10}": ":4: schedules.a.job.priority: expected a whole number from 0 to 9",
    "every: 5m\njob: {type: a b}": ":4: schedules.a.job.type: expected 1 to 128 letters",
    "every: 5m\njob: {type: t, headers: {rota-x: a}}": ":4: schedules.a.job.headers: must not use the reserved prefix",
    "every: 5m\njob: {type: t, retry: {multiplier: 11}}": "job.retry.multiplier: expected a number from 1 to 10, found",
    "every: 5m\njob: {type: t, payload: [1], content_type: a/b}": "job.content_type: expected beside a payload that is",
    f"every: 5m\njob: {{type: t}}\n{RUN}": ":4: schedules.a.job.type: expected no such key beside command, found one",
    "every: 5m\ncommand: {comand: x}": ":4: schedules.a.command.comand: expected a known key, found 'comand'; did you",
    "every: 5m\ncommand: {command: x, argv: [y]}": ":4: schedules.a.command.command: expected either command",
    "every: 5m\ncommand: {dir: here, command: x}": ":4: schedules.a.command.dir: expected an absolute folder",
    "every: 5m\ncommand: {command: x, env: {ROTA_JOB: y}}": "expected a name that the runner does not set itself",
    f"every: 5m\nhttp: https://x/\n{RUN}": ":2: schedules.a: expected command or http, found both",
    "every: 5m\nhttp: https://x/\njob: {payload: 1}": ":5: schedules.a.job.payload: expected no such key beside http",
    "every: 5m\nhttp: x.example": ":4: schedules.a.http: expected a URL, found 'x.example'",
    "every: 5m\nhttp: {method: GET}": ":4: schedules.a.http.url: expected the key url, found none",
    "every: 5m\nhttp: {url: 'https://x/', method: get}": ":4: schedules.a.http.method: expected one of GET",
    "every: 5m\nhttp: {url: 'https://x/', success: [20]}": ":4: schedules.a.http.success[0]: expected a status code",
    "every: 5m\nhttp: {url: 'https://x/', timeout: 2h}": ":4: schedules.a.http.timeout: expected a duration from",
    "every: 5m\nhttp: {url: 'https://u:p@x/'}": ":4: schedules.a.http.url: expected no user or password in it",
    "every: 5m\nhttp: {url: 'https://x/{{job.idd}}'}": ":4: schedules.a.http.url: expected a name that an attempt has",
    "every: 5m\nhttp: {url: 'https://x/', body: '{{x}}'}": ":4: schedules.a.http.body: expected a name that an attempt",
    "every: 5m\nhttp: {url: 'https://x/', headers: {Host: y}}": ":4: schedules.a.http: expected a header of the reque",
    "every: 5m\ncommand: []": ":4: schedules.a.command: expected 1 to 1000 items, found 0",
}


@pytest.mark.parametrize("body", list(FIELDS))
def test_schedules_that_are_refused(body: str) -> None:
    indented = "".join(f"    {line}\n" for line in body.splitlines())
    assert FIELDS[body] in "\n".join(refused(f"schedules:\n  a:\n{indented}"))


def test_everything_wrong_is_told_at_once_and_in_order() -> None:
    text = (
        "schedules:\n  a: {every: 5m}\n  b: {evry: 5m, command: r}\n"
        "  c: {every: 5m, command: r}\n  d: {cron: x, command: r}\n"
    )
    assert [line.split(": ")[0] for line in refused(text)] == ["file.yaml:2", "file.yaml:3", "file.yaml:5"]


def test_limits_of_a_file() -> None:
    many = "".join(f"  s{n}: {{every: 5m, command: r}}\n" for n in range(1001))
    assert "schedules: expected at most 1000 schedules, found 1001" in refused(f"schedules:\n{many}")[0]
    assert "expected at most 4194304 characters" in refused("#" * (4 * 1024 * 1024 + 1))[0]
    assert (
        "nested too deeply" in refused("schedules: " + "[" * 20_000)[0] or "expected YAML" in refused("[" * 20_000)[0]
    )


def test_refusals_of_the_server_are_told_at_the_line_of_the_file() -> None:
    found = read(
        "schedules:\n  a: {every: 5m, command: r}\n  b:\n    cron: '@daily'\n    missed: {window: 1h}\n    command: r"
    )
    given = [
        FieldViolation("schedules[1].schedule.missed_run_policy.catch_up_window", "too long"),
        FieldViolation("schedules[1].schedule.exclusions.calendars", "unknown"),
        FieldViolation("apply_set", "strange"),
    ]
    assert found.refused(given, "refused", "VALIDATION_FAILED").lines == [
        "file.yaml: apply_set: strange",
        "file.yaml:3: schedules.b.exclude.calendars: unknown",
        "file.yaml:5: schedules.b.missed.window: too long",
    ]
    assert found.refused([], "no", "NEVER_FIRES").lines == ["file.yaml: no"]
