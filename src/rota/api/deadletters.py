"""Dead letters and redrives of AdminService: decode, call, encode."""

from dataclasses import replace
from datetime import datetime
from typing import Final

from google.protobuf.message import Message
from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

from rota.api import calls, codec, pages
from rota.api.rpc import Context, unary
from rota.api.schedulenames import author_name, schedule_id
from rota.coordinator.node import Node
from rota.domain import ids, limits
from rota.domain.deadletter import DeadFilter, DeadLetter, Place, Redrive, check_redrive
from rota.domain.errors import InvalidArgument
from rota.domain.ids import JobId
from rota.domain.model import DeadCause, Identity, Role
from rota.domain.text import Problems

_REDRIVE: Final = 21


class DeadLetterRpcs:
    """A part of the servicer."""

    _node: Node

    @unary(Role.OPERATOR)
    async def ListDeadLetters(
        self, request: pb.ListDeadLettersRequest, identity: Identity, context: Context
    ) -> pb.ListDeadLettersResponse:
        problems = Problems()
        where = _filter(problems, "filter", request.filter)
        problems.raise_any()
        size = pages.page_size(request.page_size)
        query = pages.query(request)
        before = pages.unseal_place(request.page_token, identity.tenant_id, query)
        letters, following = await self._node.dead_letters.page(
            identity.tenant_id, where, None if before is None else Place(*before), size
        )
        response = pb.ListDeadLettersResponse(dead_letters=[_letter(each, identity, full=False) for each in letters])
        if following is not None:
            response.next_page_token = pages.seal(pages.place(*following), identity.tenant_id, query)
        return response

    @unary(Role.OPERATOR)
    async def GetDeadLetter(
        self, request: pb.GetDeadLetterRequest, identity: Identity, context: Context
    ) -> pb.GetDeadLetterResponse:
        found = await self._node.dead_letters.get(identity.tenant_id, _letter_id("name", request.name))
        return pb.GetDeadLetterResponse(dead_letter=_letter(found, identity, full=True))

    @unary(Role.OPERATOR)
    async def RedriveDeadLetters(
        self, request: pb.RedriveDeadLettersRequest, identity: Identity, context: Context
    ) -> pb.RedriveDeadLettersResponse:
        problems = Problems()
        key = calls.request_key(problems, _REDRIVE, request, changes=not request.validate_only)
        given = request.redrive
        letters, where = _which(problems, "redrive.", given)
        wish = Redrive(
            identity.tenant_id,
            letters,
            where,
            given.rate if given.HasField("rate") else limits.REDRIVE_RATE_DEFAULT,
            given.max_count if given.HasField("max_count") else None,
            given.new_generation,
            given.reason,
        )
        check_redrive(problems, "redrive", wish)
        problems.raise_any()
        started, examples = await self._node.dead_letters.start(
            identity, wish, request=key, validate_only=request.validate_only
        )
        message = redrive_message(started, stored=not request.validate_only)
        return pb.RedriveDeadLettersResponse(
            redrive=message, examples=[_letter(each, identity, full=False) for each in examples]
        )

    @unary(Role.OPERATOR)
    async def DiscardDeadLetters(
        self, request: pb.DiscardDeadLettersRequest, identity: Identity, context: Context
    ) -> pb.DiscardDeadLettersResponse:
        problems = Problems()
        letters, where = _which(problems, "", request)
        most = problems.integer(
            "max_count", request.max_count or limits.DEAD_LETTERS_NAMED_MAX, 1, limits.DEAD_LETTERS_NAMED_MAX
        )
        if request.max_count and where is None:
            problems.add("max_count", "must be set together with filter only; a list says how many by itself")
        problems.text("reason", request.reason, limits.REASON_BYTES_MAX)
        problems.raise_any()
        dead_letters, dry_run = self._node.dead_letters, request.validate_only
        if where is None:
            done = await dead_letters.discard_named(identity, letters, request.reason, dry_run=dry_run)
        else:
            done = await dead_letters.discard_found(identity, where, most, request.reason, dry_run=dry_run)
        return pb.DiscardDeadLettersResponse(discarded_count=done.count, more=done.more)

    @unary(Role.OPERATOR)
    async def GetRedrive(
        self, request: pb.GetRedriveRequest, identity: Identity, context: Context
    ) -> pb.GetRedriveResponse:
        found = await self._node.dead_letters.get_redrive(identity.tenant_id, _redrive_id(request.name))
        return pb.GetRedriveResponse(redrive=redrive_message(found))

    @unary(Role.OPERATOR)
    async def ListRedrives(
        self, request: pb.ListRedrivesRequest, identity: Identity, context: Context
    ) -> pb.ListRedrivesResponse:
        size = pages.page_size(request.page_size)
        query = pages.query(request)
        before = pages.unseal_id(request.page_token, identity.tenant_id, query)
        found = await self._node.dead_letters.redrives(identity.tenant_id, before, size + 1)
        response = pb.ListRedrivesResponse(redrives=[redrive_message(each) for each in found[:size]])
        if len(found) > size:
            response.next_page_token = pages.seal(found[size - 1].id, identity.tenant_id, query)
        return response

    @unary(Role.OPERATOR)
    async def CancelRedrive(
        self, request: pb.CancelRedriveRequest, identity: Identity, context: Context
    ) -> pb.CancelRedriveResponse:
        ended = await self._node.dead_letters.cancel(identity.tenant_id, _redrive_id(request.name))
        return pb.CancelRedriveResponse(redrive=redrive_message(ended))


def redrive_message(redrive: Redrive, *, stored: bool = True) -> pb.Redrive:
    """`stored` False: of a dry run, without name and state."""
    message = pb.Redrive(
        dead_letters=[f"deadLetters/{id}" for id in redrive.letters],
        rate=redrive.rate,
        max_count=redrive.max_count,
        new_generation=redrive.new_generation,
        reason=redrive.reason,
        total_count=redrive.total,
        redriven_count=redrive.redriven,
        refused_count=redrive.refused,
        author=author_name(redrive.author),
    )
    if redrive.filter is not None:
        message.filter.CopyFrom(_filter_message(redrive.filter))
    if redrive.created_at is not None:
        message.create_time.CopyFrom(codec.timestamp(redrive.created_at))
    if redrive.finished_at is not None:
        message.finish_time.CopyFrom(codec.timestamp(redrive.finished_at))
    if stored:
        message.name = f"redrives/{redrive.id}"
        message.state = int(redrive.state)  # type: ignore[assignment]
    return message


def _letter(letter: DeadLetter, identity: Identity, *, full: bool) -> pb.DeadLetter:
    job = letter.job
    message = pb.DeadLetter(
        name=f"deadLetters/{job.id}",
        job=codec.job_message(job, identity.tenant, full=full),
        cause=int(letter.cause or 0),  # type: ignore[arg-type]
        redrive_count=letter.redrives,
        last_redriven_by=author_name(letter.redriven_by),
    )
    if job.finished_at is not None:
        message.dead_time.CopyFrom(codec.timestamp(job.finished_at))
    return message


def _which(
    problems: Problems, at: str, message: pb.Redrive | pb.DiscardDeadLettersRequest
) -> tuple[tuple[JobId, ...], DeadFilter | None]:
    """The letters that are named, each once, or the filter."""
    named, filtered = list(message.dead_letters), message.HasField("filter")
    if bool(named) is filtered:
        found = "both" if filtered else "neither; an empty filter means all"
        problems.add(f"{at}dead_letters", f"must be set, or filter instead, found {found}")
    if len(named) > limits.DEAD_LETTERS_NAMED_MAX:
        most = limits.DEAD_LETTERS_NAMED_MAX
        problems.add(f"{at}dead_letters", f"must have at most {most} entries, found {len(named)}; use a filter")
        named = []
    letters = []
    for index, name in enumerate(named):
        try:
            letters.append(_letter_id(f"{at}dead_letters[{index}]", name))
        except InvalidArgument as refusal:
            for violation in refusal.violations:
                problems.add(violation.field, violation.description)
    where = _filter(problems, f"{at}filter", message.filter) if filtered else None
    return tuple(dict.fromkeys(letters)), where


def _filter(problems: Problems, at: str, found: pb.DeadLetterFilter) -> DeadFilter:
    problems.text(f"{at}.queue", found.queue, limits.NAME_BYTES_MAX)
    problems.text(f"{at}.type", found.type, limits.NAME_BYTES_MAX)
    problems.text(f"{at}.failure_type", found.failure_type, limits.FAILURE_TYPE_BYTES_MAX)
    problems.text_map(f"{at}.labels", dict(found.labels), limits.LABELS_MAX, limits.LABELS_BYTES_MAX)
    where = DeadFilter(
        queue=found.queue,
        type=found.type,
        schedule=schedule_id(f"{at}.schedule", found.schedule) if found.schedule else "",
        failure_type=found.failure_type,
        cause=codec.enum(DeadCause, f"{at}.cause", found.cause, None),
        labels=dict(found.labels),
    )
    start, end = _instant(problems, at, found, "start_time"), _instant(problems, at, found, "end_time")
    if start is not None and end is not None and end <= start:
        problems.add(f"{at}.end_time", "must lie after start_time")
    return replace(where, start=start, end=end)


def _instant(problems: Problems, at: str, message: Message, field: str) -> datetime | None:
    return codec.instant(problems, f"{at}.{field}", getattr(message, field)) if message.HasField(field) else None


def _filter_message(where: DeadFilter) -> pb.DeadLetterFilter:
    message = pb.DeadLetterFilter(
        queue=where.queue,
        type=where.type,
        schedule=f"schedules/{where.schedule}" if where.schedule else "",
        failure_type=where.failure_type,
        cause=int(where.cause or 0),  # type: ignore[arg-type]
        labels=where.labels,
    )
    if where.start is not None:
        message.start_time.CopyFrom(codec.timestamp(where.start))
    if where.end is not None:
        message.end_time.CopyFrom(codec.timestamp(where.end))
    return message


def _letter_id(field: str, name: str) -> JobId:
    return JobId(ids.parse_name(field, name, "deadLetters"))


def _redrive_id(name: str) -> str:
    return ids.parse_name("name", name, "redrives")
