"""The sessions that talk to this coordinator, and what is on its way to them.

A unary Lease answer has no acknowledgement, so each answer is kept as a *delivery* until the worker proves its receipt:
by naming its batch in the next Lease, by an inventory, or by asking again with the same request_id. What stays
unproven is given back; the attempt does not count.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from rota.domain import limits
from rota.domain.fairness import Wants
from rota.domain.ids import CoordinatorId, Fence, JobId, SessionId
from rota.domain.model import DirectiveKind, Grant, Session, SessionState
from rota.domain.portions import Portions

CALLS_KEPT = 4
"""Lease calls of one poller that are remembered: a copy that comes later than so many others is not known as one."""

BATCH_STEP = 1 << 16
"""Numbers of one coordinator's batches lie so far apart, with those of others in between: one that a worker names is
nobody else's, wherever it names it."""

BATCH_MAX = 1 << 62
"""What claims to be a batch from here on is none: batches begin with milliseconds and count answers."""


@dataclass(slots=True)
class Delivery:
    """The grants of one Lease answer. `sent_at` is monotonic; `asked`: whether it arrived, since it was sent last."""

    batch: int
    poller: int
    request_id: str
    grants: list[Grant]
    sent_at: float
    proven: bool = False
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Directive:
    """A request to a worker, repeated until acknowledged. `id` 0 needs no acknowledgement."""

    id: int
    kind: DirectiveKind
    job: JobId | None = None
    fence: Fence | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a worker says it holds: leases, and for each poller the last batch received. `seq` is its beat's, 0 where
    it came without one."""

    leases: frozenset[tuple[JobId, Fence]]
    batches: Mapping[int, int]
    seq: int = 0


@dataclass(slots=True)
class Member:
    """One session as this coordinator sees it."""

    session: Session
    tenant: str
    next_batch: int
    deliveries: list[Delivery] = field(default_factory=list)
    directives: dict[int, Directive] = field(default_factory=dict)
    push: Callable[[Directive], None] | None = None
    """Sends a directive over the open stream, if there is one."""
    draining: bool = False
    seen_at: float = 0.0
    """When this coordinator first heard of it, monotonic, as the following two."""
    last_poll_at: float = 0.0
    last_beat_at: float = 0.0
    free_slots: int = 0
    inventory_seq: int = 0
    asked_by: dict[CoordinatorId, None] = field(default_factory=dict)
    """Peers that wait for its next inventory."""
    streams: int = 0
    beats_unanswered: int = 0
    slow_down_at: float | None = None
    """When it was last asked to poll less, monotonic; None: it may poll as it likes."""

    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _calls: dict[int, list[str]] = field(default_factory=dict)
    """For each poller the request_ids of its last calls."""

    @property
    def id(self) -> SessionId:
        return self.session.id

    @property
    def wants(self) -> Wants:
        return Wants(self.session.tenant_id, self.session.queues, frozenset(self.session.types))

    def direct(
        self, kind: DirectiveKind, job: JobId | None = None, fence: Fence | None = None, reason: str = ""
    ) -> None:
        """Asks the worker for something, now if its stream is open, and with every beat until it acknowledges."""
        for known in self.directives.values():
            if (known.kind, known.job, known.fence) == (kind, job, fence):
                return
        if len(self.directives) >= limits.DIRECTIVES_MAX:
            self.directives.clear()
            kind, job, fence, reason = DirectiveKind.RESYNC, None, None, "too many directives are unanswered"
        directive = Directive(next(self._ids), kind, job, fence, reason)
        self.directives[directive.id] = directive
        if self.push is not None:
            self.push(directive)

    def withdraw(self, kind: DirectiveKind) -> None:
        """Asks no more for this, where it was not done yet."""
        self.directives = {id: d for id, d in self.directives.items() if d.kind is not kind}

    def acknowledge(self, ids: Iterable[int]) -> None:
        for id in ids:
            self.directives.pop(id, None)

    def next_directives(self) -> list[Directive]:
        """The oldest, as many as go into one answer."""
        return list(itertools.islice(self.directives.values(), limits.DIRECTIVES_PER_ANSWER_MAX))

    def is_overtaken(self, poller: int, request_id: str) -> bool:
        """Whether the poller has made another call since this one: it is a copy that was long on its way. Nobody waits
        for it, and the batch that it names says nothing."""
        calls = self._calls.setdefault(poller, [])
        if request_id in calls:
            return calls[-1] != request_id
        calls.append(request_id)
        del calls[:-CALLS_KEPT]
        return False

    def number_batch(self) -> int:
        """The number of a batch to come."""
        batch = self.next_batch
        self.next_batch += BATCH_STEP
        return batch

    def deliver(self, batch: int, poller: int, request_id: str, grants: list[Grant], now: float) -> Delivery:
        delivery = Delivery(batch, poller, request_id, grants, now)
        self.deliveries.append(delivery)
        return delivery

    def delivery_of(self, job: JobId, fence: Fence) -> Delivery | None:
        """The answer that a lease travels in, until it is settled."""
        for delivery in self.deliveries:
            if any((grant.job_id, grant.fence) == (job, fence) for grant in delivery.grants):
                return delivery
        return None

    def replay(self, poller: int, request_id: str, now: float) -> Delivery | None:
        """The delivery that answered this very call before: asking again proves nothing, but gets it again."""
        for delivery in self.deliveries:
            if delivery.poller == poller and delivery.request_id == request_id:
                if now - delivery.sent_at > limits.LEASE_REPLAY_S:
                    return None
                delivery.sent_at = now
                delivery.asked = False
                return delivery
        return None

    def acknowledge_batch(self, poller: int, ack_batch: int) -> tuple[list[Delivery], list[Delivery]]:
        """A fresh call of a poller: the batch that it names arrived, its other unproven ones did not.

        Takes both out: (arrived, lost).
        """
        self._go_beyond(ack_batch)
        own = [d for d in self.deliveries if d.poller == poller]
        self.deliveries = [d for d in self.deliveries if d.poller != poller]
        arrived = [d for d in own if d.proven or d.batch == ack_batch]
        return arrived, [d for d in own if not d.proven and d.batch != ack_batch]

    def take_inventory(self, inventory: Inventory) -> bool:
        """Marks as proven what the worker has received by its own word. It is what RESYNC asks for. False: a newer
        one has overtaken it, so that it says nothing."""
        if 0 < inventory.seq < self.inventory_seq:
            return False
        self.inventory_seq = max(self.inventory_seq, inventory.seq)
        self.withdraw(DirectiveKind.RESYNC)
        for delivery in self.deliveries:
            if inventory.batches.get(delivery.poller, 0) >= delivery.batch:
                delivery.proven = True
        for batch in inventory.batches.values():
            self._go_beyond(batch)
        return True

    def _go_beyond(self, batch: int) -> None:
        """Keeps batches growing for a worker that comes back from a coordinator with higher numbers: an inventory
        that names its batch would seem to speak of ours as well."""
        if batch < BATCH_MAX:
            mine = self.next_batch % BATCH_STEP
            self.next_batch = max(self.next_batch, (batch // BATCH_STEP + 1) * BATCH_STEP + mine)

    def must_ask(self, now: float, after_s: float) -> bool:
        """Whether an answer has been without proof for so long, and its worker was not asked about it yet."""
        silent = [d for d in self.deliveries if not d.proven and not d.asked and now - d.sent_at >= after_s]
        for delivery in silent:
            delivery.asked = True
        return bool(silent)

    def undelivered(self, now: float, delivery_ttl_s: float) -> list[Delivery]:
        """Takes out the deliveries whose receipt was not proven in time, and forgets those that are settled."""
        late = [d for d in self.deliveries if not d.proven and now - d.sent_at >= delivery_ttl_s]
        gone = {id(d) for d in late}
        self.deliveries = [
            d
            for d in self.deliveries
            if id(d) not in gone and not (d.proven and now - d.sent_at > limits.LEASE_REPLAY_S)
        ]
        return late

    @property
    def active(self) -> bool:
        return self.session.state is SessionState.ACTIVE and not self.draining


class Members:
    """The sessions known here, by id."""

    def __init__(self) -> None:
        self.portions = Portions(limits.SESSIONS_MAX)
        self._members: dict[SessionId, Member] = {}

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self._members.values()))

    def delivering(self) -> list[Member]:
        """Those with answers that are not settled: a few of ten thousand that wait."""
        return [member for member in self._members.values() if member.deliveries]

    def __contains__(self, session: object) -> bool:
        return session in self._members

    def get(self, session: SessionId) -> Member | None:
        return self._members.get(session)

    def add(self, session: Session, tenant: str, first_batch: int, now: float) -> Member:
        """Batches count from the database's clock, so that they grow across restarts. `first_batch` modulo BATCH_STEP
        is this coordinator's own."""
        known = self._members.get(session.id)
        if known is None:
            known = self._members[session.id] = Member(session, tenant, first_batch, seen_at=now)
            self.portions.add(session.tenant_id)
            known.draining = session.state is SessionState.DRAINING
            known.free_slots = session.free_slots
        return known

    def remove(self, session: SessionId) -> Member | None:
        member = self._members.pop(session, None)
        if member is not None:
            self.portions.remove(member.session.tenant_id)
        return member
