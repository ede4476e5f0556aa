"""Queues of AdminService: decode, call, encode."""

from collections.abc import Sequence
from typing import Final

from rota_sdk.gen.rota.admin.v1 import admin_pb2 as pb

from rota.api import codec, masks, pages
from rota.api.rpc import Context, unary
from rota.api.schedulenames import author_name
from rota.coordinator.node import Node
from rota.domain import limits
from rota.domain.errors import InvalidArgument
from rota.domain.model import Identity, JobState, Role
from rota.domain.queue import Queue, QueueCounts, QueueSettings
from rota.domain.text import QUEUE, QUEUE_WORDS, TYPE, TYPE_WORDS, Problems

PURGED_BY_DEFAULT: Final = frozenset({JobState.READY, JobState.RETRY_WAIT})
PURGEABLE: Final = PURGED_BY_DEFAULT | {JobState.SCHEDULED}


class QueueRpcs:
    """A part of the servicer."""

    _node: Node

    @unary(Role.OPERATOR)
    async def ListQueues(
        self, request: pb.ListQueuesRequest, identity: Identity, context: Context
    ) -> pb.ListQueuesResponse:
        size = pages.page_size(request.page_size)
        query = pages.query(request)
        after = pages.unseal_text(request.page_token, identity.tenant_id, query, QUEUE)
        found = await self._node.queues.page(identity, after, size + 1)
        response = pb.ListQueuesResponse(queues=[queue_message(queue, counts) for queue, counts in found[:size]])
        if len(found) > size:
            response.next_page_token = pages.seal(found[size - 1][0].id, identity.tenant_id, query)
        return response

    @unary(Role.OPERATOR)
    async def GetQueue(self, request: pb.GetQueueRequest, identity: Identity, context: Context) -> pb.GetQueueResponse:
        found = await self._node.queues.get(identity, _id("name", request.name))
        return pb.GetQueueResponse(queue=queue_message(*found))

    @unary(Role.OPERATOR)
    async def UpdateQueue(
        self, request: pb.UpdateQueueRequest, identity: Identity, context: Context
    ) -> pb.UpdateQueueResponse:
        given = request.queue
        id = _id("queue.name", given.name)
        taken = masks.paths(given, request.update_mask)
        found = await self._node.queues.update(
            identity, id, lambda stored: edited(stored, given, taken), etag=given.etag
        )
        return pb.UpdateQueueResponse(queue=queue_message(*found))

    @unary(Role.OPERATOR)
    async def PauseQueue(
        self, request: pb.PauseQueueRequest, identity: Identity, context: Context
    ) -> pb.PauseQueueResponse:
        problems = Problems()
        id = _id("name", request.name)
        problems.text("reason", request.reason, limits.REASON_BYTES_MAX)
        problems.raise_any()
        found = await self._node.queues.pause(identity, id, request.reason)
        return pb.PauseQueueResponse(queue=queue_message(*found))

    @unary(Role.OPERATOR)
    async def ResumeQueue(
        self, request: pb.ResumeQueueRequest, identity: Identity, context: Context
    ) -> pb.ResumeQueueResponse:
        found = await self._node.queues.resume(identity, _id("name", request.name))
        return pb.ResumeQueueResponse(queue=queue_message(*found))

    @unary(Role.OPERATOR)
    async def PurgeQueue(
        self, request: pb.PurgeQueueRequest, identity: Identity, context: Context
    ) -> pb.PurgeQueueResponse:
        problems = Problems()
        id = _id("name", request.name)
        states = _purged_states(problems, request.states)
        if request.type:
            problems.pattern("type", request.type, TYPE, TYPE_WORDS)
        most = problems.integer("max_count", request.max_count or limits.PURGE_MAX, 1, limits.PURGE_MAX)
        problems.text("reason", request.reason, limits.REASON_BYTES_MAX)
        problems.raise_any()
        purged = await self._node.queues.purge(
            identity, id, states, request.type, most, request.reason, dry_run=request.validate_only
        )
        return pb.PurgeQueueResponse(purged_count=purged.count, more=purged.more)


def queue_message(queue: Queue, counts: QueueCounts) -> pb.Queue:
    message = _settings_message(queue.settings)
    message.name = f"queues/{queue.id}"
    message.etag = queue.etag
    if queue.pause is not None:
        message.paused = True
        message.pause_reason = queue.pause.reason
        message.pause_author = author_name(queue.pause.author)
        message.pause_time.CopyFrom(codec.timestamp(queue.pause.since))
    message.scheduled_count = counts.scheduled
    message.ready_count = counts.ready
    message.leased_count = counts.leased
    message.retry_wait_count = counts.retry_wait
    message.dead_count = counts.dead
    message.session_count = counts.sessions
    if counts.oldest_ready_age_s is not None:
        message.oldest_ready_age.CopyFrom(codec.duration(counts.oldest_ready_age_s))
    return message


def edited(stored: QueueSettings, given: pb.Queue, taken: Sequence[str] | None) -> QueueSettings:
    """Settings with the fields at these paths as they are in `given`."""
    merged = masks.merged(_settings_message(stored), given, taken)
    if taken is not None and "rate_burst" not in taken and not merged.HasField("rate"):
        # Without a rate a burst says nothing: it goes with it.
        merged.ClearField("rate_burst")
    return QueueSettings(
        weight=merged.weight if merged.HasField("weight") else limits.WEIGHT_DEFAULT,
        rate=merged.rate if merged.HasField("rate") else None,
        rate_burst=merged.rate_burst if merged.HasField("rate_burst") else None,
        max_in_flight=merged.max_in_flight if merged.HasField("max_in_flight") else None,
        max_in_flight_per_key=merged.max_in_flight_per_key if merged.HasField("max_in_flight_per_key") else None,
    )


def _settings_message(settings: QueueSettings) -> pb.Queue:
    return pb.Queue(
        weight=settings.weight,
        rate=settings.rate,
        rate_burst=settings.rate_burst,
        max_in_flight=settings.max_in_flight,
        max_in_flight_per_key=settings.max_in_flight_per_key,
    )


def _purged_states(problems: Problems, given: Sequence[int]) -> frozenset[JobState]:
    found = set()
    for index, number in enumerate(given):
        state = codec.enum(JobState, f"states[{index}]", number, None)
        if state in PURGEABLE:
            found.add(state)
        else:
            names = ", ".join(sorted(each.name for each in PURGEABLE))
            problems.add(f"states[{index}]", f"must be one of {names}: only what waits can be purged")
    return frozenset(found) if given else PURGED_BY_DEFAULT


def _id(field: str, name: str) -> str:
    """The id in queues/{id}; a bare id is taken too."""
    id = name.removeprefix("queues/")
    if not QUEUE.fullmatch(id):
        raise InvalidArgument.field(
            field, f"expected queues/{{id}} with an id that must be {QUEUE_WORDS}, found {name[:80]!r}"
        )
    return id
