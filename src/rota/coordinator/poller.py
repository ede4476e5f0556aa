"""Reads the due ranges of owned shards into memory.

Two cursors a shard. The *ahead* cursor moves forward only, up to the lookahead, as fast as pages are full. The *rescan*
cursor goes round behind it, a page at a time, from the shard's watermark: it finds what memory was never told of, such
as jobs that other coordinators created, inserts that committed behind the ahead cursor, and leases of an owner before.
"""

from collections.abc import Callable, Sequence

from rota.clock import Clock, DatabaseClock
from rota.coordinator.inflight import ADOPTED, Flight
from rota.coordinator.loop import Loop
from rota.coordinator.memory import Memory
from rota.domain import limits
from rota.domain.fairness import FIRST, REFILL_LANES_MAX, Entry, LaneKey, Position
from rota.domain.ids import CoordinatorId, SessionId, ShardNo
from rota.domain.model import DirectiveKind, JobState, Outcome
from rota.domain.transition import Ending
from rota.service.completions import LostLease
from rota.store.port import DueRow, LeaseStore, ShardStore

TICK_S = 1.0
RESCAN_S = 2.0
"""Also the tick while nothing is due: jobs created anywhere are heard of, and this finds those that were not."""
REFILL_S = 0.2
"""The tick while memory has no room for all: half of a lane lasts longer than this."""
PAGE_ROWS = 4_096
"""Rows of one read over all shards."""
WATERMARK_EVERY_S = 60.0
WATERMARK_LAG_US = 60_000_000
"""No watermark is younger than this, since a transaction that began before may still insert behind it."""

_ZERO_ID = FIRST.id


class Poller(Loop):
    name = "poller"

    def __init__(
        self,
        memory: Memory,
        leases: LeaseStore,
        shards: ShardStore,
        coordinator: CoordinatorId,
        clock: Clock,
        database_clock: DatabaseClock,
        *,
        give_back: Callable[[Sequence[LostLease]], None],
    ) -> None:
        super().__init__(clock)
        self._memory = memory
        self._leases = leases
        self._shards = shards
        self._coordinator = coordinator
        self._database_clock = database_clock
        self._give_back = give_back
        self._ahead: dict[ShardNo, Position] = {}
        self._rescan: dict[ShardNo, Position] = {}
        self._watermarks: dict[ShardNo, int] = {}
        self._stored_watermarks: dict[ShardNo, int] = {}
        self._rescan_at = 0.0
        self._watermarks_at = 0.0
        memory.on_rewind = self.rewind

    def rewind(self, shard: ShardNo, position: Position) -> None:
        """Something before the ahead cursor had no room in memory: read from there again."""
        before = Position(position.due_us - 1, _ZERO_ID)
        if before < self._ahead.get(shard, FIRST):
            self._ahead[shard] = before

    async def begin(self, shards: Sequence[ShardNo]) -> None:
        """Starts on shards just acquired, from their watermarks."""
        stored = await self._shards.watermarks(shards)
        for marks in (self._watermarks, self._stored_watermarks):
            # What was known of them is over: a database that is older than it takes work up that was done.
            for shard in shards:
                marks.pop(shard, None)
            marks |= stored
        for shard in shards:
            self._ahead[shard] = self._start(shard)
            self._rescan[shard] = self._start(shard)
        self.wake()

    async def step(self) -> float:
        owned = sorted(self._memory.terms)
        if not owned:
            return TICK_S
        full = await self._read_ahead(owned)
        more = await self._refill()
        now = self.clock.monotonic()
        if now >= self._rescan_at:
            self._rescan_at = now + RESCAN_S
            await self._read_again(owned)
        if now >= self._watermarks_at:
            self._watermarks_at = now + WATERMARK_EVERY_S
            await self._follow_watermarks(owned)
            await self._note_watermarks()
        if full or more:
            return 0.0
        if self._memory.ready.leaves_out:
            return REFILL_S
        return TICK_S if len(self._memory.ready) or self._memory.timers else RESCAN_S

    async def _read_ahead(self, owned: Sequence[ShardNo]) -> bool:
        until_us = int((self._database_clock.now() + limits.LOOKAHEAD_S) * 1e6)
        page = max(PAGE_ROWS // len(owned), 1)
        started = {shard: self._ahead.get(shard, FIRST) for shard in owned}
        rows = await self._read(list(started.items()), until_us, page)
        read: dict[ShardNo, int] = {}
        last: dict[ShardNo, Position] = {}
        for row in rows:
            read[row.entry.shard] = read.get(row.entry.shard, 0) + 1
            last[row.entry.shard] = row.entry.position
        for shard in owned:
            if self._ahead.get(shard, FIRST) != started[shard]:
                continue
            if read.get(shard, 0) >= page:
                self._ahead[shard] = last[shard]
            else:
                self._ahead[shard] = max(started[shard], Position(until_us, _ZERO_ID))
        self._take(rows)
        # A shard that memory had no room for was rewound: reading its page again at once would find no more.
        return any(count >= page and self._ahead.get(shard) == last[shard] for shard, count in read.items())

    async def _read_again(self, owned: Sequence[ShardNo]) -> None:
        page = max(PAGE_ROWS // len(owned), 1)
        after = {shard: self._rescan.get(shard, self._start(shard)) for shard in owned}
        until_us = max(self._ahead[shard].due_us for shard in owned)
        rows = await self._read(list(after.items()), until_us, page)
        read: dict[ShardNo, list[DueRow]] = {}
        for row in rows:
            read.setdefault(row.entry.shard, []).append(row)
        oldest_us = int(self._database_clock.now() * 1e6) - WATERMARK_LAG_US
        for shard in owned:
            found = read.get(shard, [])
            if after[shard] == self._start(shard):
                first_us = found[0].entry.due_us - 1 if found else oldest_us
                self._watermarks[shard] = max(self._watermarks.get(shard, FIRST.due_us), min(first_us, oldest_us))
            self._rescan[shard] = found[-1].entry.position if len(found) >= page else self._start(shard)
        self._take(rows)

    async def _refill(self) -> bool:
        """True when there may be more lanes to read."""
        until_us = int((self._database_clock.now() + limits.LOOKAHEAD_S) * 1e6)
        # Read in the order given, so the first is popped first.
        pending = self._memory.ready.refillable()[::-1]
        more = len(pending) >= REFILL_LANES_MAX
        try:
            while pending:
                lane, left_out = pending.pop()
                await self._refill_lane(lane, left_out, until_us)
        finally:
            # What the store failed on stays left out.
            for lane, left_out in pending:
                for shard, position in left_out.items():
                    self._memory.ready.leave_out(lane, shard, position)
        return more

    async def _refill_lane(self, lane: LaneKey, left_out: dict[ShardNo, Position], until_us: int) -> None:
        # The first job left out is to be read itself, so the read starts just before it.
        after = [(s, Position(p.due_us - 1, _ZERO_ID)) for s, p in left_out.items() if s in self._memory.terms]
        page = max(PAGE_ROWS // max(len(after), 1), 1)
        try:
            while after:
                rows = await self._read(after, until_us, page, lane)
                self._take(rows)
                read: dict[ShardNo, list[DueRow]] = {}
                for row in rows:
                    read.setdefault(row.entry.shard, []).append(row)
                after = [(s, found[-1].entry.position) for s, found in read.items() if len(found) >= page]
                if self._memory.ready.is_full(lane):
                    break
        finally:
            # Whatever was not read, for want of room or because the store failed, stays left out.
            for shard, position in after:
                self._memory.ready.leave_out(lane, shard, position)

    async def _read(
        self, after: Sequence[tuple[ShardNo, Position]], until_us: int, page: int, lane: LaneKey | None = None
    ) -> list[DueRow]:
        # A row may be claimed, ended or put back between the moment that the read sees it and the moment that its
        # answer is used: taken then, a finished job would be offered again, or its lease watched for ever.
        self._memory.moved.clear()
        return await self._leases.read_due(after, until_us, page, lane)

    def _take(self, rows: Sequence[DueRow]) -> None:
        waiting: list[Entry] = []
        lost: list[LostLease] = []
        strangers: dict[SessionId, None] = {}
        for row in rows:
            entry = row.entry
            if entry.id in self._memory.moved:
                continue
            if row.state in (JobState.SCHEDULED, JobState.RETRY_WAIT):
                waiting.append(entry)
            elif row.session_id is None or not row.session_alive:
                lost.append(LostLease(entry.tenant_id, entry.id, row.fence, Ending(Outcome.LEASE_LOST)))
            elif entry.id not in self._memory.claiming:
                self._follow(row, row.session_id, strangers)
        self._memory.accept(waiting)
        for session in strangers:
            self._memory.direct(session, DirectiveKind.RESYNC, reason=ADOPTED)
        if lost:
            self._give_back(lost)

    def _follow(self, row: DueRow, session: SessionId, strangers: dict[SessionId, None]) -> None:
        """A lease of a living session: one that another coordinator granted, or cancelled."""
        flight = self._memory.in_flight.get(row.entry.id)
        if flight is None or flight.fence < row.fence:
            self._adopt(row, session, strangers)
            flight = None
        known = flight is not None and (flight.fence > row.fence or flight.cancelling)
        if row.state is JobState.CANCELLING and not known:
            self._memory.cancel_requested(session, row.entry.id, row.fence, "")

    def _adopt(self, row: DueRow, session: SessionId, strangers: dict[SessionId, None]) -> None:
        now = self.clock.monotonic()
        leased_for_s = row.leased_for_s or 0.0
        flight = Flight(
            row.entry.tenant_id,
            row.entry.id,
            row.entry.shard,
            row.fence,
            session,
            now + max(row.run_timeout_s - leased_for_s, 0.0),
            asked_at=now - leased_for_s,
            on_its_way=True,
        )
        member = self._memory.members.get(session)
        delivery = None if member is None else member.delivery_of(row.entry.id, row.fence)
        if delivery is not None:
            # Granted here, before the shard was lost and found: an inventory tells of it by its batch, as of any.
            flight.poller, flight.batch, flight.proven = delivery.poller, delivery.batch, delivery.proven
            flight.on_its_way = False
        else:
            strangers[session] = None
        self._memory.adopt(flight)

    async def _follow_watermarks(self, owned: Sequence[ShardNo]) -> None:
        """A mark that somebody has set back, since a live job lies before it, holds here too: from there on again."""
        for shard, mark in (await self._shards.watermarks(owned)).items():
            if mark < self._stored_watermarks.get(shard, FIRST.due_us):
                self._watermarks[shard] = self._stored_watermarks[shard] = mark
                self._rescan[shard] = self._start(shard)

    async def _note_watermarks(self) -> None:
        moved = {
            shard: mark
            for shard, mark in self._watermarks.items()
            if shard in self._memory.terms
            and mark - self._stored_watermarks.get(shard, FIRST.due_us) > WATERMARK_LAG_US
        }
        if moved:
            await self._shards.set_watermarks(moved, self._coordinator)
            self._stored_watermarks |= moved

    def _start(self, shard: ShardNo) -> Position:
        return Position(self._watermarks.get(shard, FIRST.due_us), _ZERO_ID)
