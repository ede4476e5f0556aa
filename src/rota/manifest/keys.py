"""The keys of a manifest: what each may hold, in the order in which the schema shows them."""

from enum import IntEnum
from typing import Final

from rota.domain import limits, schedule
from rota.domain.dst import GapPolicy
from rota.domain.dst import OverlapPolicy as DstOverlap
from rota.domain.jitter import JitterMode
from rota.domain.schedule import MissedMode, OverlapMode
from rota.domain.text import QUEUE, TYPE
from rota.manifest.byid import ById
from rota.manifest.shapes import (
    Choice,
    Flag,
    Integer,
    Json,
    Key,
    Keys,
    ListOf,
    Number,
    OneOf,
    Scalar,
    Span,
    Text,
    TextMap,
)
from rota.targets.http import request, url

MAX_COUNT_MAX: Final = (1 << 62) - 1
ARGUMENTS_MAX: Final = 1_000
ENVIRONMENT_MAX: Final = 1_000

ID: Final = schedule.ID.pattern
_TIME: Final = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?)?"
)
_DATE: Final = "([0-9]{4}|-)-[0-9]{2}-[0-9]{2}"


def _words(kinds: type[IntEnum]) -> Choice:
    """The members of an enum as people write them: CATCH_UP is catch-up."""
    return Choice({kind.name.lower().replace("_", "-"): kind for kind in kinds})


_MISSED: Final = _words(MissedMode)
_OVERLAP: Final = _words(OverlapMode)
_GAP: Final = _words(GapPolicy)
_SECOND_PASS: Final = _words(DstOverlap)
_JITTER: Final = _words(JitterMode)


def _time(what: str) -> Text:
    return Text(40, what, _TIME)


def _free(bytes_max: int) -> Text:
    return Text(bytes_max, scalars=True)


_LABELS: Final = TextMap(limits.LABELS_MAX, limits.LABELS_BYTES_MAX)
_ID: Final = Key(Text(128, "an id", ID, scalars=True), "In a list: the id.")
_DATES: Final = ListOf(Text(10, "a date as 2026-12-25, or --12-25 for every year", _DATE), limits.CALENDAR_DATES_MAX)

_RETRY: Final = Keys(
    {
        "max_attempts": Key(Integer(1, limits.MAX_ATTEMPTS_MAX), "Attempts in all. Default 5."),
        "initial_backoff": Key(Span(0, limits.BACKOFF_MAX_S), "The bound of the first delay. Default 1s."),
        "max_backoff": Key(Span(0, limits.BACKOFF_MAX_S), "The bound of every delay. Default 1h."),
        "multiplier": Key(Number(1, limits.BACKOFF_MULTIPLIER_MAX), "Growth of the delay. Default 2."),
        "non_retryable_types": Key(
            ListOf(_free(limits.FAILURE_TYPE_BYTES_MAX), limits.NON_RETRYABLE_TYPES_MAX),
            "Types of failures that are never retried.",
        ),
    }
)

_TIMEOUTS: Final = Keys(
    {
        "start_by": Key(Span(1, limits.START_BY_MAX_S), "Not begun within this span after its time: EXPIRED."),
        "run": Key(Span(1, limits.RUN_TIMEOUT_MAX_S), "What one attempt may take. Default 1h."),
        "total": Key(Span(1, limits.TOTAL_TIMEOUT_MAX_S), "From its time, over all attempts."),
    }
)

_JOB: Final = Keys(
    {
        "type": Key(Text(128, "1 to 128 letters, digits or ._:/-, a letter or digit first", TYPE.pattern, True)),
        "queue": Key(
            Text(64, "1 to 64 letters, digits or ._-, a letter or digit first", QUEUE.pattern, True),
            "Default: default; for a command: commands, for http: http.",
        ),
        "priority": Key(Integer(0, limits.PRIORITY_MAX), "9 is first. Default 4."),
        "payload": Key(Json(), "What the handler gets: a text as it is, anything else as JSON."),
        "content_type": Key(_free(limits.CONTENT_TYPE_BYTES_MAX), "Of a payload that is a text."),
        "headers": Key(TextMap(limits.HEADERS_MAX, limits.HEADERS_BYTES_MAX), "Small texts beside the payload."),
        "labels": Key(_LABELS, "Labels of the jobs."),
        "retry": Key(_RETRY, "What follows a failure."),
        "timeouts": Key(_TIMEOUTS, "Bounds of a job's life."),
        "concurrency_key": Key(_free(limits.CONCURRENCY_KEY_BYTES_MAX), "Jobs with one key share a limit."),
    }
)

_ARGUMENTS: Final = ListOf(Text(limits.PAYLOAD_BYTES_MAX, scalars=True, empty=True), most=ARGUMENTS_MAX, least=1)
_COMMAND_TEXT: Final = _free(limits.PAYLOAD_BYTES_MAX)
COMMAND: Final = OneOf(
    scalar=_COMMAND_TEXT,
    sequence=_ARGUMENTS,
    mapping=Keys(
        {
            "command": Key(_COMMAND_TEXT, "A text for the shell."),
            "argv": Key(_ARGUMENTS, "A program and its arguments, without a shell."),
            "shell": Key(_free(4096), "Default /bin/sh; only with command."),
            "env": Key(
                TextMap(ENVIRONMENT_MAX, limits.PAYLOAD_BYTES_MAX, "[^=]+"), "Added to the runner's environment."
            ),
            "dir": Key(Text(4096, "an absolute folder, or one that begins with ~", "[/~].*"), "The working directory."),
            "user": Key(_free(256), "Run as this user; the runner must be root, or the user itself."),
            "stdin": Key(Text(limits.PAYLOAD_BYTES_MAX, scalars=True, empty=True), "Default: nothing."),
        },
        more={
            "oneOf": [{"required": ["command"]}, {"required": ["argv"]}],
            "dependentRequired": {"shell": ["command"]},
        },
    ),
)

_CODES: Final = ListOf(
    Scalar(
        Text(7, "a status code such as 404, 200-299 or 2xx", "[1-5]xx|[1-5][0-9]{2}(-[1-5][0-9]{2})?"),
        Integer(100, 599),
    ),
    most=100,
)
HTTP: Final = OneOf(
    scalar=Text(url.CHARS_MAX, "a URL", "https?://.+"),
    mapping=Keys(
        {
            "url": Key(Text(url.CHARS_MAX, "a URL", "https?://.+"), "Where to call."),
            "method": Key(Choice({method: method for method in request.METHODS}), "Default GET, with a body POST."),
            "headers": Key(TextMap(request.HEADERS_MAX, request.HEADERS_BYTES_MAX), "Headers of the request."),
            "body": Key(Json(), "What is sent: a text as it is, anything else as JSON."),
            "body_base64": Key(Text(limits.PAYLOAD_BYTES_MAX, empty=True), "Bytes to send, in base64."),
            "auth": Key(_free(64), "A credential that the runner has."),
            "timeout": Key(Span(request.TIMEOUT_MIN_S, request.TIMEOUT_MAX_S), "Of the whole call. Default 30s."),
            "connect_timeout": Key(Span(request.TIMEOUT_MIN_S, request.TIMEOUT_MAX_S), "Until connected. Default 10s."),
            "success": Key(_CODES, "Status codes that are a success. Default 200-299."),
            "retry": Key(_CODES, "Those that are tried again. Default 408, 409, 425, 429 and 5xx."),
            "redirects": Key(Integer(0, request.REDIRECTS_MAX), "Redirects to follow. Default 0."),
            "in_doubt": Key(
                Choice({word: word for word in request.IN_DOUBT}), "After a call whose end nobody knows. Default redo."
            ),
            "idempotency_window": Key(
                Span(1, request.WINDOW_MAX_S), "How long the target remembers an Idempotency-Key."
            ),
            "template": Key(Flag(), "Whether {{job.id}} and the like are filled. Default true."),
        },
        required=["url"],
    ),
)

RULES: Final = ("cron", "every", "rrule", "at")

SCHEDULE: Final = Keys(
    {
        "id": _ID,
        "cron": Key(
            Text(limits.CRON_CHARS_MAX, "a cron expression in quotes"),
            'Five fields, six with seconds first, or a nickname; in quotes: "0 5 * * *".',
        ),
        "every": Key(Span(limits.INTERVAL_MIN_S, limits.INTERVAL_MAX_S), "An interval in elapsed time."),
        "anchor": Key(_time("an instant, or a time of the zone"), "Where the interval counts from. Default: creation."),
        "rrule": Key(
            Text(limits.RRULE_BYTES_MAX, "a rule of RFC 5545"), "The value of an RRULE, or lines of iCalendar."
        ),
        "at": Key(_time("a time as 2026-03-08T02:30:00, or an instant with Z"), "Once, at a time of the zone."),
        "timezone": Key(Text(limits.TIME_ZONE_CHARS_MAX, "an IANA zone such as Europe/Berlin"), "Default UTC."),
        "start": Key(_time("a date or time of the zone, or an instant"), "Nothing before it."),
        "end": Key(_time("a date or time of the zone, or an instant"), "Nothing at or after it."),
        "max_count": Key(Integer(1, MAX_COUNT_MAX), "The most occurrences that fire."),
        "jitter": Key(
            OneOf(
                scalar=Span(0, limits.JITTER_MAX_S),
                mapping=Keys(
                    {"span": Key(Span(0, limits.JITTER_MAX_S)), "mode": Key(_JITTER, "Default hash.")},
                    required=["span"],
                ),
            ),
            "A delay below this span.",
        ),
        "exclude": Key(
            Keys(
                {
                    "dates": Key(ListOf(_DATES.item, limits.EXCLUDED_DATES_MAX), "Dates of the zone."),
                    "calendars": Key(
                        ListOf(Text(138, "the id of a calendar", f"(calendars/)?{ID}", True), limits.CALENDARS_MAX)
                    ),
                }
            ),
            "When not to fire.",
        ),
        "dst": Key(
            Keys(
                {
                    "gap": Key(_GAP, "At a wall time that does not exist."),
                    "overlap": Key(_SECOND_PASS, "At a wall time that comes twice."),
                }
            ),
            "When the clock changes. Default: by the rule's kind.",
        ),
        "missed": Key(
            OneOf(
                scalar=_MISSED,
                mapping=Keys(
                    {
                        "policy": Key(_MISSED),
                        "late_tolerance": Key(
                            Span(0, limits.LATE_TOLERANCE_MAX_S), "Not missed until then. Default 60s."
                        ),
                        "window": Key(Span(1, limits.CATCH_UP_WINDOW_MAX_S), "catch-up: how far back. Default 24h."),
                        "max": Key(Integer(1, limits.CATCH_UP_MAX_MAX), "catch-up: the newest so many. Default 100."),
                    }
                ),
            ),
            "After downtime. Default coalesce.",
        ),
        "overlap": Key(
            OneOf(
                scalar=_OVERLAP,
                mapping=Keys(
                    {
                        "policy": Key(_OVERLAP),
                        "limit": Key(Integer(1, limits.OVERLAP_LIMIT_MAX), "allow: at a time; buffer-all: that wait."),
                    }
                ),
            ),
            "While an earlier job is not finished. Default allow.",
        ),
        "pause_after_failures": Key(Integer(0, limits.PAUSE_AFTER_FAILURES_MAX), "Dead jobs in a row; 0: never."),
        "paused": Key(Flag(), "Default false."),
        "notes": Key(_free(limits.NOTES_BYTES_MAX), "For people."),
        "labels": Key(_LABELS, "For people and filters."),
        "command": Key(COMMAND, "A command for `rota exec`, in place of a job type and payload."),
        "http": Key(HTTP, "A call that `rota http` makes, in place of a job type and payload."),
        "job": Key(_JOB, "What each occurrence makes."),
    },
    more={
        "oneOf": [{"required": [rule]} for rule in RULES],
        "dependentRequired": {"anchor": ["every"]},
        "not": {"required": ["command", "http"]},
        "if": {"anyOf": [{"required": ["command"]}, {"required": ["http"]}]},
        "then": {
            "properties": {
                "job": {"not": {"anyOf": [{"required": [key]} for key in ("type", "payload", "content_type")]}}
            }
        },
        "else": {"required": ["job"], "properties": {"job": {"required": ["type"]}}},
    },
)

CALENDAR: Final = OneOf(
    sequence=_DATES,
    mapping=Keys(
        {
            "id": _ID,
            "dates": Key(_DATES, "Dates as 2026-12-25, or --12-25 for every year."),
            "notes": Key(_free(limits.NOTES_BYTES_MAX), "For people."),
            "labels": Key(_LABELS, "For people and filters."),
        },
        required=["dates"],
    ),
)

DOCUMENT: Final = Keys(
    {
        "set": Key(
            _free(limits.APPLY_SET_BYTES_MAX), "What is managed together. Default: the file's name without its ending."
        ),
        "calendars": Key(
            ById(CALENDAR, "calendar", limits.APPLY_CALENDARS_MAX, ID, "calendar"), "Named sets of dates."
        ),
        "schedules": Key(ById(SCHEDULE, "schedule", limits.SCHEDULE_BATCH_MAX, ID, "schedule"), "Schedules by id."),
    },
    extensions=True,
)
