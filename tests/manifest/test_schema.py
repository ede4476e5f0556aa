"""The published JSON Schema says what the reader says."""

import json
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from jsonschema import Draft202012Validator

from rota.manifest import document, nodes, schema
from rota.manifest.problems import Problems, Refused
from tests.manifest.test_document import FIELDS

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))

# Told by the rules of the domain alone, which no schema can say.
DOMAIN_ONLY = (
    *("a.cron: expected a date that comes", "a.cron: hour", "a.cron: expected five", "a.rrule", "a.timezone"),
    *("whole seconds", "an ISO 8601", "such as 2026-03-08T02:30:00, found", "a local time", "within ten years"),
    *(
        "an instant after star",
        "at least one time",
        "dates: expected a date as",
        "a duration from",
        "belongs to ALLOW",
        "reserved prefix",
        "beside a payload",
    ),
    "runner does not set",
    "no user or password in it",
    "a name that an attempt",
    "a header of the reque",
)


def valid(text: str) -> bool:
    validator = Draft202012Validator(schema.schema())
    for node in nodes.documents(text, "file"):
        problems = Problems("file")
        value = nodes.plain(node, "", problems)
        assert not problems
        if not validator.is_valid(value):
            return False
    return True


def test_the_published_file_is_fresh() -> None:
    published = files("rota.manifest").joinpath("schema.json").read_text("utf-8")
    assert published == schema.text()
    Draft202012Validator.check_schema(json.loads(published))


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.name for path in EXAMPLES])
def test_the_examples_are_good_for_both(path: Path) -> None:
    text = path.read_text()
    assert document.read(text, path.name, path.stem, NOW).schedules
    assert valid(text)


GOOD = [
    "schedules: {}",
    "set: x\ncalendars: {a: [2026-12-25], b: {dates: [--12-25]}}",
    "schedules: [{id: a, every: 5m, command: [a, 1]}]",
    "x-common: &c {every: 90}\nschedules: {a: {<<: *c, job: {type: t, payload: {a: [1, null]}}}}",
    "schedules: {a: {at: 2027-03-08 02:30, timezone: Europe/Berlin, command: {argv: [x], stdin: ''}}}",
    "schedules: {a: {rrule: FREQ=DAILY, jitter: 5m, missed: skip, overlap: {policy: allow, limit: 2}, command: r}}",
    "schedules: {a: {every: 5m, http: https://x/, job: {retry: {max_attempts: 1}}}}",
    "schedules: {a: {every: 5m, http: {url: 'https://x/', success: [200, 3xx], timeout: 5, body: {a: [1]}}}}",
    "schedules: {a: {every: PT4H, anchor: 2026-01-01, labels: {a: 1, b: true}, command: r, job: {queue: q}}}",
]


@pytest.mark.parametrize("text", GOOD)
def test_good_files_are_good_for_both(text: str) -> None:
    document.read(text, "file", "set", NOW)
    assert valid(text)


@pytest.mark.parametrize("body", list(FIELDS))
def test_what_the_reader_refuses_the_schema_refuses(body: str) -> None:
    text = "schedules:\n  a:\n" + "".join(f"    {line}\n" for line in body.splitlines())
    with pytest.raises(Refused):
        document.read(text, "file", "set", NOW)
    assert valid(text) == any(words in FIELDS[body] for words in DOMAIN_ONLY), FIELDS[body]


@pytest.mark.parametrize(
    "text",
    [
        "sched: {}",
        "schedules:",
        "schedules: {-a: {every: 5m, command: r}}",
        "schedules: [{every: 5m, command: r}]",
        "a",
    ],
)
def test_files_that_both_refuse(text: str) -> None:
    with pytest.raises(Refused):
        document.read(text, "file", "set", NOW)
    assert not valid(text)


def test_editors_are_told_what_a_key_means() -> None:
    found = schema.schema()["$defs"]["schedule"]["properties"]
    assert all("description" in found[name] for name in found)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"schedules": {"a": {"every": "5m"}}}, schema.schema())
