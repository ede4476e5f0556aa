"""What coordinators tell each other, as protobuf and back: total functions, no decisions.

A peer is believed. What is checked is only that ids are ids, and what this version does not know is passed over: a
newer peer may say more.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from rota_sdk.gen.rota.peer.v1 import peer_pb2
from rota_sdk.gen.rota.worker.v1 import worker_pb2

from rota.api import codec
from rota.coordinator.members import Directive
from rota.coordinator.news import Claimed, ClaimWish, Demand, Holding, Kind, Lease, News, Offer, Order
from rota.domain import ids
from rota.domain.fairness import Entry
from rota.domain.ids import CoordinatorId, Fence, JobId, ScheduleUid, SessionId, ShardNo, TenantId
from rota.domain.limiting import Gate
from rota.domain.model import DirectiveKind, Grant, JobOrigin

ITEMS_MAX: Final = 1_000
"""Items of one sort in one message."""

SORT_BYTES_MAX: Final = 1024 * 1024
"""Of one sort in one message, about. A single item may be larger."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DIRECTIVES: Final = {int(kind): kind for kind in DirectiveKind}
_leases: Final = codec.LeaseEncoder(None, None)

T = TypeVar("T")


def coordinator_name(id: CoordinatorId) -> str:
    return f"coordinators/{id}"


def coordinator_id(field: str, name: str) -> CoordinatorId:
    return CoordinatorId(ids.parse_name(field, name, "coordinators"))


def messages(news: News) -> list[peer_pb2.LinkRequest]:
    """As few messages as the bounds allow, still without seq."""
    sorts: list[tuple[Callable[[peer_pb2.LinkRequest, Any], None], Iterator[Any]]] = [
        (fill, _batches(items, weigh))
        for fill, items, weigh in (
            (_add_demands, list(news.demands.values()), _demand_bytes),
            (_add_offers, list(news.offers.values()), None),
            (_add_waiting, news.waiting, None),
            (_add_settled, news.settled, None),
            (_add_proven, news.proven, None),
            (_add_orders, news.orders, None),
            (_add_holdings, news.holdings, _holding_bytes),
            (_add_sessions_ended, news.sessions_ended, None),
            (_add_freed, list(news.freed), None),
        )
        if items
    ]
    made: list[peer_pb2.LinkRequest] = []
    for fill, batches in sorts:
        for index, batch in enumerate(batches):
            if index == len(made):
                made.append(peer_pb2.LinkRequest())
            fill(made[index], batch)
    if news.armed or news.queues_changed:
        if not made:
            made.append(peer_pb2.LinkRequest())
        if news.armed:
            made[0].armed.SetInParent()
        if news.queues_changed:
            made[0].queues_changed.SetInParent()
    return made


def news(message: peer_pb2.LinkRequest) -> News:
    """What one message says."""
    found = News(armed=message.HasField("armed"), queues_changed=message.HasField("queues_changed"))
    if message.HasField("demand"):
        found.demands = {each.id: _demand(each) for each in message.demand.entries}
    if message.HasField("availability"):
        found.offers = {each.demand_id: _offer(each) for each in message.availability.entries}
    if message.HasField("waiting"):
        found.waiting = [_entry(each) for each in message.waiting.jobs]
    if message.HasField("settled"):
        found.settled = [_lease("settled.leases", each) for each in message.settled.leases]
    if message.HasField("proven"):
        found.proven = [_lease("proven.leases", each) for each in message.proven.leases]
    if message.HasField("directives"):
        found.orders = [_order(each) for each in message.directives.entries if each.directive.kind in _DIRECTIVES]
    if message.inventories:
        found.holdings = [_holding(each) for each in message.inventories]
    if message.HasField("sessions_ended"):
        found.sessions_ended = [
            _session_id("sessions_ended.sessions", each) for each in message.sessions_ended.sessions
        ]
    if message.HasField("freed"):
        found.freed = {Gate(TenantId(each.tenant), each.queue, each.key) for each in message.freed.gates}
    return found


def claim_request(wish: ClaimWish) -> peer_pb2.ClaimRequest:
    return peer_pb2.ClaimRequest(
        coordinator=coordinator_name(wish.caller),
        tenant=wish.tenant_id,
        tenant_name=wish.tenant,
        session=wish.session_id,
        poller=wish.poller,
        batch=wish.batch,
        demand_ids=wish.demand_ids,
        capacity=wish.capacity,
        max_bytes=wish.bytes_max,
    )


def claim_wish(message: peer_pb2.ClaimRequest) -> ClaimWish:
    return ClaimWish(
        caller=coordinator_id("coordinator", message.coordinator),
        tenant_id=TenantId(message.tenant),
        tenant=message.tenant_name,
        session_id=_session_id("session", message.session),
        poller=message.poller,
        batch=message.batch,
        demand_ids=tuple(message.demand_ids),
        capacity=message.capacity,
        bytes_max=message.max_bytes,
    )


def claim_response(claimed: Claimed) -> peer_pb2.ClaimResponse:
    message = peer_pb2.ClaimResponse()
    for grant in claimed.grants:
        job = message.jobs.add(shard=grant.shard, generation=grant.generation)
        _leases.fill(job.lease, grant)
        if grant.origin is not None:
            job.schedule_uid = grant.origin.schedule_uid
            job.occurrence_generation = grant.origin.generation
    for offer in claimed.left:
        message.left.entries.add(demand_id=offer.demand_id, ready_count=offer.count, order=offer.order)
    return message


def claimed(message: peer_pb2.ClaimResponse, wish: ClaimWish) -> Claimed:
    """The answer to a wish."""
    return Claimed([_grant(job, wish) for job in message.jobs], tuple(_offer(each) for each in message.left.entries))


def _batches(items: Sequence[T], weigh: Callable[[T], int] | None) -> Iterator[Sequence[T]]:
    """Parts of what is too much for one message."""
    if weigh is None:
        for start in range(0, len(items), ITEMS_MAX):
            yield items[start : start + ITEMS_MAX]
        return
    start, room = 0, SORT_BYTES_MAX
    for index, item in enumerate(items):
        size = weigh(item)
        if index > start and (size > room or index - start == ITEMS_MAX):
            yield items[start:index]
            start, room = index, SORT_BYTES_MAX
        room -= size
    yield items[start:]


def _demand_bytes(demand: Demand) -> int:
    return 64 + len(demand.kind.queue) + sum(map(len, demand.kind.types)) + 3 * len(demand.kind.types)


def _holding_bytes(holding: Holding) -> int:
    return 64 + 64 * len(holding.inventory.leases) + 16 * len(holding.inventory.batches)


def _add_demands(message: peer_pb2.LinkRequest, demands: Sequence[Demand]) -> None:
    for demand in demands:
        message.demand.entries.add(
            id=demand.id,
            tenant=demand.kind.tenant_id,
            queue=demand.kind.queue,
            types=demand.kind.types,
            free_slots=demand.free_slots,
        )


def _demand(message: peer_pb2.DemandEntry) -> Demand:
    kind = Kind(TenantId(message.tenant), message.queue, tuple(message.types))
    return Demand(message.id, kind, message.free_slots)


def _add_offers(message: peer_pb2.LinkRequest, offers: Sequence[Offer]) -> None:
    for offer in offers:
        message.availability.entries.add(demand_id=offer.demand_id, ready_count=offer.count, order=offer.order)


def _offer(message: peer_pb2.AvailabilityEntry) -> Offer:
    return Offer(message.demand_id, message.ready_count, message.order)


def _add_waiting(message: peer_pb2.LinkRequest, entries: Sequence[Entry]) -> None:
    add = message.waiting.jobs.add
    for entry in entries:
        add(
            tenant=entry.tenant_id,
            id=entry.id,
            shard=entry.shard,
            queue=entry.queue,
            type=entry.type,
            priority=entry.priority,
            due_us=entry.due_us,
            size=entry.size,
            start_by=entry.start_by,
            concurrency_key=entry.concurrency_key,
        )


def _entry(message: peer_pb2.WaitingJob) -> Entry:
    return Entry(
        TenantId(message.tenant),
        JobId(ids.parse_name("waiting.jobs.id", message.id, "jobs")),
        ShardNo(message.shard),
        message.queue,
        message.type,
        message.priority,
        message.due_us,
        message.size,
        message.start_by if message.HasField("start_by") else None,
        message.concurrency_key,
    )


def _add_settled(message: peer_pb2.LinkRequest, leases: Sequence[Lease]) -> None:
    for lease in leases:
        message.settled.leases.add(job=lease.job_id, fence=lease.fence)


def _add_proven(message: peer_pb2.LinkRequest, leases: Sequence[Lease]) -> None:
    for lease in leases:
        message.proven.leases.add(job=lease.job_id, fence=lease.fence)


def _lease(field: str, message: peer_pb2.LeaseRef) -> Lease:
    return Lease(JobId(ids.parse_name(f"{field}.job", message.job, "jobs")), Fence(message.fence))


def _add_orders(message: peer_pb2.LinkRequest, orders: Sequence[Order]) -> None:
    for order in orders:
        directive = codec.directive_message(Directive(0, order.kind, order.job_id, order.fence, order.reason))
        message.directives.entries.add(session=order.session_id, directive=directive)


def _order(message: peer_pb2.SessionDirective) -> Order:
    directive = message.directive
    return Order(
        _session_id("directives.session", message.session),
        _DIRECTIVES[directive.kind],
        codec.job_id("directives.directive.job", directive.job) if directive.job else None,
        Fence(directive.fence) if directive.fence else None,
        directive.reason,
    )


def _add_holdings(message: peer_pb2.LinkRequest, holdings: Sequence[Holding]) -> None:
    for holding in holdings:
        held = holding.inventory
        leases = [worker_pb2.HeldLease(job=codec.job_name(job), fence=fence) for job, fence in held.leases]
        message.inventories.add(
            session=holding.session_id,
            tenant=holding.tenant_id,
            inventory=worker_pb2.Inventory(leases=leases, batches=held.batches),
            beat_seq=held.seq,
        )


def _holding(message: peer_pb2.SessionInventory) -> Holding:
    return Holding(
        _session_id("inventories.session", message.session),
        TenantId(message.tenant),
        codec.inventory(message.inventory, message.beat_seq),
    )


def _add_sessions_ended(message: peer_pb2.LinkRequest, sessions: Sequence[SessionId]) -> None:
    message.sessions_ended.sessions.extend(sessions)


def _add_freed(message: peer_pb2.LinkRequest, gates: Sequence[Gate]) -> None:
    for gate in gates:
        message.freed.gates.add(tenant=gate.tenant_id, queue=gate.queue, key=gate.key)


def _session_id(field: str, id: str) -> SessionId:
    return SessionId(ids.parse_name(field, id, "sessions"))


def _grant(message: peer_pb2.ClaimedJob, wish: ClaimWish) -> Grant:
    lease = message.lease
    origin = None
    if message.schedule_uid:
        origin = JobOrigin(
            ScheduleUid(message.schedule_uid),
            lease.schedule.removeprefix("schedules/"),
            _datetime(lease.nominal_time),
            message.occurrence_generation,
        )
    return Grant(
        tenant_id=wish.tenant_id,
        job_id=codec.job_id("jobs.lease.job", lease.job),
        shard=ShardNo(message.shard),
        fence=Fence(lease.fence),
        session_id=wish.session_id,
        attempt=lease.attempt,
        attempts_counted=lease.attempts_counted,
        max_attempts=lease.max_attempts,
        type=lease.type,
        queue=lease.queue,
        priority=lease.priority,
        payload=lease.payload.data,
        content_type=lease.payload.content_type,
        headers=dict(lease.headers) or None,
        effect_key=lease.effect_key,
        generation=message.generation,
        run_timeout_s=_seconds(lease.run_timeout),
        deadline_s=_seconds(lease.deadline) if lease.HasField("deadline") else None,
        due_at=_datetime(lease.due_time),
        traceparent=lease.traceparent,
        tracestate=lease.tracestate,
        origin=origin,
    )


def _seconds(span: Duration) -> float:
    """To the microsecond, as the database tells them: the sum of two floats can be off in its last digit."""
    return round(codec.seconds(span), 6)


def _datetime(stamp: Timestamp) -> datetime:
    """ToDatetime, at a third of its cost."""
    return _EPOCH + timedelta(seconds=stamp.seconds, microseconds=stamp.nanos // 1_000)
