"""From options to the fields of a schedule, and from the fields of a refusal back to options."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from rota.cli import localtime, values
from rota.cli.http import JOB_TYPE as HTTP_TYPE
from rota.cli.http import QUEUE_DEFAULT as HTTP_QUEUE
from rota.cli.http import HttpFlags
from rota.cli.remote import enum_prefix, option_of
from rota.cli.scheduleflags import AboutFlags, BoundFlags, JobFlags, Overlap, PayloadFlags, PolicyFlags, RuleFlags
from rota.domain.errors import InvalidArgument
from rota.domain.limits import PAYLOAD_BYTES_MAX

if TYPE_CHECKING:
    from rota_sdk.gen.rota.v1.schedules_pb2 import Schedule

    from rota.domain.zones import Zone

# A command's job, as `rota exec` takes it.
EXEC_TYPE: Final = "rota.exec"
EXEC_QUEUE: Final = "commands"

OPTIONS: Final = {
    "schedule_id": "ID",
    "name": "SCHEDULE",
    "parent": "SCHEDULE",
    "rule": "CRON",
    "cron": "CRON",
    "interval": "--every",
    "interval.anchor_time": "--anchor",
    "rrule": "--rrule",
    "once": "--at",
    "time_zone": "--tz",
    "start_time": "--start",
    "end_time": "--end",
    "max_count": "--max-count",
    "jitter": "--jitter",
    "jitter.mode": "--jitter-mode",
    "exclusions.dates": "--exclude",
    "exclusions.calendars": "--calendar",
    "dst_gap": "--dst-gap",
    "dst_overlap": "--dst-overlap",
    "missed_run_policy": "--missed",
    "missed_run_policy.late_tolerance": "--late-tolerance",
    "missed_run_policy.catch_up_window": "--catch-up-window",
    "missed_run_policy.catch_up_max": "--catch-up-max",
    "overlap_policy": "--overlap",
    "overlap_policy.limit": "--overlap-limit",
    "pause_after_failures": "--pause-after-failures",
    "job.type": "--type",
    "job.queue": "--queue",
    "job.priority": "--priority",
    "job.payload": "--data",
    "job.payload.content_type": "--content-type",
    "job.headers": "--header",
    "job.labels": "--job-label",
    "job.retry_policy.max_attempts": "--max-attempts",
    "job.retry_policy.initial_backoff": "--initial-backoff",
    "job.retry_policy.max_backoff": "--max-backoff",
    "job.timeouts.run": "--run-timeout",
    "job.timeouts.start_by": "--start-by",
    "job.timeouts.total": "--total-timeout",
    "job.concurrency_key": "--concurrency-key",
    "notes": "--notes",
    "labels": "--label",
    "etag": "--etag",
    "request_id": "--request-id",
    "reason": "--reason",
}

_NO_DEFAULT: Final = {"--every", "--rrule", "--at", "--type", "--content-type", "--etag", "--request-id", "--reason"}

# What `edit --unset` takes back to its default, by option.
UNSET: Final = {
    option.removeprefix("--"): path
    for path, option in OPTIONS.items()
    if option.startswith("--") and option not in _NO_DEFAULT
}


@dataclass(slots=True)
class Form:
    """A schedule being filled in, and the paths of what was filled."""

    schedule: "Schedule"
    paths: list[str]

    def put(self, path: str, value: Any) -> None:
        """Sets the field at the path; None: it was not given."""
        if value is None:
            return
        option = option_of(path, OPTIONS)
        target: Any = self.schedule
        *above, name = path.split(".")
        for step in above:
            target = getattr(target, step)
        for text in _texts(value):
            values.utf8(option, text)
        try:
            if isinstance(value, dict):
                getattr(target, name).update(value)
            elif isinstance(value, list):
                getattr(target, name).extend(value)
            elif hasattr(value, "DESCRIPTOR"):
                getattr(target, name).CopyFrom(value)
                getattr(target, name).SetInParent()
            else:
                setattr(target, name, value)
        except (ValueError, OverflowError) as error:
            raise InvalidArgument.field(
                option, f"expected a value that a field holds, found another ({error})"
            ) from None
        self.paths.append(path)

    def put_span(self, path: str, text: str | None) -> None:
        """Sets a Duration field from a text such as 5m."""
        from rota_sdk import codec

        option = option_of(path, OPTIONS)
        span_s = values.duration(option, text)
        try:
            self.put(path, codec.duration(span_s) if span_s is not None else None)
        except (ValueError, OverflowError):
            raise InvalidArgument.field(option, f"expected a shorter span, found {text!r}; correct it") from None

    def put_time(self, path: str, text: str | None, zone: "Callable[[], Zone]") -> None:
        """Sets a Timestamp field from an instant or a time of the zone."""
        self.put(path, _timestamp(localtime.read(option_of(path, OPTIONS), text, zone)))

    def put_enum(self, path: str, enum: Any, choice: Any) -> None:
        """Sets an enum field from one of the command line's choices, whose names are the contract's."""
        if choice is not None:
            self.put(path, enum.Value(f"{enum_prefix(enum.DESCRIPTOR)}{choice.name}"))


def fill_rule(form: Form, flags: RuleFlags, zone: "Callable[[], Zone]") -> None:
    """When it fires. `zone` is that of times without an offset."""
    from rota_sdk import codec
    from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

    form.put("cron.expression", flags.expression)
    if flags.every is not None:
        form.put("interval.every", codec.duration(every_s(flags.every)))
    form.put_time("interval.anchor_time", flags.anchor, zone)
    form.put("rrule.text", rrule_text(flags.rrule))
    run_time, local = once(flags.at)
    form.put("once.run_time", _timestamp(run_time))
    form.put("once.local_time", local)
    form.put("time_zone", flags.tz if flags.tz is not None else zone_of(rrule_text(flags.rrule)))
    form.put_time("start_time", flags.start, zone)
    form.put_time("end_time", flags.end, zone)
    form.put_enum("dst_gap", pb.DstGap, flags.dst_gap)
    form.put_enum("dst_overlap", pb.DstOverlap, flags.dst_overlap)
    form.put("exclusions.dates", flags.exclude or None)
    form.put_span("jitter.span", flags.jitter)
    form.put_enum("jitter.mode", pb.JitterMode, flags.jitter_mode)


def fill_bounds(form: Form, flags: BoundFlags) -> None:
    """Calendars and the count."""
    names = [f"calendars/{name.removeprefix('calendars/')}" for name in flags.calendar or []]
    form.put("exclusions.calendars", names or None)
    form.put("max_count", flags.max_count)


def fill_policies(form: Form, flags: PolicyFlags) -> None:
    """What happens when it cannot simply fire. Another overlap mode does not keep the limit of the old one."""
    from rota_sdk.gen.rota.v1 import schedules_pb2 as pb

    form.put_enum("missed_run_policy.mode", pb.MissedRunMode, flags.missed)
    form.put_span("missed_run_policy.late_tolerance", flags.late_tolerance)
    form.put_span("missed_run_policy.catch_up_window", flags.catch_up_window)
    form.put("missed_run_policy.catch_up_max", flags.catch_up_max)
    limited = flags.overlap in (None, Overlap.ALLOW, Overlap.BUFFER_ALL)
    if flags.overlap_limit is not None and not limited:
        raise InvalidArgument.field(
            "--overlap-limit", f"expected --overlap allow or buffer-all with it, found {flags.overlap}; leave it out"
        )
    form.put_enum("overlap_policy.mode", pb.OverlapMode, flags.overlap)
    form.put("overlap_policy.limit", flags.overlap_limit)
    if flags.overlap is not None and flags.overlap_limit is None:
        form.paths.append("overlap_policy.limit")
    form.put("pause_after_failures", flags.pause_after_failures)


def fill_job(
    form: Form,
    flags: JobFlags,
    payload: PayloadFlags,
    call: HttpFlags,
    stored: "Callable[[], Schedule] | None" = None,
) -> None:
    """The job. `stored` reads the schedule that is edited: what is not given of a command or call stays as it is."""
    call.refuse_strays()
    headers = values.pairs("--header", flags.header)
    if call.http is not None:
        _fill_call(form, flags, payload, call, headers, stored)
        headers = {}
    elif flags.command is not None:
        _fill_command(form, flags, payload, stored)
    else:
        form.put("job.type", flags.type)
        form.put("job.queue", flags.queue)
        if payload != PayloadFlags():
            body, media_type = read_payload(payload)
            form.put("job.payload", _payload(body, media_type))
    form.put("job.priority", flags.priority)
    form.put("job.headers", headers or None)
    form.put("job.labels", values.pairs("--job-label", flags.job_label) or None)
    form.put("job.retry_policy.max_attempts", flags.max_attempts)
    form.put_span("job.retry_policy.initial_backoff", flags.initial_backoff)
    form.put_span("job.retry_policy.max_backoff", flags.max_backoff)
    form.put_span("job.timeouts.run", flags.run_timeout)
    form.put_span("job.timeouts.start_by", flags.start_by)
    form.put_span("job.timeouts.total", flags.total_timeout)
    form.put("job.concurrency_key", flags.concurrency_key)


def fill_about(form: Form, flags: AboutFlags) -> None:
    """Notes and labels."""
    form.put("notes", flags.notes)
    form.put("labels", values.pairs("--label", flags.label) or None)


def require_one_rule(flags: RuleFlags, *, given: bool = True) -> None:
    """Refuses two rules, and none where one must be given."""
    kinds = flags.kinds
    if len(kinds) > 1 or (given and not kinds):
        found = " and ".join(kinds) or "none"
        raise InvalidArgument.field("CRON", f"expected CRON, --every, --rrule or --at, found {found}; give one of them")
    if flags.anchor is not None and flags.every is None and (given or kinds):
        raise InvalidArgument.field("--anchor", "expected together with --every, found without; leave it out")


def every_s(text: str) -> float:
    """The seconds of 90s or PT4H."""
    if text.lstrip("-").startswith("P"):
        from rota.domain.interval import iso_duration_s

        return iso_duration_s(text, "--every")
    seconds = values.duration("--every", text)
    assert seconds is not None
    return seconds


def once(text: str | None) -> tuple[datetime | None, str | None]:
    """An instant, or else the text as a local time, which whoever takes it checks."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None, text
    return (values.instant("--at", text), None) if found.tzinfo else (None, text)


def rrule_text(rrule: str | None) -> str | None:
    r"""The text of --rrule, where \n stands between lines."""
    return rrule.replace("\\n", "\n") if rrule is not None else None


def zone_of(rrule: str | None) -> str | None:
    """The zone that an RRULE's DTSTART names, which spares saying it twice."""
    found = re.search(r"^DTSTART;(?:[^:\n]*;)?TZID=\"?([^:;\"\n]+)", rrule or "", re.IGNORECASE | re.MULTILINE)
    return found[1] if found else None


def read_payload(flags: PayloadFlags) -> tuple[bytes, str]:
    """Bytes and media type."""
    return values.payload(flags.data, as_text=flags.text, content_type=flags.content_type)


def _fill_command(form: Form, flags: JobFlags, payload: PayloadFlags, stored: "Callable[[], Schedule] | None") -> None:
    _refuse_beside("--command", (("--type", flags.type is not None), ("--data", payload != PayloadFlags())))
    values.utf8("--command", flags.command or "")
    body, queue = _act(form, EXEC_TYPE, flags.queue, EXEC_QUEUE, stored)
    body.pop("argv", None)
    data = json.dumps(body | {"command": flags.command}, ensure_ascii=False).encode()
    if len(data) > PAYLOAD_BYTES_MAX:
        raise InvalidArgument.field(
            "--command",
            f"expected at most {PAYLOAD_BYTES_MAX} bytes, found more; put it into a file that the runner has",
            reason="PAYLOAD_TOO_LARGE",
            limit=str(PAYLOAD_BYTES_MAX),
        )
    form.put("job.payload", _payload(data, values.JSON_TYPE))
    form.put("job.queue", queue)


def _fill_call(
    form: Form,
    flags: JobFlags,
    payload: PayloadFlags,
    call: HttpFlags,
    headers: dict[str, str],
    stored: "Callable[[], Schedule] | None",
) -> None:
    _refuse_beside(
        "--http",
        (
            ("--command", flags.command is not None),
            ("--type", flags.type is not None),
            ("--data", payload != PayloadFlags()),
        ),
    )
    body, queue = _act(form, HTTP_TYPE, flags.queue, HTTP_QUEUE, stored)
    form.put("job.payload", _payload(call.payload(headers, body), values.JSON_TYPE))
    form.put("job.queue", queue)


def _refuse_beside(option: str, others: Iterable[tuple[str, bool]]) -> None:
    for other, given in others:
        if given:
            raise InvalidArgument.field(option, f"expected {option} or {other}, found both; give one")


def _act(
    form: Form, type: str, queue: str | None, usual_queue: str, stored: "Callable[[], Schedule] | None"
) -> tuple[dict[str, Any], str | None]:
    """Makes a runner's job of it. The payload of the stored schedule, where that has one of the same runner, and the
    queue, where it is to be set."""
    was = stored() if stored is not None else None
    if was is None or was.job.type != type:
        form.put("job.type", type)
        return {}, queue or usual_queue
    # What is kept is of the version that was read.
    form.schedule.etag = form.schedule.etag or was.etag
    return _document_of(was), queue or None


def _document_of(schedule: "Schedule") -> dict[str, Any]:
    try:
        found = json.loads(schedule.job.payload.data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _payload(data: bytes, media_type: str) -> Any:
    from rota_sdk.gen.rota.v1 import common_pb2

    try:
        return common_pb2.Payload(data=data, content_type=media_type)
    except ValueError:
        raise InvalidArgument.field(
            "--content-type", "expected a media type such as text/plain, found other bytes"
        ) from None


def _timestamp(found: datetime | None) -> Any:
    from rota_sdk import codec

    return codec.timestamp(found) if found is not None else None


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
